#include "interp/raise.h"

#include "base/ref.h"

namespace alternator::interp {
namespace {

void format_name(PyObject* type, const char* format, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) {
    return;
  }
  PyErr_Format(type, format, text);
  if (type != PyExc_NameError) {
    return;
  }
  // The name is kept for suggestions ("did you mean").
  PyObject *kind, *value, *traceback;
  PyErr_Fetch(&kind, &value, &traceback);
  PyErr_NormalizeException(&kind, &value, &traceback);
  if (PyErr_GivenExceptionMatches(value, PyExc_NameError)) {
    auto* error = reinterpret_cast<PyNameErrorObject*>(value);
    if (error->name == nullptr) {
      Py_INCREF(name);
      error->name = name;
    }
  }
  PyErr_Restore(kind, value, traceback);
}

constexpr char kUnboundLocal[] = "cannot access local variable '%s' where it is not associated with a value";
constexpr char kUnboundFree[] =
    "cannot access free variable '%s' where it is not associated with a value in enclosing scope";

}  // namespace

void raise_unbound_local(PyCodeObject* code, int index) {
  format_name(PyExc_UnboundLocalError, kUnboundLocal, PyTuple_GET_ITEM(code->co_localsplusnames, index));
}

void raise_unbound_cell(PyCodeObject* code, int index) {
  if (PyErr_Occurred()) {
    return;
  }
  PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, index);
  if (index < code->co_nplaincellvars + code->co_nlocals) {
    format_name(PyExc_UnboundLocalError, kUnboundLocal, name);
  } else {
    format_name(PyExc_NameError, kUnboundFree, name);
  }
}

void raise_undefined_name(PyObject* name) { format_name(PyExc_NameError, "name '%.200s' is not defined", name); }

void raise_no_locals(const char* doing, PyObject* name) {
  if (name != nullptr) {
    PyErr_Format(PyExc_SystemError, "no locals %s %R", doing, name);
  } else {
    PyErr_Format(PyExc_SystemError, "no locals %s", doing);
  }
}

void raise_again(PyObject* exception) {
  PyObject* type = PyExceptionInstance_Class(exception);
  Py_INCREF(type);
  PyErr_Restore(type, exception, PyException_GetTraceback(exception));
}

bool raise_statement(py::ThreadState* ts, PyObject* exception_stolen, PyObject* cause_stolen) {
  Ref<> exception = steal(exception_stolen);
  Ref<> cause = steal(cause_stolen);
  if (!exception) {
    PyObject* handled = _PyErr_GetTopmostException(ts)->exc_value;
    if (handled == nullptr || handled == Py_None) {
      PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
      return false;
    }
    raise_again(Py_NewRef(handled));
    return true;
  }
  Ref<> value;
  Ref<> type;
  if (PyExceptionClass_Check(exception.get())) {
    type = exception.clone();
    value = steal(PyObject_CallNoArgs(exception.get()));
    if (!value) {
      return false;
    }
    if (!PyExceptionInstance_Check(value.get())) {
      PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", type.get(),
                   Py_TYPE(value.get()));
      return false;
    }
  } else if (PyExceptionInstance_Check(exception.get())) {
    value = exception.clone();
    type = share(PyExceptionInstance_Class(exception.get()));
  } else {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return false;
  }
  if (cause) {
    Ref<> fixed;
    if (PyExceptionClass_Check(cause.get())) {
      fixed = steal(PyObject_CallNoArgs(cause.get()));
      if (!fixed) {
        return false;
      }
    } else if (PyExceptionInstance_Check(cause.get())) {
      fixed = cause.clone();
    } else if (cause.get() != Py_None) {
      PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
      return false;
    }
    PyException_SetCause(value.get(), fixed.release());
  }
  PyErr_SetObject(type.get(), value.get());
  return false;
}

bool check_except_type(PyObject* type) {
  auto refuse = [] {
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return false;
  };
  if (!PyTuple_Check(type)) {
    return PyExceptionClass_Check(type) || refuse();
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i) {
    if (!PyExceptionClass_Check(PyTuple_GET_ITEM(type, i))) {
      return refuse();
    }
  }
  return true;
}

bool check_except_star_type(PyObject* type) {
  if (!check_except_type(type)) {
    return false;
  }
  auto is_group = [](PyObject* one) { return PyObject_IsSubclass(one, PyExc_BaseExceptionGroup); };
  int group = 0;
  if (PyTuple_Check(type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type) && group == 0; ++i) {
      group = is_group(PyTuple_GET_ITEM(type, i));
    }
  } else {
    group = is_group(type);
  }
  if (group > 0) {
    PyErr_SetString(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
  }
  return group == 0;
}

void reword_kwargs_error(PyObject* function, PyObject* kwargs) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    Ref<> text = steal(_PyObject_FunctionStr(function));
    if (text) {
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", text.get(),
                   Py_TYPE(kwargs)->tp_name);
    }
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) {
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (value == nullptr || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {
    PyErr_Restore(type, value, traceback);
    return;
  }
  Ref<> text = steal(_PyObject_FunctionStr(function));
  if (text) {
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", text.get(),
                 PyTuple_GET_ITEM(value, 0));
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

bool check_star_args(PyObject* function, PyObject* args) {
  if (Py_TYPE(args)->tp_iter != nullptr || PySequence_Check(args)) {
    return true;
  }
  PyErr_Clear();
  Ref<> text = steal(_PyObject_FunctionStr(function));
  if (text) {
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", text.get(),
                 Py_TYPE(args)->tp_name);
  }
  return false;
}

}  // namespace alternator::interp
