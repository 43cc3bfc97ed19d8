// Handlers: jumps and loops.
#pragma once

#include "interp/call.h"
#include "interp/machine.h"

namespace alternator::interp {

ALTERNATOR_INLINE Flow op_JUMP_FORWARD(Machine& m) {
  m.jump_by(m.oparg);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_JUMP_BACKWARD(Machine& m) {
  m.jump_by(-m.oparg);
  return Flow::Pending;
}

ALTERNATOR_INLINE Flow op_JUMP_BACKWARD_NO_INTERRUPT(Machine& m) {
  m.jump_by(-m.oparg);
  return Flow::Next;
}

enum class Direction { Forward, Backward };

template <Direction kDirection>
ALTERNATOR_INLINE Flow jump_if(Machine& m, bool jumps) {
  if (!jumps) {
    return Flow::Next;
  }
  m.jump_by(kDirection == Direction::Forward ? m.oparg : -m.oparg);
  return kDirection == Direction::Forward ? Flow::Next : Flow::Pending;
}

template <Direction kDirection>
ALTERNATOR_INLINE Flow pop_jump_if(Machine& m, bool wanted) {
  PyObject* condition = m.pop();
  if (ALTERNATOR_LIKELY(Py_IsTrue(condition) || Py_IsFalse(condition))) {
    Py_DECREF(condition);
    return jump_if<kDirection>(m, Py_IsTrue(condition) == wanted);
  }
  int truth = PyObject_IsTrue(condition);
  Py_DECREF(condition);
  if (truth < 0) {
    return Flow::Error;
  }
  return jump_if<kDirection>(m, (truth != 0) == wanted);
}

template <Direction kDirection>
ALTERNATOR_INLINE Flow pop_jump_if_none(Machine& m, bool wanted) {
  PyObject* object = m.pop();
  bool none = Py_IsNone(object);
  Py_DECREF(object);
  return jump_if<kDirection>(m, none == wanted);
}

ALTERNATOR_INLINE Flow op_POP_JUMP_FORWARD_IF_FALSE(Machine& m) { return pop_jump_if<Direction::Forward>(m, false); }
ALTERNATOR_INLINE Flow op_POP_JUMP_FORWARD_IF_TRUE(Machine& m) { return pop_jump_if<Direction::Forward>(m, true); }
ALTERNATOR_INLINE Flow op_POP_JUMP_BACKWARD_IF_FALSE(Machine& m) { return pop_jump_if<Direction::Backward>(m, false); }
ALTERNATOR_INLINE Flow op_POP_JUMP_BACKWARD_IF_TRUE(Machine& m) { return pop_jump_if<Direction::Backward>(m, true); }
ALTERNATOR_INLINE Flow op_POP_JUMP_FORWARD_IF_NONE(Machine& m) { return pop_jump_if_none<Direction::Forward>(m, true); }
ALTERNATOR_INLINE Flow op_POP_JUMP_FORWARD_IF_NOT_NONE(Machine& m) {
  return pop_jump_if_none<Direction::Forward>(m, false);
}
ALTERNATOR_INLINE Flow op_POP_JUMP_BACKWARD_IF_NONE(Machine& m) {
  return pop_jump_if_none<Direction::Backward>(m, true);
}
ALTERNATOR_INLINE Flow op_POP_JUMP_BACKWARD_IF_NOT_NONE(Machine& m) {
  return pop_jump_if_none<Direction::Backward>(m, false);
}

ALTERNATOR_INLINE Flow jump_or_pop(Machine& m, bool wanted) {
  int truth = PyObject_IsTrue(m.top());
  if (truth < 0) {
    return Flow::Error;
  }
  if ((truth != 0) == wanted) {
    m.jump_by(m.oparg);
  } else {
    m.drop();
  }
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_JUMP_IF_FALSE_OR_POP(Machine& m) { return jump_or_pop(m, false); }
ALTERNATOR_INLINE Flow op_JUMP_IF_TRUE_OR_POP(Machine& m) { return jump_or_pop(m, true); }

ALTERNATOR_INLINE Flow op_GET_ITER(Machine& m) {
  PyObject* iterable = m.top();
  PyObject* iterator = PyObject_GetIter(iterable);
  m.top() = iterator;
  Py_DECREF(iterable);
  if (iterator == nullptr) {
    --m.sp;
    return Flow::Error;
  }
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_FOR_ITER(Machine& m) {
  PyObject* iterator = m.top();
  if (can_resume_here(m.ts, iterator)) {
    m.callee = resume_generator(m.ts, iterator, Py_None);
    return Flow::Enter;
  }
  PyObject* item = (*Py_TYPE(iterator)->tp_iternext)(iterator);
  if (ALTERNATOR_LIKELY(item != nullptr)) {
    m.push(item);
    return Flow::Next;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
      return Flow::Error;
    }
    PyErr_Clear();
  }
  m.drop();
  m.jump_by(m.oparg);
  return Flow::Next;
}

}  // namespace alternator::interp
