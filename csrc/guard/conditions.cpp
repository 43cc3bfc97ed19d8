#include "guard/conditions.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace alternator::guard {
namespace {

const char* const kNames[] = {
#define CONDITION(name, operands) #name,
#include "guard/condition.def"
#undef CONDITION
};
const int kOperands[] = {
#define CONDITION(name, operands) operands,
#include "guard/condition.def"
#undef CONDITION
};
constexpr size_t kDeepest = 64;

bool raise_power(int64_t base, int64_t exponent, int64_t* result) {
  *result = 1;
  if (exponent < 0 || exponent > 64) {
    return false;
  }
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(*result, base, result)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool Quantity::read(const std::vector<PyObject*>& slots, Number* value) const {
  PyObject* object = slots[node];
  if (!is_object) {
    *value = Number::of(tensor::extent_of(object, extent, dimension));
    return true;
  }
  if (PyFloat_CheckExact(object)) {
    *value = Number::of(PyFloat_AS_DOUBLE(object));
    return true;
  }
  int overflow = 0;
  *value =
      Number::of(static_cast<int64_t>(PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0));
  return PyLong_CheckExact(object) && overflow == 0;
}

Ref<> Quantity::object(const std::vector<PyObject*>& slots) const {
  if (is_scalar) {
    return PyFloat_CheckExact(slots[node]) ? tensor::make_scalar(PyFloat_AS_DOUBLE(slots[node])) : nullptr;
  }
  Number value;
  return is_object ? share(slots[node]) : read(slots, &value) ? steal(PyLong_FromLongLong(value.whole)) : nullptr;
}

bool parse_quantity(PyObject* row, Quantity* quantity) {
  const char* extent;
  if (!PyArg_ParseTuple(row, "isi", &quantity->node, &extent, &quantity->dimension)) {
    return false;
  }
  quantity->is_scalar = std::strcmp(extent, "scalar") == 0;
  quantity->is_object = quantity->is_scalar || std::strcmp(extent, "object") == 0;
  quantity->extent = std::strcmp(extent, "stride") == 0   ? tensor::Extent::Stride
                     : std::strcmp(extent, "offset") == 0 ? tensor::Extent::Offset
                                                          : tensor::Extent::Size;
  return true;
}

bool Conditions::parse(PyObject* rows) {
  PyObject *quantities, *conditions;
  if (!PyArg_ParseTuple(rows, "O!O!", &PyList_Type, &quantities, &PyList_Type, &conditions)) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(quantities); ++i) {
    if (!parse_quantity(PyList_GET_ITEM(quantities, i), &quantities_.emplace_back())) {
      return false;
    }
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(conditions); ++i) {
    const char* text;
    PyObject* instructions;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(conditions, i), "sO!", &text, &PyList_Type, &instructions)) {
      return false;
    }
    Program& program = programs_.emplace_back();
    program.text = text;
    size_t depth = 0;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(instructions); ++j) {
      const char* name;
      long long operand;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(instructions, j), "sL", &name, &operand)) {
        return false;
      }
      auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                 [&](const char* known) { return std::strcmp(known, name) == 0; });
      size_t row = found - kNames;
      bool known = found != std::end(kNames) && static_cast<size_t>(kOperands[row]) <= depth;
      if (!known || (row == 0 && (operand < 0 || operand >= static_cast<long long>(quantities_.size())))) {
        PyErr_Format(PyExc_ValueError, "a condition that cannot be computed: %s", text);
        return false;
      }
      depth += 1 - kOperands[row];
      if (depth > kDeepest) {
        PyErr_Format(PyExc_ValueError, "a condition that is too deep: %s", text);
        return false;
      }
      program.instructions.push_back({static_cast<Operation>(row), operand});
    }
    if (depth != 1) {
      PyErr_Format(PyExc_ValueError, "a condition that gives no single value: %s", text);
      return false;
    }
  }
  return true;
}

std::vector<int> Conditions::nodes() const {
  std::vector<int> found;
  for (const Quantity& quantity : quantities_) {
    found.push_back(quantity.node);
  }
  return found;
}

