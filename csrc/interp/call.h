// Calls that stay in the loop: Python functions, methods, instances with a __call__, and generators are entered by
// pushing their frame, with no C function in between. So a stack of frames can be taken away and put back
// (snapshot.h), and deep recursion needs no C stack. Whatever does not fit goes the ordinary way through vectorcall,
// CPython makes the frame, and it comes back through the hook.
#pragma once

#include "interp/hook.h"
#include "py/frame.h"
#include "py/generator.h"

namespace alternator::interp {

// No other hook wants to see frames, so the loop may enter them itself.
inline bool can_enter_here(py::ThreadState* ts) { return hook_is_topmost(ts); }

// Pushes a frame for a call and moves function and arguments into it. Null, with nothing changed and no exception
// set, if the call has to go the ordinary way: also for wrong arguments, whose error CPython words.
py::Frame* bind_keyword_call(py::ThreadState* ts, PyFunctionObject* function, PyObject** arguments, int positional,
                             PyObject* kwnames);

inline py::Frame* bind_call(py::ThreadState* ts, PyFunctionObject* function, PyObject** arguments, int positional,
                            PyObject* kwnames) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  constexpr int kSimple = CO_OPTIMIZED | CO_NEWLOCALS;
  constexpr int kRelevant = kSimple | CO_VARARGS | CO_VARKEYWORDS | py::kGeneratorFlags;
  if (kwnames != nullptr || (code->co_flags & kRelevant) != kSimple || code->co_kwonlyargcount != 0 ||
      code->co_argcount != positional) {
    return bind_keyword_call(ts, function, arguments, positional, kwnames);
  }
  py::Frame* frame = py::push_frame(ts, function, code, nullptr);
  if (frame == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  for (int i = 0; i < positional; ++i) {
    frame->localsplus[i] = arguments[i];
  }
  for (int i = positional; i < code->co_nlocalsplus; ++i) {
    frame->localsplus[i] = nullptr;
  }
  return frame;
}

// The same for f(*args, **kwargs), with `args` an exact tuple and `kwargs` an exact dict or null. Everything is shared,
// nothing moved. Null with or without an exception set.
py::Frame* bind_star_call(py::ThreadState* ts, PyObject* callable, PyObject* args, PyObject* kwargs);
// The same for a call with positional arguments that are borrowed.
py::Frame* bind_borrowed_call(py::ThreadState* ts, PyObject* callable, PyObject* const* arguments, int count);

// Makes *args a tuple and **kwargs a dict, in place. False with an exception set.
bool normalise_star_arguments(PyObject* callable, PyObject** args, PyObject** kwargs);

// The Python function behind calling an instance, borrowed; null if calling it means anything else.
PyObject* find_python_call_method(PyObject* callable);
extern ternaryfunc python_call_slot;
inline PyObject* python_call_method(PyObject* callable) {
  return Py_TYPE(callable)->tp_call == python_call_slot ? find_python_call_method(callable) : nullptr;
}

// Called once. False with an exception set.
bool prepare_calls();

// Whether an iterator is a generator or coroutine that the loop can resume itself.
inline bool can_resume_here(py::ThreadState* ts, PyObject* iterator) {
  return (Py_IS_TYPE(iterator, &PyGen_Type) || Py_IS_TYPE(iterator, &PyCoro_Type)) &&
         py::is_resumable(reinterpret_cast<PyGenObject*>(iterator)) && can_enter_here(ts);
}

// Makes a generator's frame ready to run with a value sent; shares `sent`. Pair with py::leave_generator().
inline py::Frame* resume_generator(py::ThreadState* ts, PyObject* generator, PyObject* sent) {
  return py::enter_generator(ts, reinterpret_cast<PyGenObject*>(generator), sent);
}

}  // namespace alternator::interp
