// Handlers: calls and functions.
#pragma once

#include "interp/call.h"
#include "interp/machine.h"
#include "interp/raise.h"

namespace alternator::interp {

ALTERNATOR_INLINE Flow op_KW_NAMES(Machine& m) {
  m.kwnames = PyTuple_GET_ITEM(m.consts, m.oparg);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_PRECALL(Machine& m) {
  m.skip_caches(Op::kPRECALL);
  return Flow::Next;
}

// A builtin function that takes its arguments as an array is called directly, as CPython's specialised calls do: they
// do not count against the recursion limit either. False if it is something else.
ALTERNATOR_INLINE bool call_builtin(PyObject* callable, PyObject** arguments, int positional, PyObject* kwnames,
                                    PyObject** result) {
  if (!Py_IS_TYPE(callable, &PyCFunction_Type)) {
    return false;
  }
  PyCFunction function = PyCFunction_GET_FUNCTION(callable);
  switch (PyCFunction_GET_FLAGS(callable) & ~METH_STATIC) {
    case METH_FASTCALL:
      if (kwnames != nullptr) {
        return false;
      }
      *result = reinterpret_cast<_PyCFunctionFast>(reinterpret_cast<void (*)()>(function))(
          PyCFunction_GET_SELF(callable), arguments, positional);
      return true;
    case METH_FASTCALL | METH_KEYWORDS:
      *result = reinterpret_cast<_PyCFunctionFastWithKeywords>(reinterpret_cast<void (*)()>(function))(
          PyCFunction_GET_SELF(callable), arguments, positional, kwnames);
      return true;
    default: return false;
  }
}

// The stack is [method, self, arguments..] or [NULL, callable, arguments..].
ALTERNATOR_INLINE Flow op_CALL(Machine& m) {
  bool has_self = m.peek(m.oparg + 2) != nullptr;
  PyObject* kwnames = m.kwnames;
  m.kwnames = nullptr;
  if (!has_self) {
    PyObject* callable = m.peek(m.oparg + 1);
    if (Py_IS_TYPE(callable, &PyMethod_Type)) {
      m.peek(m.oparg + 1) = Py_NewRef(PyMethod_GET_SELF(callable));
      m.peek(m.oparg + 2) = Py_NewRef(PyMethod_GET_FUNCTION(callable));
      Py_DECREF(callable);
      has_self = true;
    } else if (PyObject* function = m.observed ? python_call_method(callable) : nullptr) {
      // An instance whose class has a __call__ in Python: the method with the instance as self. CPython counts such a
      // call twice against the recursion limit, so a concrete run leaves it to CPython.
      m.peek(m.oparg + 2) = Py_NewRef(function);
      has_self = true;
    }
  }
  int total = m.oparg + has_self;
  PyObject** arguments = m.sp - total;
  PyObject* callable = arguments[-1];
  int positional = total - (kwnames ? static_cast<int>(PyTuple_GET_SIZE(kwnames)) : 0);
  if (Py_IS_TYPE(callable, &PyFunction_Type) && can_enter_here(m.ts) && !m.opaque) {
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    py::Frame* callee = bind_call(m.ts, function, arguments, positional, kwnames);
    if (ALTERNATOR_LIKELY(callee != nullptr)) {
      // Arguments and function now belong to the frame.
      m.sp = arguments - (has_self ? 1 : 2);
      m.callee = callee;
      // While the callee runs, f_lasti is where CPython has it: at the end of the instruction's caches.
      m.skip_caches(Op::kCALL);
      m.frame->prev_instr = m.next - 1;
      return Flow::Enter;
    }
  }
  PyObject* result;
  // Which goes first, callable or arguments, is as in CPython's two ways to call.
  bool builtin = call_builtin(callable, arguments, positional, kwnames, &result);
  if (!builtin) {
    result = PyObject_Vectorcall(callable, arguments, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    Py_DECREF(callable);
  }
  for (int i = 0; i < total; ++i) {
    Py_DECREF(arguments[i]);
  }
  if (builtin) {
    Py_DECREF(callable);
  }
  m.sp = arguments - (has_self ? 1 : 2);
  if (ALTERNATOR_UNLIKELY(result == nullptr)) {
    return Flow::Error;
  }
  m.push(result);
  m.skip_caches(Op::kCALL);
  return Flow::Pending;
}

// The stack is [NULL, callable, args] or [NULL, callable, args, kwargs].
ALTERNATOR_INLINE Flow op_CALL_FUNCTION_EX(Machine& m) {
  bool has_kwargs = m.oparg & 1;
  PyObject** base = m.sp - (has_kwargs ? 3 : 2);
  // An exact tuple, and an exact dict or null, whatever was passed.
  if (!normalise_star_arguments(base[0], &base[1], has_kwargs ? &base[2] : nullptr)) {
    return Flow::Error;
  }
  PyObject* callable = base[0];
  PyObject* args = base[1];
  PyObject* kwargs = has_kwargs ? base[2] : nullptr;
  if (can_enter_here(m.ts) && !m.opaque) {
    py::Frame* callee = bind_star_call(m.ts, callable, args, kwargs);
    if (callee != nullptr) {
      // CPython keeps the arguments alive until the call ends; so they stay on the stack (drop_star_arguments()).
      m.callee = callee;
      return Flow::Enter;
    }
    if (PyErr_Occurred()) {
      return Flow::Error;
    }
  }
  PyObject* result = PyObject_Call(callable, args, kwargs);
  m.sp = base - 1;
  Py_DECREF(callable);
  Py_DECREF(args);
  Py_XDECREF(kwargs);
  if (result == nullptr) {
    return Flow::Error;
  }
  m.push(result);
  return Flow::Pending;
}

// The call that CALL_FUNCTION_EX entered has ended: its operands go, as they were.
ALTERNATOR_INLINE void drop_star_arguments(Machine& m, int oparg) {
  int count = oparg & 1 ? 3 : 2;
  PyObject** base = m.sp - count;
  m.sp = base - 1;
  for (int i = 0; i < count; ++i) {
    Py_DECREF(base[i]);
  }
}

ALTERNATOR_INLINE Flow op_MAKE_FUNCTION(Machine& m) {
  PyObject* code = m.pop();
  auto* function = reinterpret_cast<PyFunctionObject*>(PyFunction_New(code, m.frame->f_globals));
  Py_DECREF(code);
  if (function == nullptr) {
    return Flow::Error;
  }
  if (m.oparg & 8) {
    function->func_closure = m.pop();
  }
  if (m.oparg & 4) {
    function->func_annotations = m.pop();
  }
  if (m.oparg & 2) {
    function->func_kwdefaults = m.pop();
  }
  if (m.oparg & 1) {
    function->func_defaults = m.pop();
  }
  m.push(reinterpret_cast<PyObject*>(function));
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_RETURN_VALUE(Machine& m) {
  m.value = m.pop();
  return Flow::Return;
}

}  // namespace alternator::interp
