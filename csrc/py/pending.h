// What a loop has to do now and then for the rest of the process: signals, pending calls, other threads' wish for the
// GIL, exceptions that another thread sent.
#pragma once

#include "py/frame.h"

namespace alternator::py {

inline bool has_pending_work(ThreadState* ts) { return _Py_atomic_load_relaxed(&ts->interp->ceval.eval_breaker) != 0; }

// Does it. False if a user's exception was raised.
bool do_pending_work(ThreadState* ts);

}  // namespace alternator::py
