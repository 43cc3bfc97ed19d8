// Primitives that the start of a region holds: moving one about needs no guard, doing anything with it does.
#include "py/generator.h"
#include "record/operands.h"
#include "record/recorder.h"

namespace alternator::record {

using py::Op;

namespace {

bool is_concatenation(PyObject* left, PyObject* right) {
  return (PyList_CheckExact(left) && PyList_CheckExact(right)) || (PyTuple_Check(left) && PyTuple_Check(right));
}

}  // namespace

void Recorder::use(PyObject* value) {
  if (auto found = followed_.find(value); found != followed_.end()) {
    const Followed& followed = found->second;
    if (followed.is_address) {
      return keying_ ? void() : abort(AbortReason::UnknownRead, "the address of an object");
    }
    if (followed.symbol) {
      return settle(followed.symbol.get());
    }
    if (followed.operation >= 0) {
      use(followed.left.get());
      return use(followed.right.get());
    }
    return followed.is_item() ? graph_.read(followed.node, guard::Kind::IteratorItem, nullptr, followed.ahead, value)
                              : graph_.read_value_of_number(followed.node, value);
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

void Recorder::use_all() {
  for (const auto& copy : start_->copies()) {
    use(copy.first.get());
  }
  std::vector<PyObject*> copies;
  for (const auto& [copy, source] : followed_) {
    copies.push_back(copy);
  }
  for (PyObject* copy : copies) {
    use(copy);
  }
}

void Recorder::use_deep(PyObject* value) {
  visit_deep(value, [this](PyObject* object) { use(object); });
}

// Objects that the collector does not know hold none of the copies: C code made them, and was seen using what it made
// them of.
void Recorder::visit_deep(PyObject* value, const std::function<void(PyObject*)>& visit) {
  if (value == nullptr || !follows_anything()) {
    return;
  }
  constexpr size_t kMost = 1000;
  std::unordered_set<PyObject*> seen;
  std::vector<PyObject*> open{value};
  while (!open.empty() && !ended_) {
    PyObject* object = open.back();
    open.pop_back();
    if (!seen.insert(object).second) {
      continue;
    }
    visit(object);
    if (graph_.is_outside(object) || source::sort_of(object) != source::Sort::Object || !PyObject_IS_GC(object)) {
      continue;
    }
    bool running = PyGen_CheckExact(object) && !py::is_resumable(reinterpret_cast<PyGenObject*>(object));
    if (seen.size() > kMost || running) {
      return use_all();
    }
    auto add = [](PyObject* child, void* to) {
      static_cast<std::vector<PyObject*>*>(to)->push_back(child);
      return 0;
    };
    Py_TYPE(object)->tp_traverse(object, add, &open);
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
  int deciding = count_deciding_operands(op);
  bool torch = is_tensor_operation(position_.stack_top - deciding, deciding);
  if (!torch && compute_symbols(op, oparg)) {
    return;
  }
  if (op == Op::kBINARY_OP && is_concatenation(peek(2), peek(1))) {
    return;
  }
  keying_ = finds_by_address(op);
  int count = only_moves(op) ? 0 : count_touched(op, oparg);
  Py_ssize_t depth = position_.stack_top - py::stack_base(position_.frame);
  for (int i = 1; i <= count && i <= depth; ++i) {
    if (is_stored(op, i) && !torch) {
      continue;
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
    if (torch) {
      give_to_torch(peek(i));
    } else {
      looks_into(op, i) ? use_deep(peek(i)) : use(peek(i));
    }
  }
  keying_ = false;
}

}  // namespace alternator::record
