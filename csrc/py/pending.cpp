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

}  // namespace alternator::py
