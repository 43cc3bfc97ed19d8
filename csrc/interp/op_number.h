// Handlers: operators, comparisons, subscripts.
#pragma once

#include "interp/machine.h"
#include "py/operators.h"

namespace alternator::interp {

template <PyObject* (*kOperator)(PyObject*)>
ALTERNATOR_INLINE Flow unary(Machine& m) {
  PyObject* operand = m.top();
  PyObject* result = kOperator(operand);
  m.top() = result;
  Py_DECREF(operand);
  if (result == nullptr) {
    --m.sp;
    return Flow::Error;
  }
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_UNARY_POSITIVE(Machine& m) { return unary<PyNumber_Positive>(m); }
ALTERNATOR_INLINE Flow op_UNARY_NEGATIVE(Machine& m) { return unary<PyNumber_Negative>(m); }
ALTERNATOR_INLINE Flow op_UNARY_INVERT(Machine& m) { return unary<PyNumber_Invert>(m); }

ALTERNATOR_INLINE Flow op_UNARY_NOT(Machine& m) {
  PyObject* operand = m.top();
  int truth = PyObject_IsTrue(operand);
  Py_DECREF(operand);
  if (truth < 0) {
    --m.sp;
    return Flow::Error;
  }
  m.top() = Py_NewRef(truth ? Py_False : Py_True);
  return Flow::Next;
}

// Replaces the two topmost by the result and drops the operands.
ALTERNATOR_INLINE Flow finish_binary(Machine& m, Op op, PyObject* left, PyObject* right, PyObject* result) {
  --m.sp;
  m.top() = result;
  Py_DECREF(left);
  Py_DECREF(right);
  if (ALTERNATOR_UNLIKELY(result == nullptr)) {
    --m.sp;
    return Flow::Error;
  }
  m.skip_caches(op);
  return Flow::Next;
}

// A float whose only reference is the stack's may take the result in place.
ALTERNATOR_INLINE Flow finish_float(Machine& m, Op op, PyObject* left, PyObject* right, double result) {
  if (Py_REFCNT(left) == 1) {
    reinterpret_cast<PyFloatObject*>(left)->ob_fval = result;
    Py_DECREF(right);
    --m.sp;
    m.skip_caches(op);
    return Flow::Next;
  }
  return finish_binary(m, op, left, right, PyFloat_FromDouble(result));
}

// s += t on a local: CPython grows the string in place if the local's is the only other reference.
ALTERNATOR_INLINE Flow append_string(Machine& m, PyObject* left, PyObject* right) {
  py::CodeUnit store = m.next[py::cache_units(Op::kBINARY_OP)];
  if (py::canonical(store) == Op::kSTORE_FAST && m.locals[py::oparg_of(store)] == left) {
    m.locals[py::oparg_of(store)] = nullptr;
    Py_DECREF(left);
  }
  --m.sp;
  PyUnicode_Append(&m.top(), right);
  Py_DECREF(right);
  if (m.top() == nullptr) {
    --m.sp;
    return Flow::Error;
  }
  m.skip_caches(Op::kBINARY_OP);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_BINARY_OP(Machine& m) {
  PyObject* right = m.peek(1);
  PyObject* left = m.peek(2);
  int kind = m.oparg;
  if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    double x = PyFloat_AS_DOUBLE(left);
    double y = PyFloat_AS_DOUBLE(right);
    switch (kind) {
      case NB_ADD:
      case NB_INPLACE_ADD: return finish_float(m, Op::kBINARY_OP, left, right, x + y);
      case NB_SUBTRACT:
      case NB_INPLACE_SUBTRACT: return finish_float(m, Op::kBINARY_OP, left, right, x - y);
      case NB_MULTIPLY:
      case NB_INPLACE_MULTIPLY: return finish_float(m, Op::kBINARY_OP, left, right, x * y);
      default: break;
    }
  } else if (PyLong_CheckExact(left) && PyLong_CheckExact(right)) {
    switch (kind) {
      case NB_ADD:
      case NB_INPLACE_ADD: return finish_binary(m, Op::kBINARY_OP, left, right, py::add_ints(left, right));
      case NB_SUBTRACT:
      case NB_INPLACE_SUBTRACT: return finish_binary(m, Op::kBINARY_OP, left, right, py::subtract_ints(left, right));
      case NB_MULTIPLY:
      case NB_INPLACE_MULTIPLY: return finish_binary(m, Op::kBINARY_OP, left, right, py::multiply_ints(left, right));
      default: break;
    }
  } else if (kind == NB_INPLACE_ADD && PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right)) {
    return append_string(m, left, right);
  }
  return finish_binary(m, Op::kBINARY_OP, left, right, py::kBinaryOperators[kind](left, right));
}

ALTERNATOR_INLINE Flow op_COMPARE_OP(Machine& m) {
  PyObject* right = m.peek(1);
  PyObject* left = m.peek(2);
  int known = -1;
  if (PyLong_CheckExact(left) && PyLong_CheckExact(right)) {
    known = py::compare_small_ints(left, right, m.oparg);
  } else if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    known = py::compare_doubles(PyFloat_AS_DOUBLE(left), PyFloat_AS_DOUBLE(right), m.oparg);
  }
  PyObject* result = known >= 0 ? Py_NewRef(known ? Py_True : Py_False) : PyObject_RichCompare(left, right, m.oparg);
  return finish_binary(m, Op::kCOMPARE_OP, left, right, result);
}

