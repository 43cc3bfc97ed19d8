// Borrowed instructions: one instruction of CPython's own loop, run on our values.
//
// Some instructions rest on C functions that libpython does not export. For each we keep a function whose code is
//     LOAD_FAST 0 .. LOAD_FAST n-1, <the instruction>, RETURN_VALUE
// and call it in CPython's own loop. The code has no RESUME, so its frame counts as incomplete: it appears in no
// traceback, in no sys._getframe(), and produces no trace event.
#pragma once

#include "base/ref.h"
#include "py/frame.h"

namespace alternator::py {

// Makes the functions. Returns false with an exception set.
bool prepare_borrowed();

// Runs a borrowed instruction (a row of opcode.def that says Borrow) on its operands, bottom of the stack first.
Ref<> run_borrowed(Op op, PyObject* const* operands, int count);

// Lets CPython's loop start an empty function: its RESUME serves what is pending. False if that raised.
bool run_empty_function(ThreadState* ts);

// Whether a frame is that of a function made here, which must run in CPython's own loop.
extern PyObject* borrowed_globals;
inline bool is_borrowed(const Frame* frame) { return frame->f_globals == borrowed_globals; }

}  // namespace alternator::py
