#include "interp/exception.h"

#include "base/ref.h"
#include "py/generator.h"
#include "py/names.h"

namespace alternator::interp {

bool split_exception(PyObject* exception, PyObject* type, PyObject** match, PyObject** rest) {
  auto give = [&](PyObject* matched, PyObject* left) {
    *match = matched;
    *rest = left;
    return matched != nullptr;
  };
  if (Py_IsNone(exception)) {
    return give(Py_NewRef(Py_None), Py_NewRef(Py_None));
  }
  bool is_group = PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
  if (PyErr_GivenExceptionMatches(exception, type)) {
    if (is_group) {
      return give(Py_NewRef(exception), Py_NewRef(Py_None));
    }
    // A naked exception is wrapped.
    Ref<> members = steal(PyTuple_Pack(1, exception));
    PyObject* group =
        members ? PyObject_CallFunctionObjArgs(PyExc_BaseExceptionGroup, py::names.empty, members.get(), nullptr)
                : nullptr;
    return give(group, group ? Py_NewRef(Py_None) : nullptr);
  }
  if (!is_group) {
    return give(Py_NewRef(Py_None), Py_NewRef(Py_None));
  }
  Ref<> pair = steal(PyObject_CallMethodOneArg(exception, py::names.split, type));
  if (!pair) {
    return false;
  }
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) < 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple, got %.200s", Py_TYPE(exception)->tp_name,
                 Py_TYPE(pair.get())->tp_name);
    return false;
  }
  return give(Py_NewRef(PyTuple_GET_ITEM(pair.get(), 0)), Py_NewRef(PyTuple_GET_ITEM(pair.get(), 1)));
}

bool find_manager_methods(PyObject* manager, bool asynchronous, PyObject** enter, PyObject** exit) {
  const char* kind = asynchronous ? "asynchronous context manager" : "context manager";
  const char* exit_name = asynchronous ? "__aexit__" : "__exit__";
  *enter = _PyObject_LookupSpecial(manager, asynchronous ? py::names.__aenter__ : py::names.__enter__);
  if (*enter == nullptr) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s protocol", Py_TYPE(manager)->tp_name,
                   kind);
    }
    return false;
  }
  *exit = _PyObject_LookupSpecial(manager, asynchronous ? py::names.__aexit__ : py::names.__exit__);
  if (*exit == nullptr) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s protocol (missed %s method)",
                   Py_TYPE(manager)->tp_name, kind, exit_name);
    }
    Py_CLEAR(*enter);
    return false;
  }
  return true;
}

PyObject* async_iterator(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  unaryfunc getter = type->tp_as_async ? type->tp_as_async->am_aiter : nullptr;
  if (getter == nullptr) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s", type->tp_name);
    return nullptr;
  }
  Ref<> iterator = steal(getter(object));
  if (!iterator) {
    return nullptr;
  }
  PyTypeObject* made = Py_TYPE(iterator.get());
  if (made->tp_as_async == nullptr || made->tp_as_async->am_anext == nullptr) {
    PyErr_Format(PyExc_TypeError,
                 "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                 made->tp_name);
    return nullptr;
  }
  return iterator.release();
}

PyObject* async_next(PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  unaryfunc getter = type->tp_as_async ? type->tp_as_async->am_anext : nullptr;
  if (getter == nullptr) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an iterator with __anext__ method, got %.100s", type->tp_name);
    return nullptr;
  }
  Ref<> next = steal(getter(iterator));
  if (!next || PyAsyncGen_CheckExact(iterator)) {
    return next.release();
  }
  PyObject* result = py::awaitable_iterator(next.get());
  if (result == nullptr) {
    _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s",
                           Py_TYPE(next.get())->tp_name);
  }
  return result;
}

PyObject* awaitable(PyObject* object, int where) {
  PyObject* iterator = py::awaitable_iterator(object);
  if (iterator == nullptr) {
    PyTypeObject* type = Py_TYPE(object);
    if (where != 0 && (type->tp_as_async == nullptr || type->tp_as_async->am_await == nullptr)) {
      PyErr_Format(PyExc_TypeError, "'async with' received an object from %s that does not implement __await__: %.100s",
                   where == 1 ? "__aenter__" : "__aexit__", type->tp_name);
    }
    return nullptr;
  }
  if (PyCoro_CheckExact(iterator) && py::is_awaited_already(iterator)) {
    Py_DECREF(iterator);
    PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
    return nullptr;
  }
  return iterator;
}

}  // namespace alternator::interp