ALTERNATOR_INLINE Flow op_IS_OP(Machine& m) {
  PyObject* right = m.pop();
  PyObject* left = m.top();
  bool result = (left == right) != (m.oparg != 0);
  m.top() = Py_NewRef(result ? Py_True : Py_False);
  Py_DECREF(left);
  Py_DECREF(right);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_CONTAINS_OP(Machine& m) {
  PyObject* container = m.peek(1);
  PyObject* item = m.peek(2);
  int found = PySequence_Contains(container, item);
  m.sp -= 2;
  Py_DECREF(item);
  Py_DECREF(container);
  if (found < 0) {
    return Flow::Error;
  }
  m.push_shared((found != 0) != (m.oparg != 0) ? Py_True : Py_False);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_BINARY_SUBSCR(Machine& m) {
  PyObject* key = m.peek(1);
  PyObject* container = m.peek(2);
  PyObject* result = nullptr;
  if (PyLong_CheckExact(key)) {
    Py_ssize_t index = py::small_index(key);
    if (PyList_CheckExact(container) && index >= 0 && index < PyList_GET_SIZE(container)) {
      result = PyList_GET_ITEM(container, index);
    } else if (PyTuple_CheckExact(container) && index >= 0 && index < PyTuple_GET_SIZE(container)) {
      result = PyTuple_GET_ITEM(container, index);
    }
  }
  if (result != nullptr) {
    Py_INCREF(result);
  } else {
    result = PyObject_GetItem(container, key);
  }
  return finish_binary(m, Op::kBINARY_SUBSCR, container, key, result);
}

ALTERNATOR_INLINE Flow op_STORE_SUBSCR(Machine& m) {
  PyObject* key = m.peek(1);
  PyObject* container = m.peek(2);
  PyObject* value = m.peek(3);
  if (PyList_CheckExact(container) && PyLong_CheckExact(key)) {
    Py_ssize_t index = py::small_index(key);
    if (index >= 0 && index < PyList_GET_SIZE(container)) {
      PyObject* old = PyList_GET_ITEM(container, index);
      PyList_SET_ITEM(container, index, value);
      m.sp -= 3;
      Py_DECREF(old);
      Py_DECREF(container);
      Py_DECREF(key);
      m.skip_caches(Op::kSTORE_SUBSCR);
      return Flow::Next;
    }
  }
  int failed = PyObject_SetItem(container, key, value);
  m.sp -= 3;
  Py_DECREF(value);
  Py_DECREF(container);
  Py_DECREF(key);
  if (failed) {
    return Flow::Error;
  }
  m.skip_caches(Op::kSTORE_SUBSCR);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_DELETE_SUBSCR(Machine& m) {
  PyObject* key = m.peek(1);
  PyObject* container = m.peek(2);
  int failed = PyObject_DelItem(container, key);
  m.sp -= 2;
  Py_DECREF(container);
  Py_DECREF(key);
  return failed ? Flow::Error : Flow::Next;
}

}  // namespace alternator::interp
