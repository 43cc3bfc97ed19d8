#include "py/generator.h"

namespace alternator::py {

GeneratorExit leave_generator(ThreadState* ts, Frame* frame, PyObject* value) {
  PyGenObject* generator = generator_of(frame);
  ts->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  frame->previous = nullptr;
  if (value != nullptr && is_suspended(generator)) {
    return GeneratorExit::Yielded;
  }
  generator->gi_frame_state = FRAME_COMPLETED;
  if (value == nullptr && PyErr_ExceptionMatches(PyExc_StopIteration)) {
    _PyErr_FormatFromCause(
        PyExc_RuntimeError, "%s",
        Py_IS_TYPE(generator, &PyCoro_Type) ? "coroutine raised StopIteration" : "generator raised StopIteration");
  }
  // First the cycle through the traceback of a stored exception, then the frame.
  PyObject* stored = generator->gi_exc_state.exc_value;
  generator->gi_exc_state.exc_value = nullptr;
  Py_XDECREF(stored);
  generator->gi_frame_state = FRAME_CLEARED;
  clear_frame(frame);
  return value != nullptr ? GeneratorExit::Returned : GeneratorExit::Raised;
}

void empty_generator(PyGenObject* generator) {
  if (generator->gi_frame_state < FRAME_EXECUTING) {
    generator->gi_frame_state = FRAME_CLEARED;
    Py_CLEAR(generator->gi_exc_state.exc_value);
    clear_frame(frame_of(generator));
  }
}

PyObject* awaitable_iterator(PyObject* object) {
  auto is_iterable_coroutine = [](PyObject* one) {
    return PyGen_CheckExact(one) &&
           (reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyGenObject*>(one)->gi_code)->co_flags &
            CO_ITERABLE_COROUTINE);
  };
  if (PyCoro_CheckExact(object) || is_iterable_coroutine(object)) {
    return Py_NewRef(object);
  }
  PyTypeObject* type = Py_TYPE(object);
  unaryfunc getter = type->tp_as_async ? type->tp_as_async->am_await : nullptr;
  if (getter == nullptr) {
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", type->tp_name);
    return nullptr;
  }
  PyObject* result = getter(object);
  if (result == nullptr) {
    return nullptr;
  }
  if (PyCoro_CheckExact(result) || is_iterable_coroutine(result)) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    Py_CLEAR(result);
  } else if (!PyIter_Check(result)) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", Py_TYPE(result)->tp_name);
    Py_CLEAR(result);
  }
  return result;
}

bool is_awaited_already(PyObject* coroutine) {
  auto* generator = reinterpret_cast<PyGenObject*>(coroutine);
  if (generator->gi_frame_state >= FRAME_CLEARED || is_just_created(generator)) {
    return false;
  }
  CodeUnit next = frame_of(generator)->prev_instr[1];
  return canonical(next) == Op::kRESUME && oparg_of(next) >= 2;
}

}  // namespace alternator::py
