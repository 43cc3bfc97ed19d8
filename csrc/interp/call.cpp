#include "interp/call.h"

#include <array>
#include <vector>

#include "base/ref.h"
#include "interp/raise.h"
#include "py/names.h"

namespace alternator::interp {

ternaryfunc python_call_slot = nullptr;

namespace {

// Where each keyword argument goes.
constexpr int kIntoKwargs = -1;
constexpr int kNowhere = -2;

int find_parameter(PyCodeObject* code, PyObject* keyword) {
  PyObject** names = &PyTuple_GET_ITEM(code->co_localsplusnames, 0);
  int total = code->co_argcount + code->co_kwonlyargcount;
  for (int i = code->co_posonlyargcount; i < total; ++i) {
    if (names[i] == keyword) {
      return i;
    }
  }
  for (int i = code->co_posonlyargcount; i < total; ++i) {
    if (_PyUnicode_EQ(names[i], keyword)) {
      return i;
    }
  }
  return (code->co_flags & CO_VARKEYWORDS) ? kIntoKwargs : kNowhere;
}

// A plan for a call, made and checked before anything is moved.
class Binding {
 public:
  Binding(PyFunctionObject* function, PyObject** arguments, int positional, PyObject* kwnames)
      : function_(function),
        code_(reinterpret_cast<PyCodeObject*>(function->func_code)),
        arguments_(arguments),
        positional_(positional),
        kwnames_(kwnames),
        keywords_(kwnames ? static_cast<int>(PyTuple_GET_SIZE(kwnames)) : 0) {}

  // False if CPython has to make the call (or to word the error).
  bool plan() {
    constexpr int kSimple = CO_OPTIMIZED | CO_NEWLOCALS;
    if ((code_->co_flags & (kSimple | py::kGeneratorFlags)) != kSimple) {
      return false;
    }
    total_ = code_->co_argcount + code_->co_kwonlyargcount;
    if (total_ > kMaxParameters || keywords_ > kMaxParameters) {
      return false;
    }
    if (positional_ > code_->co_argcount && !(code_->co_flags & CO_VARARGS)) {
      return false;
    }
    source_.fill(nullptr);
    for (int i = 0; i < std::min(positional_, code_->co_argcount); ++i) {
      source_[i] = arguments_[i];
    }
    return plan_keywords() && plan_defaults();
  }

  // Moves arguments and function into a new frame. Null if memory is short; then nothing has moved.
  py::Frame* carry_out(py::ThreadState* ts) {
    Ref<> rest;
    Ref<> kwargs;
    if (code_->co_flags & CO_VARARGS) {
      int extra = std::max(positional_ - code_->co_argcount, 0);
      rest = steal(PyTuple_New(extra));
      if (!rest) {
        PyErr_Clear();
        return nullptr;
      }
      for (int i = 0; i < extra; ++i) {
        PyTuple_SET_ITEM(rest.get(), i, Py_NewRef(arguments_[code_->co_argcount + i]));
      }
    }
    if ((code_->co_flags & CO_VARKEYWORDS) && !make_kwargs(&kwargs)) {
      PyErr_Clear();
      return nullptr;
    }
    py::Frame* frame = py::push_frame(ts, function_, code_, nullptr);
    if (frame == nullptr) {
      PyErr_Clear();
      return nullptr;
    }
    PyObject** locals = frame->localsplus;
    for (int i = 0; i < total_; ++i) {
      locals[i] = Py_NewRef(source_[i]);
    }
    int at = total_;
    if (rest) {
      locals[at++] = rest.release();
    }
    if (kwargs) {
      locals[at++] = kwargs.release();
    }
    for (; at < code_->co_nlocalsplus; ++at) {
      locals[at] = nullptr;
    }
    for (int i = 0; i < positional_ + keywords_; ++i) {
      Py_DECREF(arguments_[i]);
    }
    return frame;
  }

 private:
  static constexpr int kMaxParameters = 64;

  bool plan_keywords() {
    for (int i = 0; i < keywords_; ++i) {
      PyObject* keyword = PyTuple_GET_ITEM(kwnames_, i);
      if (!PyUnicode_CheckExact(keyword)) {
        return false;
      }
      int where = find_parameter(code_, keyword);
      if (where == kNowhere || (where >= 0 && source_[where] != nullptr)) {
        return false;
      }
      if (where >= 0) {
        source_[where] = arguments_[positional_ + i];
      }
      target_[i] = where;
    }
    return true;
  }

  bool plan_defaults() {
    PyObject* defaults = function_->func_defaults;
    int first_default = code_->co_argcount - (defaults ? static_cast<int>(PyTuple_GET_SIZE(defaults)) : 0);
    for (int i = 0; i < code_->co_argcount; ++i) {
      if (source_[i] == nullptr) {
        if (i < first_default) {
          return false;
        }
        source_[i] = PyTuple_GET_ITEM(defaults, i - first_default);
      }
    }
    for (int i = code_->co_argcount; i < total_; ++i) {
      if (source_[i] == nullptr) {
        PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, i);
        PyObject* found =
            function_->func_kwdefaults ? PyDict_GetItemWithError(function_->func_kwdefaults, name) : nullptr;
        if (found == nullptr) {
          PyErr_Clear();
          return false;
        }
        source_[i] = found;
      }
    }
    return true;
  }

