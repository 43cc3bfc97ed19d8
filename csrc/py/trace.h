// sys.settrace and sys.setprofile: the events that CPython's loop gives for an exception, given by ours.
//
// Frames run in CPython's own loop while tracing is on. When it is switched on below a frame of ours, that frame is
// handed over at its next instruction; if it is left by an exception first, these are the events that are due.
#pragma once

#include "py/frame.h"

namespace alternator::py {

// 'exception' in the current frame. The trace function's own exception takes the place of the program's.
void trace_exception(ThreadState* ts);
// 'return' of the current frame, which an exception leaves.
void trace_unwinding(ThreadState* ts);

}  // namespace alternator::py
