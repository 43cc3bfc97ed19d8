// Copies of primitives that are no other object: a trace can tell by identity where such a value came from.
#pragma once

#include "base/shortage.h"
#include "py/python.h"

namespace alternator::py {

// One of the ints that CPython keeps one object each of.
inline bool is_small_int(PyObject* value) {
  int overflow = 0;
  long number = PyLong_AsLongAndOverflow(value, &overflow);
  return overflow == 0 && number >= -_PY_NSMALLNEGINTS && number < _PY_NSMALLPOSINTS;
}

// A new object with an equal value, also for a small int; null, with no exception set, if there can be none (None, True,
// strings of one character .., and NaN, which equals no other object).
inline PyObject* unique_copy(PyObject* value) {
  PyObject* copy = nullptr;
  if (PyLong_CheckExact(value)) {
    auto* from = reinterpret_cast<PyLongObject*>(value);
    Py_ssize_t digits = Py_ABS(Py_SIZE(from));
    PyLongObject* made = _PyLong_New(digits);
    if (made != nullptr) {
      for (Py_ssize_t i = 0; i < digits; ++i) {
        made->ob_digit[i] = from->ob_digit[i];
      }
      Py_SET_SIZE(made, Py_SIZE(from));
      copy = reinterpret_cast<PyObject*>(made);
    }
  } else if (PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == PyFloat_AS_DOUBLE(value)) {
    copy = PyFloat_FromDouble(PyFloat_AS_DOUBLE(value));
  } else if (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) > 1) {
    copy = PyUnicode_FromKindAndData(PyUnicode_KIND(value), PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value));
  }
  if (copy == nullptr) {
    forget_error();
  }
  return copy;
}

}  // namespace alternator::py