  bool make_kwargs(Ref<>* kwargs) {
    *kwargs = steal(PyDict_New());
    for (int i = 0; *kwargs && i < keywords_; ++i) {
      if (target_[i] == kIntoKwargs &&
          PyDict_SetItem(kwargs->get(), PyTuple_GET_ITEM(kwnames_, i), arguments_[positional_ + i]) < 0) {
        kwargs->reset();
      }
    }
    return static_cast<bool>(*kwargs);
  }

  PyFunctionObject* function_;
  PyCodeObject* code_;
  PyObject** arguments_;
  int positional_;
  PyObject* kwnames_;
  int keywords_;
  int total_ = 0;
  std::array<PyObject*, kMaxParameters> source_;  // by parameter, borrowed
  std::array<int, kMaxParameters> target_;        // by keyword argument
};

// The function and the self behind a callable; null if it is not a Python function in the end.
PyFunctionObject* resolve(PyObject* callable, PyObject** self) {
  *self = nullptr;
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    *self = PyMethod_GET_SELF(callable);
    callable = PyMethod_GET_FUNCTION(callable);
  } else if (PyObject* function = python_call_method(callable)) {
    *self = callable;
    callable = function;
  }
  return Py_IS_TYPE(callable, &PyFunction_Type) ? reinterpret_cast<PyFunctionObject*>(callable) : nullptr;
}

// A call whose arguments are shared, not moved.
class SharedCall {
 public:
  void add(PyObject* argument) { arguments_.push_back(Py_NewRef(argument)); }

  py::Frame* bind(py::ThreadState* ts, PyFunctionObject* function, int positional, PyObject* kwnames) {
    Py_INCREF(function);
    py::Frame* frame = bind_call(ts, function, arguments_.data(), positional, kwnames);
    if (frame == nullptr) {
      Py_DECREF(function);
      for (PyObject* argument : arguments_) {
        Py_DECREF(argument);
      }
    }
    return frame;
  }

 private:
  std::vector<PyObject*> arguments_;
};

}  // namespace

py::Frame* bind_keyword_call(py::ThreadState* ts, PyFunctionObject* function, PyObject** arguments, int positional,
                             PyObject* kwnames) {
  Binding binding(function, arguments, positional, kwnames);
  return binding.plan() ? binding.carry_out(ts) : nullptr;
}

py::Frame* bind_borrowed_call(py::ThreadState* ts, PyObject* callable, PyObject* const* arguments, int count) {
  PyObject* self;
  PyFunctionObject* function = resolve(callable, &self);
  if (function == nullptr) {
    return nullptr;
  }
  SharedCall call;
  if (self != nullptr) {
    call.add(self);
  }
  for (int i = 0; i < count; ++i) {
    call.add(arguments[i]);
  }
  return call.bind(ts, function, count + (self != nullptr), nullptr);
}

py::Frame* bind_star_call(py::ThreadState* ts, PyObject* callable, PyObject* args, PyObject* kwargs) {
  PyObject* self;
  PyFunctionObject* function = resolve(callable, &self);
  if (function == nullptr) {
    return nullptr;
  }
  Ref<> kwnames;
  if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0) {
    kwnames = steal(PyTuple_New(PyDict_GET_SIZE(kwargs)));
    if (!kwnames) {
      return nullptr;
    }
  }
  SharedCall call;
  if (self != nullptr) {
    call.add(self);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    call.add(PyTuple_GET_ITEM(args, i));
  }
  if (kwnames) {
    Py_ssize_t position = 0;
    Py_ssize_t index = 0;
    PyObject *key, *value;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      PyTuple_SET_ITEM(kwnames.get(), index++, Py_NewRef(key));
      call.add(value);
    }
  }
  return call.bind(ts, function, static_cast<int>(PyTuple_GET_SIZE(args)) + (self != nullptr), kwnames.get());
}

bool normalise_star_arguments(PyObject* callable, PyObject** args, PyObject** kwargs) {
  if (kwargs != nullptr && !PyDict_CheckExact(*kwargs)) {
    Ref<> dict = steal(PyDict_New());
    if (!dict) {
      return false;
    }
    if (_PyDict_MergeEx(dict.get(), *kwargs, 2) < 0) {
      reword_kwargs_error(callable, *kwargs);
      return false;
    }
    PyObject* old = *kwargs;
    *kwargs = dict.release();
    Py_DECREF(old);
  }
  if (!PyTuple_CheckExact(*args)) {
    if (!check_star_args(callable, *args)) {
      return false;
    }
    PyObject* tuple = PySequence_Tuple(*args);
    if (tuple == nullptr) {
      return false;
    }
    PyObject* old = *args;
    *args = tuple;
    Py_DECREF(old);
  }
  return true;
}

PyObject* find_python_call_method(PyObject* callable) {
  PyObject* method = _PyType_Lookup(Py_TYPE(callable), py::names.__call__);
  return method != nullptr && Py_IS_TYPE(method, &PyFunction_Type) ? method : nullptr;
}

bool prepare_calls() {
  // The slot function that CPython gives to classes with a __call__ in Python is the same for all; take it from one.
  Ref<> globals = steal(PyDict_New());
  if (!globals || PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()) < 0) {
    return false;
  }
  Ref<> ran =
      steal(PyRun_String("class Probe:\n  def __call__(self): pass\n", Py_file_input, globals.get(), globals.get()));
  PyObject* probe = ran ? PyDict_GetItemString(globals.get(), "Probe") : nullptr;
  if (probe == nullptr) {
    return false;
  }
  python_call_slot = reinterpret_cast<PyTypeObject*>(probe)->tp_call;
  return true;
}

}  // namespace alternator::interp
