#include "py/lock.h"

#include "base/error.h"
#include "py/names.h"

namespace alternator::py {

Hold::Hold(PyObject* lock, bool waits) : lock_(share(lock)), held_(lock == nullptr) {
  if (lock_) {
    Ref<> taken = steal(PyObject_CallMethodOneArg(lock_.get(), names.acquire, waits ? Py_True : Py_False));
    held_ = taken.get() == Py_True;
  }
}

Hold::~Hold() {
  if (!lock_ || !held_) {
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  [[maybe_unused]] Ref<> released = steal(PyObject_CallMethodNoArgs(lock_.get(), names.release));
  ALTERNATOR_CHECK(released, "a lock is let go of by the thread that has it");
  PyErr_Restore(type, value, traceback);
}

}  // namespace alternator::py
