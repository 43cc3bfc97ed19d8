// Handlers: the value stack, locals and cells.
#pragma once

#include "interp/machine.h"
#include "interp/raise.h"

namespace alternator::interp {

ALTERNATOR_INLINE Flow op_NOP(Machine&) { return Flow::Next; }

ALTERNATOR_INLINE Flow op_EXTENDED_ARG(Machine&) { return Flow::Prefix; }

ALTERNATOR_INLINE Flow op_RESUME(Machine& m) { return m.oparg < 2 ? Flow::Pending : Flow::Next; }

ALTERNATOR_INLINE Flow op_POP_TOP(Machine& m) {
  m.drop();
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_PUSH_NULL(Machine& m) {
  m.push(nullptr);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_SWAP(Machine& m) {
  PyObject* top = m.top();
  m.top() = m.peek(m.oparg);
  m.peek(m.oparg) = top;
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_COPY(Machine& m) {
  PyObject* object = m.peek(m.oparg);
  Py_XINCREF(object);
  m.push(object);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_LOAD_CONST(Machine& m) {
  m.push_shared(PyTuple_GET_ITEM(m.consts, m.oparg));
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_LOAD_FAST(Machine& m) {
  PyObject* object = m.locals[m.oparg];
  if (ALTERNATOR_UNLIKELY(object == nullptr)) {
    raise_unbound_local(m.code(), m.oparg);
    return Flow::Error;
  }
  m.push_shared(object);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_LOAD_CLOSURE(Machine& m) { return op_LOAD_FAST(m); }

ALTERNATOR_INLINE Flow op_STORE_FAST(Machine& m) {
  m.set_local(m.oparg, m.pop());
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_DELETE_FAST(Machine& m) {
  if (m.locals[m.oparg] == nullptr) {
    raise_unbound_local(m.code(), m.oparg);
    return Flow::Error;
  }
  m.set_local(m.oparg, nullptr);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_MAKE_CELL(Machine& m) {
  PyObject* cell = PyCell_New(m.locals[m.oparg]);
  if (cell == nullptr) {
    return Flow::Error;
  }
  m.set_local(m.oparg, cell);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_COPY_FREE_VARS(Machine& m) {
  PyObject* closure = m.frame->f_func->func_closure;
  int offset = m.code()->co_nlocalsplus - m.oparg;
  for (int i = 0; i < m.oparg; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    Py_INCREF(cell);
    m.locals[offset + i] = cell;
  }
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_LOAD_DEREF(Machine& m) {
  PyObject* object = PyCell_GET(m.locals[m.oparg]);
  if (ALTERNATOR_UNLIKELY(object == nullptr)) {
    raise_unbound_cell(m.code(), m.oparg);
    return Flow::Error;
  }
  m.push_shared(object);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_STORE_DEREF(Machine& m) {
  PyObject* object = m.pop();
  PyObject* cell = m.locals[m.oparg];
  PyObject* old = PyCell_GET(cell);
  PyCell_SET(cell, object);
  Py_XDECREF(old);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_DELETE_DEREF(Machine& m) {
  PyObject* cell = m.locals[m.oparg];
  PyObject* old = PyCell_GET(cell);
  if (old == nullptr) {
    raise_unbound_cell(m.code(), m.oparg);
    return Flow::Error;
  }
  PyCell_SET(cell, nullptr);
  Py_DECREF(old);
  return Flow::Next;
}

}  // namespace alternator::interp
