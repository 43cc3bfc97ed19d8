// The innermost loop activation of a thread, CPython's or ours.
#pragma once

#include "py/frame.h"

namespace alternator::py {

// Its link, which lies in the loop's own part of the C stack.
inline const void* innermost_loop(ThreadState* ts) { return ts->cframe; }

// The file of the code that it runs; null if there is none.
inline PyObject* running_file(ThreadState* ts) {
  Frame* frame = current_frame(ts);
  return frame != nullptr ? frame->f_code->co_filename : nullptr;
}

}  // namespace alternator::py
