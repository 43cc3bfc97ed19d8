// Numbers that are another one at each call (a counter: `self.calls += 1`): what is computed with them is computed again at
// the exit, and they need a guard for their type alone. Anything else that is done with one relies on its value (use()).
#include "py/unique.h"
#include "record/recorder.h"

namespace alternator::record {

using guard::Kind;
using py::Op;
using source::is_number;

bool Recorder::is_safe(int operation) {
  int plain = operation >= NB_INPLACE_ADD ? operation - NB_INPLACE_ADD : operation;
  return plain == NB_ADD || plain == NB_SUBTRACT || plain == NB_MULTIPLY;
}

bool Recorder::read_moving_number(int node, Kind kind, PyObject* key, PyObject* value) {
  if (moving_ == nullptr || !leaves_what_it_reads_ || !is_number(value) || source::is_nan(value) ||
      moving_->count(graph_.name_of_read(node, kind, key, 0)) == 0) {
    return false;
  }
  int number = graph_.read_number(node, kind, key, 0, value);
  if (number < 0) {
    return false;  // its value was relied on before
  }
  Followed followed;
  followed.node = number;
  await(std::move(followed), value);
  return true;
}

void Recorder::await(Followed followed, PyObject* value) {
  awaited_number_ = std::move(followed);
  awaited_value_ = value;
  awaiting_ = position_.frame;
}

void Recorder::follow(PyObject** value, Followed followed) {
  PyObject* copy = py::unique_copy(*value);
  if (copy == nullptr) {
    return rely_on(followed, *value);
  }
  followed.kept = share(copy);
  followed_.emplace(copy, std::move(followed));
  Py_SETREF(*value, copy);
}

void Recorder::meet_awaited(const interp::Position& position) {
  if ((awaited_ || awaited_number_) && position.frame == awaiting_ &&
      position.stack_top > py::stack_base(position.frame)) {
    PyObject** top = &position.stack_top[-1];
    if (awaited_) {
      follow_item(top, *awaited_);
    } else if ((awaited_number_->is_text() ? PyUnicode_CheckExact(*top) : is_number(*top)) &&
               (awaited_value_ == nullptr || awaited_value_ == *top)) {
      follow(top, std::move(*awaited_number_));
    }
  }
  awaited_.reset();
  awaited_number_.reset();
}

// Whether a number is one whose value the trace does not rely on yet.
bool Recorder::is_moving(PyObject* value) const {
  auto found = followed_.find(value);
  if (found != followed_.end()) {
    return !found->second.is_item() && !found->second.is_address && !found->second.is_text();
  }
  int slot = start_->slot_of_copy(value);
  return slot >= 0 && !read_slots_[slot] &&
         (all_move_ || (moving_ != nullptr && moving_->count("L['" + start_->name_of(slot) + "']") != 0));
}

// Numbers from elsewhere than a slot have such a guard from the beginning, but for items of iterators.
void Recorder::read_class_of_number(PyObject* number) {
  if (int slot = start_->slot_of_copy(number); slot >= 0) {
    Ref<> name = steal(PyUnicode_FromString(start_->name_of(slot).c_str()));
    graph_.read_number(-1, Kind::Local, name.get(), slot, number);
  } else if (auto found = followed_.find(number); found != followed_.end() && found->second.is_item()) {
    use(number);
  }
}

bool Recorder::follow_arithmetic(int operation) {
  PyObject *left = peek(2), *right = peek(1);
  if (moving_ == nullptr || !is_safe(operation) || !is_number(left) || Py_TYPE(left) != Py_TYPE(right) ||
      !(is_moving(left) || is_moving(right))) {
    return false;
  }
  for (PyObject* operand : {left, right}) {
    is_moving(operand) ? read_class_of_number(operand) : use(operand);
  }
  Followed followed;
  followed.operation = operation;
  followed.left = share(left);
  followed.right = share(right);
  await(std::move(followed), nullptr);
  return true;
}

std::optional<exits::Arithmetic> Recorder::arithmetic_of(PyObject* value) const {
  auto found = followed_.find(value);
  if (found == followed_.end() || found->second.operation < 0) {
    return std::nullopt;
  }
  const Followed& followed = found->second;
  return exits::Arithmetic{followed.operation, followed.left.get(), followed.right.get()};
}

}  // namespace alternator::record
