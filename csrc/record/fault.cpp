#include "record/fault.h"

namespace alternator::record {

thread_local constinit Fault* current_fault = nullptr;

TraceEnd::~TraceEnd() {
  if (current_fault == nullptr || !current_fault->rolled_back) {
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<> looked = steal(PyObject_CallNoArgs(current_fault->rolled_back.get()));
  if (!looked) {
    PyErr_WriteUnraisable(current_fault->rolled_back.get());
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace alternator::record
