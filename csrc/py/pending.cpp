#include "py/pending.h"

#include "py/borrow.h"

namespace alternator::py {

bool do_pending_work(ThreadState* ts) {
  // Signal handlers run here, so that they see the user's frame as the interrupted one.
  if (Py_MakePendingCalls() != 0) {
    return false;
  }
  // The rest (GIL requests, asynchronous exceptions) has no exported function: the first instruction of a function
  // that runs in CPython's own loop does it.
  if (has_pending_work(ts)) {
    return run_empty_function(ts);
  }
  return true;
}

namespace {

// The collector is one for all threads: it rests while any of them must not be disturbed. Guarded by the GIL.
int undisturbed_threads = 0;
bool collector_was_on = false;

}  // namespace

// CPython asks everywhere whether this is the main thread before it handles a signal: for a while, no thread is.
Undisturbed::Undisturbed(ThreadState* ts) : ts_(ts), main_thread_(_PyRuntime.main_thread) {
  if (undisturbed_threads++ == 0) {
    collector_was_on = PyGC_Disable();
  }
  if (main_thread_ == PyThread_get_thread_ident()) {
    _PyRuntime.main_thread = PYTHREAD_INVALID_THREAD_ID;
  }
}

Undisturbed::~Undisturbed() {
  if (main_thread_ == PyThread_get_thread_ident()) {
    _PyRuntime.main_thread = main_thread_;
    // A signal or a pending call that came in the meantime: the loop is told again. Not if there is none: nothing would
    // take it back, and CPython's loop, when it traces, asks for it until something has.
    if (_Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) ||
        _Py_atomic_load_relaxed(&ts_->interp->ceval.pending.calls_to_do)) {
      _Py_atomic_store_relaxed(&ts_->interp->ceval.eval_breaker, 1);
    }
  }
  if (--undisturbed_threads == 0 && collector_was_on) {
    PyGC_Enable();
  }
}

}  // namespace alternator::py
