// id(): an address is another one in each run. As the key of a dict or set that the trace made, or compared with another
// one, it tells which objects are the same, which is guarded (record_compared); anything else that is done with it, or
// leaving the region, is a break. It is known by being a number that is no other object, as those that are followed.
#include "record/callable.h"
#include "record/recorder.h"

namespace alternator::record {

using py::Op;

void Recorder::record_address(PyObject* object) {
  if (source::sort_of(object) == source::Sort::Primitive) {
    // Which of equal numbers are one object is not watched. A function of the row Keyed does not look for those.
    if (recorder_of_caller() != RecordedBy::Keyed) {
      return abort(AbortReason::UnknownRead, "the address of an object");
    }
  }
  if (!deciding_) {
    return abort(AbortReason::UnknownRead, "the address of an object");  // C code gets it
  }
  record_compared(object);
  Followed followed;
  followed.is_address = true;
  await(std::move(followed), nullptr);
}

// The number of the thread that runs: the same in all of a trace, another one in another call.
void Recorder::record_thread_request() {
  if (!deciding_) {
    return abort(AbortReason::UnknownRead, "the number of a thread");
  }
  Followed followed;
  followed.is_address = true;
  await(std::move(followed), nullptr);
}

bool Recorder::is_address(PyObject* value) const {
  auto found = followed_.find(value);
  return found != followed_.end() && found->second.is_address;
}

bool Recorder::is_own_table(PyObject* object) const {
  return (PyDict_CheckExact(object) || PyAnySet_CheckExact(object)) && !graph_.is_outside(object);
}

bool Recorder::finds_by_address(Op op) const {
  switch (op) {
    case Op::kBUILD_MAP:
    case Op::kBUILD_SET: return true;
    case Op::kBINARY_SUBSCR:
    case Op::kSTORE_SUBSCR:
    case Op::kDELETE_SUBSCR: return is_own_table(peek(2));
    case Op::kCONTAINS_OP: return is_own_table(peek(1));
    case Op::kCOMPARE_OP: {
      int comparison = py::Instruction(position_.instruction).oparg;
      return (comparison == Py_EQ || comparison == Py_NE) && is_address(peek(1)) && is_address(peek(2));
    }
    default: return false;
  }
}

bool Recorder::finds_by_address(const Contract* contract, PyObject* callable, PyObject* const* arguments,
                                Py_ssize_t count) const {
  if (contract == nullptr) {
    return false;
  }
  PyObject* self = receiver_of(callable);
  PyObject* first = self != nullptr ? self : count > 0 ? arguments[0] : nullptr;
  bool by_key = contract->first == Reads::Key || contract->first == Reads::Length || changes_entry(*contract);
  return contract->first == Reads::Identity || (by_key && first != nullptr && is_own_table(first));
}

}  // namespace alternator::record
