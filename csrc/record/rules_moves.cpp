// Primitives that the start of a region holds: moving one about needs no guard, doing anything with it does.
#include "py/body.h"
#include "py/generator.h"
#include "py/names.h"
#include "py/unique.h"
#include "record/recorder.h"

namespace alternator::record {

using py::Op;

namespace {

// `container[key] = value` keeps the value as it is, or gives it to Python code.
bool stores_unseen(PyObject* container) {
  PyObject* method = _PyType_Lookup(Py_TYPE(container), py::names.__setitem__);
  return py::body_kind(container) != py::BodyKind::None || (method != nullptr && PyFunction_Check(method));
}

bool is_concatenation(PyObject* left, PyObject* right) {
  return (PyList_CheckExact(left) && PyList_CheckExact(right)) || (PyTuple_Check(left) && PyTuple_Check(right));
}

}  // namespace

void Recorder::use(PyObject* value) {
  if (auto found = followed_.find(value); found != followed_.end()) {
    return rely_on(found->second, value);
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

void Recorder::rely_on(const Followed& followed, PyObject* value) {
  if (followed.is_address) {
    return keying_ ? void() : abort(AbortReason::UnknownRead, "the address of an object");
  }
  if (followed.is_text()) {
    for (const Ref<>& part : followed.parts) {
      use(part.get());
    }
    return;
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
  int deciding = py::op_row(op).torch_operands;
  bool torch = is_tensor_operation(position_.stack_top - deciding, deciding);
  if (!torch && (compute_symbols(op, oparg) || make_text(op, oparg))) {
    return;
  }
  if (op == Op::kBINARY_OP && is_concatenation(peek(2), peek(1))) {
    return;
  }
  keying_ = finds_by_address(op);
  int count = py::count_touched(op, oparg);
  for (int depth = 1; depth <= count && !ended_; ++depth) {
    use_operand(op, depth, torch);
  }
  keying_ = false;
}

// The operand `depth` values below the top, by its role.
void Recorder::use_operand(Op op, int depth, bool torch) {
  PyObject*& operand = position_.stack_top[-depth];
  switch (py::role_of(op, depth)) {
    case py::Role::Moved:
    case py::Role::OfCall: return;
    case py::Role::Stored:
      if (torch) {
        return give_to_torch(operand);
      }
      return op != Op::kSTORE_SUBSCR || stores_unseen(peek(2)) ? void() : use_deep(operand);
    case py::Role::LookedInto: return torch ? give_to_torch(operand) : use_deep(operand);
    case py::Role::Used:
    case py::Role::Truth:
    case py::Role::Noneness:
      if (torch) {
        return give_to_torch(operand);
      }
      return op == Op::kIS_OP ? use_identity(&operand) : use(operand);
  }
}

// Which object it is decides. A copy is no other object; what it stands for may be one, and takes its place.
void Recorder::use_identity(PyObject** operand) {
  int slot = start_->slot_of_copy(*operand);
  bool followed = followed_.count(*operand) != 0;
  if (slot < 0 && !followed) {
    return;
  }
  use(*operand);
  if (slot >= 0) {
    Py_SETREF(*operand, Py_NewRef(start_->at(slot)));
  } else if (PyLong_CheckExact(*operand) && py::is_small_int(*operand)) {
    Py_SETREF(*operand, PyLong_FromLong(PyLong_AsLong(*operand)));
  } else {
    abort(AbortReason::UnknownRead, "which of equal numbers are the same object");
  }
}

}  // namespace alternator::record
