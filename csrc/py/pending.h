// What a loop has to do now and then for the rest of the process: signals, pending calls, other threads' wish for the
// GIL, exceptions that another thread sent.
#pragma once

#include "py/frame.h"

namespace alternator::py {

inline bool has_pending_work(ThreadState* ts) { return _Py_atomic_load_relaxed(&ts->interp->ceval.eval_breaker) != 0; }

// Does it. False if a user's exception was raised.
bool do_pending_work(ThreadState* ts);

// While it lives, this thread runs no signal handler and collects no garbage, also in CPython's own loop. Both would run code
// that has nothing to do with what is going on.
class Undisturbed {
 public:
  explicit Undisturbed(ThreadState* ts);
  ~Undisturbed();
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  ThreadState* ts_;
  unsigned long main_thread_;
};

}  // namespace alternator::py