int Conditions::find_failed(const std::vector<PyObject*>& slots) const {
  std::vector<Number> values(quantities_.size());
  for (size_t i = 0; i < quantities_.size(); ++i) {
    if (!quantities_[i].read(slots, &values[i])) {
      return 0;
    }
  }
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (!run(programs_[i], values)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool Conditions::run(const Program& program, const std::vector<Number>& values) {
  Number stack[kDeepest + 1];
  Number* top = stack;
  for (const auto& [operation, operand] : program.instructions) {
    int operands = kOperands[static_cast<size_t>(operation)];
    if (operands == 0) {
      *top++ = operation == Operation::load   ? values[operand]
               : operation == Operation::real ? Number::of(std::bit_cast<double>(operand))
                                              : Number::of(operand);
      continue;
    }
    top -= operands;
    Number result;
    if (!apply(operation, top[0], operands == 2 ? top[1] : Number(), &result)) {
      return false;
    }
    *top++ = result;
  }
  return !stack[0].is_real && stack[0].whole != 0;
}

bool Conditions::apply(Operation operation, const Number& a, const Number& b, Number* result) {
  if (!a.is_real && !b.is_real) {
    return apply_to_integers(operation, a.whole, b.whole, &result->whole);
  }
  constexpr int64_t kExact = int64_t{1} << 53;  // integers up to there are floats
  auto is_exact = [](const Number& number) {
    return number.is_real || (number.whole >= -kExact && number.whole <= kExact);
  };
  auto value = [](const Number& number) { return number.is_real ? number.real : static_cast<double>(number.whole); };
  return is_exact(a) && is_exact(b) && apply_to_reals(operation, value(a), value(b), result);
}

bool Conditions::apply_to_reals(Operation operation, double a, double b, Number* result) {
  switch (operation) {
    case Operation::add: *result = Number::of(a + b); break;
    case Operation::sub: *result = Number::of(a - b); break;
    case Operation::mul: *result = Number::of(a * b); break;
    case Operation::truediv: *result = Number::of(a / b); return b != 0;
    case Operation::neg: *result = Number::of(-a); break;
    case Operation::eq: *result = Number::of(int64_t{a == b}); break;
    case Operation::ne: *result = Number::of(int64_t{a != b}); break;
    case Operation::lt: *result = Number::of(int64_t{a < b}); break;
    case Operation::le: *result = Number::of(int64_t{a <= b}); break;
    case Operation::gt: *result = Number::of(int64_t{a > b}); break;
    case Operation::ge: *result = Number::of(int64_t{a >= b}); break;
    default: return false;
  }
  return true;
}

bool Conditions::apply_to_integers(Operation operation, int64_t a, int64_t b, int64_t* result) {
  bool divides = operation == Operation::floordiv || operation == Operation::mod;
  if (divides && (b == 0 || (b == -1 && a == INT64_MIN))) {
    return false;
  }
  // Python rounds down.
  int64_t remainder = divides ? a % b : 0;
  bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  switch (operation) {
    case Operation::add: return !__builtin_add_overflow(a, b, result);
    case Operation::sub: return !__builtin_sub_overflow(a, b, result);
    case Operation::mul: return !__builtin_mul_overflow(a, b, result);
    case Operation::neg: return !__builtin_sub_overflow(int64_t{0}, a, result);
    case Operation::pow: return raise_power(a, b, result);
    case Operation::floordiv: *result = a / b - adjust; break;
    case Operation::mod: *result = adjust ? remainder + b : remainder; break;
    case Operation::min: *result = std::min(a, b); break;
    case Operation::max: *result = std::max(a, b); break;
    case Operation::eq: *result = a == b; break;
    case Operation::ne: *result = a != b; break;
    case Operation::lt: *result = a < b; break;
    case Operation::le: *result = a <= b; break;
    case Operation::gt: *result = a > b; break;
    case Operation::ge: *result = a >= b; break;
    case Operation::both: *result = a != 0 && b != 0; break;
    case Operation::either: *result = a != 0 || b != 0; break;
    case Operation::invert: *result = a == 0; break;
    case Operation::truediv:
    case Operation::real:
    case Operation::load:
    case Operation::constant: return false;
  }
  return true;
}

}  // namespace alternator::guard
