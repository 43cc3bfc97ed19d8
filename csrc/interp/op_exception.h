// Handlers: raising, catching, context managers.
#pragma once

#include "interp/call.h"
#include "interp/exception.h"
#include "interp/machine.h"
#include "interp/raise.h"
#include "py/borrow.h"
#include "py/generator.h"

namespace alternator::interp {

ALTERNATOR_INLINE Flow op_RAISE_VARARGS(Machine& m) {
  PyObject* cause = m.oparg >= 2 ? m.pop() : nullptr;
  PyObject* exception = m.oparg >= 1 ? m.pop() : nullptr;
  return raise_statement(m.ts, exception, cause) ? Flow::Unwind : Flow::Error;
}

// With an oparg, the traceback's place is that of the instruction that raised, whose offset is on the stack.
ALTERNATOR_INLINE Flow op_RERAISE(Machine& m) {
  if (m.oparg) {
    m.frame->prev_instr = m.first + PyLong_AsLong(m.peek(m.oparg + 1));
  }
  raise_again(m.pop());
  return Flow::Unwind;
}

// [.., exception] becomes [.., saved, exception], and `exception` the one that sys.exc_info() shows.
ALTERNATOR_INLINE Flow op_PUSH_EXC_INFO(Machine& m) {
  PyObject* exception = m.top();
  PyObject* saved = py::swap_handled_exception(m.ts, Py_NewRef(exception));
  m.top() = saved ? saved : Py_NewRef(Py_None);
  m.push(exception);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_POP_EXCEPT(Machine& m) {
  Py_XDECREF(py::swap_handled_exception(m.ts, m.pop()));
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_CHECK_EXC_MATCH(Machine& m) {
  PyObject* type = m.pop();
  if (!check_except_type(type)) {
    Py_DECREF(type);
    return Flow::Error;
  }
  int matches = PyErr_GivenExceptionMatches(m.top(), type);
  Py_DECREF(type);
  m.push_shared(matches ? Py_True : Py_False);
  return Flow::Next;
}

// [.., group, type] becomes [.., rest, match], or [.., group, None].
ALTERNATOR_INLINE Flow op_CHECK_EG_MATCH(Machine& m) {
  PyObject* type = m.pop();
  PyObject* match = nullptr;
  PyObject* rest = nullptr;
  bool checked = check_except_star_type(type) && split_exception(m.top(), type, &match, &rest);
  Py_DECREF(type);
  if (!checked) {
    return Flow::Error;
  }
  if (Py_IsNone(match)) {
    Py_DECREF(rest);
    m.push(match);
    return Flow::Next;
  }
  PyObject* group = m.top();
  m.top() = rest;
  m.push(match);
  PyErr_SetHandledException(match);
  Py_DECREF(group);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_PREP_RERAISE_STAR(Machine& m) {
  PyObject* result = py::run_borrowed(Op::kPREP_RERAISE_STAR, m.sp - 2, 2).release();
  m.drop();
  m.drop();
  return m.push_or_error(result);
}

ALTERNATOR_INLINE Flow op_LOAD_ASSERTION_ERROR(Machine& m) {
  m.push_shared(PyExc_AssertionError);
  return Flow::Next;
}

// Calls a callable that the stack does not hold, with borrowed arguments; the result is pushed.
ALTERNATOR_INLINE Flow call_and_push(Machine& m, PyObject* callable, PyObject** arguments, int count) {
  if (can_enter_here(m.ts) && !m.opaque) {
    m.callee = bind_borrowed_call(m.ts, callable, arguments, count);
    if (m.callee != nullptr) {
      return Flow::Enter;
    }
    if (PyErr_Occurred()) {
      return Flow::Error;
    }
  }
  return m.push_or_error(PyObject_Vectorcall(callable, arguments, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

// The manager on top is replaced by its bound __exit__; what __enter__ returns is pushed.
ALTERNATOR_INLINE Flow enter_manager(Machine& m, bool asynchronous) {
  PyObject* manager = m.top();
  PyObject* enter = nullptr;
  PyObject* exit = nullptr;
  if (!find_manager_methods(manager, asynchronous, &enter, &exit)) {
    return Flow::Error;
  }
  m.top() = exit;
  Py_DECREF(manager);
  PyObject* no_arguments[] = {nullptr};
  Flow flow = call_and_push(m, enter, no_arguments + 1, 0);
  Py_DECREF(enter);
  return flow;
}

ALTERNATOR_INLINE Flow op_BEFORE_WITH(Machine& m) { return enter_manager(m, false); }
ALTERNATOR_INLINE Flow op_BEFORE_ASYNC_WITH(Machine& m) { return enter_manager(m, true); }

// [.., exit, lasti, saved, exception]: pushes exit(type, value, traceback).
ALTERNATOR_INLINE Flow op_WITH_EXCEPT_START(Machine& m) {
  PyObject* exception = m.top();
  PyObject* traceback = PyException_GetTraceback(exception);
  PyObject* arguments[] = {nullptr, PyExceptionInstance_Class(exception), exception, traceback ? traceback : Py_None};
  Flow flow = call_and_push(m, m.peek(4), arguments + 1, 3);
  Py_XDECREF(traceback);
  return flow;
}

}  // namespace alternator::interp
