#include "record/fault.h"

namespace alternator::record {

thread_local constinit Fault* current_fault = nullptr;

namespace {

void let_look(Ref<> Fault::* callback) {
  if (current_fault == nullptr || !(current_fault->*callback)) {
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<> looked = steal(PyObject_CallNoArgs((current_fault->*callback).get()));
  if (!looked) {
    PyErr_WriteUnraisable((current_fault->*callback).get());
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace

void announce_roll_back() { let_look(&Fault::rolling_back); }

TraceWatch::TraceWatch() { let_look(&Fault::begins); }
TraceWatch::~TraceWatch() { let_look(&Fault::rolled_back); }

}  // namespace alternator::record
