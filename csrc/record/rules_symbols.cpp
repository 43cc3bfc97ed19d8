// Numbers that torch's ShapeEnv knows by a symbol: sizes of tensors that are dynamic, and numbers that are another one at each
// call. The program has ordinary numbers in its hands, copies that are no other object; alternator/shapes.py has the symbols.
// Computing with one gives another symbol, comparing one is a condition of the region, torch gets the symbol. Anything else
// relies on the value (use()), which is a condition as well.
#include "base/once.h"
#include "base/shortage.h"
#include "interp/hook.h"
#include "py/unique.h"
#include "record/recorder.h"

namespace alternator::record {

using py::Op;
using source::is_number;
using source::is_plain_sequence;

namespace {

PyObject* item_of(PyObject* sequence, Py_ssize_t index) {
  return PyList_Check(sequence) ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index);
}

}  // namespace

Ref<> Recorder::follow_symbol(PyObject* number, PyObject* symbol) {
  Ref<> copy = steal(py::unique_copy(number));
  if (copy) {
    Followed followed;
    followed.kept = copy.clone();
    followed.symbol = share(symbol);
    followed_.emplace(copy.get(), std::move(followed));
  }
  return copy;
}

PyObject* Recorder::symbol_of(PyObject* number) const {
  auto found = followed_.find(number);
  return found != followed_.end() ? found->second.symbol.get() : nullptr;
}

PyObject* Recorder::find_symbol(PyObject* value) {
  if (!is_number(value) || ended_) {
    return nullptr;
  }
  auto found = followed_.find(value);
  if (found != followed_.end() && found->second.symbol) {
    return found->second.symbol.get();
  }
  if (!is_moving(value) || !(PyLong_CheckExact(value) || PyFloat_CheckExact(value))) {
    return nullptr;
  }
  interp::Unobserved native;
  Ref<> symbol;
  if (found != followed_.end() && found->second.operation >= 0) {
    PyObject *left = found->second.left.get(), *right = found->second.right.get();
    int operation = found->second.operation;
    Ref<> a = symbol_or_value(left), b = symbol_or_value(right);
    symbol = steal(PyObject_CallMethod(tracer_, "combine", "iOOOO", operation, a.get(), b.get(), left, right));
  } else {
    int node = found != followed_.end() ? found->second.node : -1;
    if (int slot = start_->slot_of_copy(value); node < 0 && slot >= 0) {
      Ref<> name = steal(PyUnicode_FromString(start_->name_of(slot).c_str()));
      node = graph_.read_number(-1, guard::Kind::Local, name.get(), slot, value);
    }
    if (node < 0) {
      return nullptr;
    }
    symbol = steal(PyObject_CallMethod(tracer_, "name_number", "siO", graph_.name_of(node).c_str(), node, value));
    followed_[value].node = node;
    followed_[value].kept = share(value);
  }
  if (!symbol || symbol.get() == Py_None || is_number(symbol.get())) {
    forget_error();
    return nullptr;
  }
  Followed& followed = followed_[value];
  followed.kept = share(value);
  followed.symbol = std::move(symbol);
  return followed.symbol.get();
}

Ref<> Recorder::symbol_or_value(PyObject* value) {
  if (PyObject* symbol = find_symbol(value)) {
    return share(symbol);
  }
  use(value);
  return share(value);
}

bool Recorder::reads_items(PyObject* tensor) {
  interp::Unobserved native;
  Ref<> answer = steal(PyObject_CallMethod(tracer_, "reads_items", "O", tensor));
  forget_error();
  return answer.get() == Py_True;
}

void Recorder::settle(PyObject* symbol) {
  interp::Unobserved native;
  Ref<> settled = steal(PyObject_CallMethod(tracer_, "settle", "O", symbol));
  if (!settled) {
    forget_error();
    abort(AbortReason::DataDependentOperator, "the value of a number that the graph computes");
  }
}

void Recorder::give_to_torch(PyObject* value) {
  visit_deep(value, [this](PyObject* object) {
    if (find_symbol(object) == nullptr) {
      use(object);
    }
  });
}

bool Recorder::compute_symbols(Op op, int oparg) {
  if (op == Op::kBINARY_OP) {
    return combine_symbols(oparg);
  }
  if (op == Op::kCOMPARE_OP) {
    return compare_symbols(peek(2), peek(1), oparg) || compare_sequences(peek(2), peek(1), oparg);
  }
  if (op == Op::kUNARY_NEGATIVE && is_number(peek(1)) && find_symbol(peek(1)) != nullptr) {
    interp::Unobserved native;
    follow_combination(steal(PyObject_CallMethod(tracer_, "negate", "O", symbol_of(peek(1)))));
    return true;
  }
  if (py::count_touched(op, oparg) != 1) {
    return false;
  }
  if (py::role_of(op, 1) == py::Role::Noneness) {
    auto found = followed_.find(peek(1));  // a number or text is something, whatever its value
    return found != followed_.end() && (found->second.symbol || found->second.is_text());
  }
  if (py::role_of(op, 1) != py::Role::Truth || !is_number(peek(1))) {
    return false;
  }
  Ref<> zero = steal(PyLong_FromLong(0));
  return compare_symbols(peek(1), zero.get(), Py_NE);
}

