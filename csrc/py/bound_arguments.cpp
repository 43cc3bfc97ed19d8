#include "py/bound_arguments.h"

#include "base/shortage.h"

#include <algorithm>

namespace alternator::py {

ALTERNATOR_WARM BoundArguments::BoundArguments(PyObject* callable, PyObject* const* arguments, size_t nargsf,
                                               PyObject* kwnames) {
  PyObject* self = nullptr;
  if (PyMethod_Check(callable)) {
    self = PyMethod_GET_SELF(callable);
    callable = PyMethod_GET_FUNCTION(callable);
  }
  function_ = reinterpret_cast<PyFunctionObject*>(callable);
  code_ = reinterpret_cast<PyCodeObject*>(function_->func_code);
  Py_ssize_t given = PyVectorcall_NARGS(nargsf);
  constexpr int kCollects = CO_VARARGS | CO_VARKEYWORDS;
  if (self == nullptr && kwnames == nullptr && given == code_->co_argcount && code_->co_kwonlyargcount == 0 &&
      !(code_->co_flags & kCollects)) {
    locals_ = arguments;
    count_ = static_cast<int>(given);
    return;
  }
  count_ = code_->co_argcount + code_->co_kwonlyargcount + !!(code_->co_flags & CO_VARARGS) +
           !!(code_->co_flags & CO_VARKEYWORDS);
  if (count_ <= kMost && bind(self, arguments, given, kwnames)) {
    locals_ = bound_;
  }
}

void BoundArguments::own(int local, PyObject* object) {
  bound_[local] = object;
  owned_.add(steal(object));
}

ALTERNATOR_WARM bool BoundArguments::bind(PyObject* self, PyObject* const* arguments, Py_ssize_t given,
                                          PyObject* kwnames) {
  std::fill(bound_, bound_ + count_, nullptr);
  if (!bind_rest(self, arguments, given)) {
    return false;
  }
  Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i) {
    if (!bind_keyword(PyTuple_GET_ITEM(kwnames, i), arguments[given + i])) {
      return false;
    }
  }
  return bind_defaults();
}

// What is given by position, and the objects that collect the rest.
ALTERNATOR_WARM bool BoundArguments::bind_rest(PyObject* self, PyObject* const* arguments, Py_ssize_t given) {
  Py_ssize_t before = self != nullptr;
  Py_ssize_t taken = std::min<Py_ssize_t>(given, code_->co_argcount - before);
  if (before > code_->co_argcount || (taken < given && !(code_->co_flags & CO_VARARGS))) {
    return false;
  }
  bound_[0] = before ? self : nullptr;
  std::copy(arguments, arguments + taken, bound_ + before);
  int next = code_->co_argcount + code_->co_kwonlyargcount;
  if (code_->co_flags & CO_VARARGS) {
    PyObject* rest = PyTuple_New(given - taken);
    if (rest == nullptr) {
      forget_error();
      return false;
    }
    for (Py_ssize_t i = taken; i < given; ++i) {
      PyTuple_SET_ITEM(rest, i - taken, Py_NewRef(arguments[i]));
    }
    own(next++, rest);
    made_ = true;
  }
  if (code_->co_flags & CO_VARKEYWORDS) {
    PyObject* rest = PyDict_New();
    if (rest == nullptr) {
      forget_error();
      return false;
    }
    own(next, rest);
    made_ = true;
  }
  return true;
}

ALTERNATOR_WARM bool BoundArguments::bind_keyword(PyObject* name, PyObject* value) {
  if (!PyUnicode_CheckExact(name)) {
    return false;
  }
  int named = code_->co_argcount + code_->co_kwonlyargcount;
  for (int i = code_->co_posonlyargcount; i < named; ++i) {
    PyObject* parameter = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
    if (parameter == name || PyUnicode_Compare(parameter, name) == 0) {
      bool is_new = bound_[i] == nullptr;
      bound_[i] = value;
      return is_new;
    }
  }
  // The caller's names are all different.
  if (!(code_->co_flags & CO_VARKEYWORDS) || PyDict_SetItem(bound_[count_ - 1], name, value) < 0) {
    forget_error();
    return false;
  }
  return true;
}

ALTERNATOR_WARM bool BoundArguments::bind_defaults() {
  int positional = code_->co_argcount;
  PyObject* defaults = function_->func_defaults;
  int first = positional - (defaults == nullptr ? 0 : static_cast<int>(PyTuple_GET_SIZE(defaults)));
  for (int i = 0; i < positional + code_->co_kwonlyargcount; ++i) {
    if (bound_[i] != nullptr) {
      continue;
    }
    PyObject* value = nullptr;
    if (i >= first && i < positional) {
      value = PyTuple_GET_ITEM(defaults, i - first);
    } else if (i >= positional && function_->func_kwdefaults != nullptr) {
      PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
      value = PyDict_GetItemWithError(function_->func_kwdefaults, name);
      forget_error();
    }
    if (value == nullptr) {
      return false;
    }
    own(i, Py_NewRef(value));  // the call may change the defaults
  }
  return true;
}

}  // namespace alternator::py
