// The functions behind BINARY_OP and COMPARE_OP, and short ways for ints and floats.
#pragma once

#include "py/python.h"

namespace alternator::py {

// By BINARY_OP's oparg (NB_ADD ..).
extern const binaryfunc kBinaryOperators[];

// The number slots of int, without the search for a reflected operator: both operands are exact ints.
inline PyObject* add_ints(PyObject* a, PyObject* b) { return PyLong_Type.tp_as_number->nb_add(a, b); }
inline PyObject* subtract_ints(PyObject* a, PyObject* b) { return PyLong_Type.tp_as_number->nb_subtract(a, b); }
inline PyObject* multiply_ints(PyObject* a, PyObject* b) { return PyLong_Type.tp_as_number->nb_multiply(a, b); }

template <class Number>
inline int compare_numbers(Number a, Number b, int op) {
  switch (op) {
    case Py_LT: return a < b;
    case Py_LE: return a <= b;
    case Py_EQ: return a == b;
    case Py_NE: return a != b;
    case Py_GT: return a > b;
    default: return a >= b;
  }
}

inline int compare_doubles(double a, double b, int op) { return compare_numbers(a, b, op); }

// One-digit ints; -1 if either has more digits.
inline int compare_small_ints(PyObject* a, PyObject* b, int op) {
  Py_ssize_t size_a = Py_SIZE(a);
  Py_ssize_t size_b = Py_SIZE(b);
  if (size_a < -1 || size_a > 1 || size_b < -1 || size_b > 1) {
    return -1;
  }
  // The digit of 0 is stored as 0, so the product is right for size 0 too.
  long value_a = size_a * static_cast<long>(reinterpret_cast<PyLongObject*>(a)->ob_digit[0]);
  long value_b = size_b * static_cast<long>(reinterpret_cast<PyLongObject*>(b)->ob_digit[0]);
  return compare_numbers(value_a, value_b, op);
}

// A non-negative one-digit int as an index, or -1.
inline Py_ssize_t small_index(PyObject* integer) {
  Py_ssize_t size = Py_SIZE(integer);
  if (size == 0) {
    return 0;
  }
  return size == 1 ? static_cast<Py_ssize_t>(reinterpret_cast<PyLongObject*>(integer)->ob_digit[0]) : -1;
}

}  // namespace alternator::py
