// Primitives that the start of a region holds: moving one about needs no guard, doing anything with it does.
#include "record/operands.h"
#include "record/recorder.h"

namespace alternator::record {

using py::Op;

void Recorder::use(PyObject* value) {
  if (auto found = followed_.find(value); found != followed_.end()) {
    return graph_.read(found->second.node, guard::Kind::IteratorItem, nullptr, found->second.ahead, value);
  }
  int slot = value != nullptr ? start_->slot_of_copy(value) : -1;
  if (slot < 0 || read_slots_[slot]) {
    return;
  }
  if (!varying_.empty() && varying_[slot]) {
    return abort(AbortReason::VaryingNumber, start_->name_of(slot));
  }
  read_slots_[slot] = true;
  Ref<> name = steal(PyUnicode_FromString(start_->name_of(slot).c_str()));
  graph_.read_local(slot, name.get(), start_->at(slot));
}

// What C code finds in a value that it is given.
void Recorder::use_deep(PyObject* value, int depth) {
  if (value == nullptr || !follows_anything()) {
    return;
  }
  use(value);
  if (graph_.is_outside(value) || source::sort_of(value) != source::Sort::Object) {
    return;
  }
  if (depth < 8 && (PyList_Check(value) || PyTuple_Check(value))) {
    for (Py_ssize_t i = 0; i < Py_SIZE(value); ++i) {
      use_deep(PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i), depth + 1);
    }
    return;
  }
  if (depth < 8 && PyDict_Check(value)) {
    PyObject *key, *item;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item)) {
      use_deep(key, depth + 1);
      use_deep(item, depth + 1);
    }
    return;
  }
  // Iterators and the like: no telling what they hold.
  for (const auto& copy : start_->copies()) {
    use(copy.first.get());
  }
  for (const auto& [copy, source] : followed_) {
    use(copy);
  }
}

void Recorder::use_operands(Op op, int oparg) {
  if (!follows_anything()) {
    return;
  }
  if (op == Op::kRETURN_VALUE || op == Op::kYIELD_VALUE) {
    if (depth_ > 1 && position_.frame == position_.entry) {
      use_deep(peek(1));  // C code gets it
    }
    return;
  }
  int count = only_moves(op) ? 0 : count_touched(op, oparg);
  Py_ssize_t depth = position_.stack_top - py::stack_base(position_.frame);
  for (int i = 1; i <= count && i <= depth; ++i) {
    if (op == Op::kSTORE_SUBSCR && i == 3 && !source::is_tensor(peek(2))) {
      continue;  // the value is put into a container
    }
    if (op == Op::kIS_OP && followed_.count(peek(i)) != 0 && PyLong_CheckExact(peek(i))) {
      // CPython's small numbers are the same objects everywhere.
      use(peek(i));
      PyObject*& operand = position_.stack_top[-i];
      int overflow = 0;
      long number = PyLong_AsLongAndOverflow(operand, &overflow);
      if (!overflow) {
        Py_SETREF(operand, PyLong_FromLong(number));
      }
      continue;
    }
    if (op == Op::kIS_OP && start_->slot_of_copy(peek(i)) >= 0) {
      // A copy is no other object; what it stands for may be one.
      int slot = start_->slot_of_copy(peek(i));
      use(peek(i));
      PyObject*& operand = position_.stack_top[-i];
      Py_SETREF(operand, Py_NewRef(start_->at(slot)));
      continue;
    }
    use(peek(i));
  }
}

}  // namespace alternator::record