bool Recorder::combine_symbols(int operation) {
  PyObject *left = peek(2), *right = peek(1);
  if (!is_number(left) || !is_number(right)) {
    return false;
  }
  if (!has_symbol(left) && !has_symbol(right) && follow_arithmetic(operation)) {
    return true;
  }
  if (find_symbol(left) == nullptr && find_symbol(right) == nullptr) {
    return false;
  }
  Ref<> a = symbol_or_value(left), b = symbol_or_value(right);
  interp::Unobserved native;
  follow_combination(steal(PyObject_CallMethod(tracer_, "combine", "iOOOO", operation, a.get(), b.get(), left, right)));
  if (awaited_number_ && PyFloat_CheckExact(left) && PyFloat_CheckExact(right) && is_safe(operation)) {
    // What leaves the region is computed by the exit, not by the graph.
    awaited_number_->operation = operation;
    awaited_number_->left = share(left);
    awaited_number_->right = share(right);
  }
  return true;
}

// What an operation gives: a symbol, a number that is the same for all values, or None where the values are relied on.
void Recorder::follow_combination(Ref<> symbol) {
  if (!symbol) {
    forget_error();
    return abort(AbortReason::DataDependentOperator, "an operation on a number that the graph computes");
  }
  if (symbol.get() != Py_None && !is_number(symbol.get())) {
    Followed followed;
    followed.symbol = std::move(symbol);
    await(std::move(followed), nullptr);
  }
}

// A function of the standard library that computes with numbers: the tracer knows what it does with symbols.
bool Recorder::call_symbols(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  static constinit Once<PyObject*> length;
  auto find_length = [] { return PyDict_GetItemString(PyEval_GetBuiltins(), "len"); };
  if (callable == length.get(find_length) && count == 1 && source::is_tensor(arguments[0])) {
    interp::Unobserved native;
    follow_combination(steal(PyObject_CallMethod(tracer_, "measure", "O", arguments[0])));
    return true;
  }
  static constinit Once<PyObject*> representation_of;
  PyObject* representation = representation_of.get([] { return PyDict_GetItemString(PyEval_GetBuiltins(), "repr"); });
  if ((callable == representation || callable == reinterpret_cast<PyObject*>(&PyUnicode_Type)) && count == 1) {
    return follow_text({arguments[0]});
  }
  bool found = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    bool sequence = is_plain_sequence(arguments[i]);
    if (sequence && graph_.is_outside(arguments[i])) {
      return false;
    }
    found = found || find_symbol(arguments[i]) != nullptr;
    for (Py_ssize_t j = 0; sequence && !found && j < Py_SIZE(arguments[i]); ++j) {
      found = find_symbol(item_of(arguments[i], j)) != nullptr;
    }
  }
  if (!found) {
    return false;
  }
  interp::Unobserved native;
  Ref<> function = steal(PyObject_CallMethod(tracer_, "number_function", "O", callable));
  if (!function || function.get() == Py_None) {
    forget_error();
    return false;
  }
  Ref<> symbols = steal(PyTuple_New(count)), values = steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; symbols && values && i < count; ++i) {
    Ref<> part = symbols_in(arguments[i]);
    if (!part) {
      follow_combination(nullptr);
      return true;
    }
    PyTuple_SET_ITEM(symbols.get(), i, part.release());
    PyTuple_SET_ITEM(values.get(), i, Py_NewRef(arguments[i]));
  }
  follow_combination(steal(
      PyObject_CallMethod(tracer_, "call_number", "OOOO", callable, function.get(), symbols.get(), values.get())));
  return true;
}

// Numbers, those in a sequence too, as the tracer has them.
Ref<> Recorder::symbols_in(PyObject* value) {
  if (is_number(value)) {
    return symbol_or_value(value);
  }
  if (!is_plain_sequence(value)) {
    return share(value);
  }
  Ref<> items = steal(PyTuple_New(Py_SIZE(value)));
  for (Py_ssize_t i = 0; items && i < Py_SIZE(value); ++i) {
    Ref<> part = symbols_in(item_of(value, i));
    if (!part) {
      return nullptr;
    }
    PyTuple_SET_ITEM(items.get(), i, part.release());
  }
  return items;
}

bool Recorder::compare_symbols(PyObject* left, PyObject* right, int comparison) {
  if (!is_number(left) || !is_number(right) || (find_symbol(left) == nullptr && find_symbol(right) == nullptr)) {
    return false;
  }
  Ref<> a = symbol_or_value(left), b = symbol_or_value(right);
  interp::Unobserved native;
  Ref<> decided = steal(PyObject_CallMethod(tracer_, "decide", "iOOOO", comparison, a.get(), b.get(), left, right));
  if (!decided) {
    forget_error();
    abort(AbortReason::DataDependentBranch, "a number that the graph computes decides");
  }
  return true;
}

// Two shapes are equal if their sizes are, and another one than the first decides nothing that differs.
bool Recorder::compare_sequences(PyObject* left, PyObject* right, int comparison) {
  if ((comparison != Py_EQ && comparison != Py_NE) || !is_plain_sequence(left) || !is_plain_sequence(right) ||
      PyList_Check(left) != PyList_Check(right)) {
    return false;
  }
  if (Py_SIZE(left) != Py_SIZE(right)) {
    return true;
  }
  for (Py_ssize_t i = 0; !ended_ && i < Py_SIZE(left); ++i) {
    PyObject *a = item_of(left, i), *b = item_of(right, i);
    if (!compare_symbols(a, b, Py_EQ)) {
      use_deep(a);
      use_deep(b);
      continue;
    }
    if (!ended_ && PyObject_RichCompareBool(a, b, Py_EQ) != 1) {
      forget_error();
      return true;
    }
  }
  return true;
}

}  // namespace alternator::record
