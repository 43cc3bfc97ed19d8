// Handlers: generators, coroutines, asynchronous iteration.
#pragma once

#include "interp/call.h"
#include "interp/exception.h"
#include "interp/machine.h"
#include "interp/raise.h"
#include "py/borrow.h"
#include "py/generator.h"

namespace alternator::interp {

// The frame moves into a generator object: only CPython's loop can make one.
ALTERNATOR_INLINE Flow op_RETURN_GENERATOR(Machine&) { return Flow::HandOver; }
ALTERNATOR_INLINE Flow op_IMPORT_STAR(Machine&) { return Flow::HandOver; }

ALTERNATOR_INLINE Flow op_YIELD_VALUE(Machine& m) {
  m.value = m.pop();
  py::mark_suspended(m.frame);
  return Flow::Yield;
}

// [.., receiver, value]: sends. Yields push what was yielded; a return replaces the receiver and jumps.
ALTERNATOR_INLINE Flow op_SEND(Machine& m) {
  PyObject* sent = m.pop();
  PyObject* receiver = m.top();
  if (can_resume_here(m.ts, receiver) &&
      (Py_IsNone(sent) || !py::is_just_created(reinterpret_cast<PyGenObject*>(receiver)))) {
    m.callee = resume_generator(m.ts, receiver, sent);
    Py_DECREF(sent);
    return Flow::Enter;
  }
  PyObject* result;
  PySendResult status = PyIter_Send(receiver, sent, &result);
  Py_DECREF(sent);
  if (status == PYGEN_ERROR) {
    return Flow::Error;
  }
  if (status == PYGEN_RETURN) {
    m.top() = result;
    Py_DECREF(receiver);
    m.jump_by(m.oparg);
    return Flow::Next;
  }
  m.push(result);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_GET_YIELD_FROM_ITER(Machine& m) {
  PyObject* iterable = m.top();
  if (PyCoro_CheckExact(iterable)) {
    if (m.code()->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) {
      return Flow::Next;
    }
    --m.sp;
    Py_DECREF(iterable);
    PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return Flow::Error;
  }
  if (PyGen_CheckExact(iterable)) {
    return Flow::Next;
  }
  PyObject* iterator = PyObject_GetIter(iterable);
  Py_DECREF(iterable);
  return m.set_top_or_error(iterator);
}

ALTERNATOR_INLINE Flow op_ASYNC_GEN_WRAP(Machine& m) {
  PyObject* value = m.top();
  PyObject* wrapped = py::run_borrowed(Op::kASYNC_GEN_WRAP, &value, 1).release();
  if (wrapped == nullptr) {
    return Flow::Error;
  }
  m.top() = wrapped;
  Py_DECREF(value);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_GET_AWAITABLE(Machine& m) {
  PyObject* object = m.top();
  PyObject* iterator = awaitable(object, m.oparg);
  Py_DECREF(object);
  return m.set_top_or_error(iterator);
}

ALTERNATOR_INLINE Flow op_GET_AITER(Machine& m) {
  PyObject* object = m.top();
  PyObject* iterator = async_iterator(object);
  Py_DECREF(object);
  return m.set_top_or_error(iterator);
}

ALTERNATOR_INLINE Flow op_GET_ANEXT(Machine& m) { return m.push_or_error(async_next(m.top())); }

// [.., iterator, exception]: the end of the iteration, or an exception that goes on.
ALTERNATOR_INLINE Flow op_END_ASYNC_FOR(Machine& m) {
  PyObject* exception = m.pop();
  if (PyErr_GivenExceptionMatches(exception, PyExc_StopAsyncIteration)) {
    Py_DECREF(exception);
    m.drop();
    return Flow::Next;
  }
  raise_again(exception);
  return Flow::Unwind;
}

}  // namespace alternator::interp
