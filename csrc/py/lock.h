// Locks between threads. They are Python's own, threading.RLock: who waits for one lets go of the GIL, and runs signal handlers
// if it is the main thread; the thread that has one may take it again; Python code can take it as well.
#pragma once

#include "base/ref.h"

namespace alternator::py {

// Has a lock while it lives. Neither taking a free lock nor letting go of one loses the GIL.
class Hold {
 public:
  // `waits`: until the lock is free. Null stands for a lock that nobody else wants.
  Hold(PyObject* lock, bool waits);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // False: another thread has it, or a signal handler raised an exception, which is set.
  bool is_held() const { return held_; }

 private:
  Ref<> lock_;
  bool held_;
};

}  // namespace alternator::py
