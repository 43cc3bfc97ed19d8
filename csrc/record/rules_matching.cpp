// Pattern matching: `match` statements, and `except` clauses, which match classes.
#include "base/shortage.h"
#include "py/instance.h"
#include "py/names.h"
#include "record/recorder.h"

namespace alternator::record {

namespace {

PyObject* lookup_special(PyObject* object, PyObject* name) { return _PyType_Lookup(Py_TYPE(object), name); }

// `isinstance(subject, type)` is C code that looks at their classes alone.
bool has_plain_instance_check(PyObject* type) {
  PyObject* const name = py::names.__instancecheck__;
  PyObject* const plain = _PyType_Lookup(&PyType_Type, name);
  return lookup_special(type, name) == plain;
}

// An exception group whose parts are made by C code.
bool is_plain_group(PyObject* exception) {
  PyObject* const names[] = {py::names.split, py::names.derive};
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup);
  for (PyObject* name : names) {
    if (lookup_special(exception, name) != _PyType_Lookup(base, name)) {
      return false;
    }
  }
  return true;
}

}  // namespace

// The class of the exception, and the classes that it may be of.
void Recorder::record_exception_match(PyObject* exception, PyObject* classes) {
  expose(exception, Reads::Type);
  expose(classes, Reads::Type);
  expose(classes, Reads::Deep);
}

// The exception, if it is one that the trace raised, is taken apart by C code.
void Recorder::record_group_match(PyObject* exception, PyObject* classes) {
  record_exception_match(exception, classes);
  bool group = PyType_IsSubtype(Py_TYPE(exception), reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
  if (!ended_ && (graph_.is_outside(exception) || (group && !is_plain_group(exception)))) {
    abort(AbortReason::UnsupportedInstruction, "CHECK_EG_MATCH");
  }
}

void Recorder::record_group_reraise(PyObject* original, PyObject* exceptions) {
  bool outside = graph_.is_outside(original) || !PyList_CheckExact(exceptions) || graph_.is_outside(exceptions);
  for (Py_ssize_t i = 0; !outside && i < PyList_GET_SIZE(exceptions); ++i) {
    outside = graph_.is_outside(PyList_GET_ITEM(exceptions, i));
  }
  if (outside) {
    abort(AbortReason::UnsupportedInstruction, "PREP_RERAISE_STAR");
  }
}

// Whether its class is one of sequences or mappings. Classes become so by being registered, too.
void Recorder::record_type_flag(PyObject* subject) {
  PyTypeObject* type = Py_TYPE(subject);
  if (!graph_.read_type(type) || (!(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && !read_registrations())) {
    abort(AbortReason::UnknownRead, "a class");
  }
}

// `subject.get(key, mark)` for each key.
void Recorder::record_match_keys(PyObject* subject, PyObject* keys) {
  PyObject* const name = py::names.get;
  if (!PyTuple_CheckExact(keys)) {
    return abort(AbortReason::UnsupportedInstruction, "MATCH_KEYS");
  }
  expose(keys, Reads::Compared);
  record_attribute(subject, name);
  PyObject* method = lookup_special(subject, name);
  bool known = true;
  PyObject* own = Py_TYPE(subject)->tp_dictoffset != 0 ? py::own_attribute(subject, name, &known) : nullptr;
  if (method == nullptr || own != nullptr || !known) {
    return abort(AbortReason::UnsupportedInstruction, "MATCH_KEYS");
  }
  for (Py_ssize_t i = 0; !ended_ && i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* arguments[] = {subject, PyTuple_GET_ITEM(keys, i), Py_None};
    record_call(method, arguments, 3);
  }
}

// isinstance(subject, type), then the attributes that `__match_args__` and the keywords name.
void Recorder::record_match_class(PyObject* subject, PyObject* type, int positional, PyObject* keywords) {
  PyObject* const name = py::names.__match_args__;
  expose(subject, Reads::Type);
  expose(type, Reads::Type);
  if (!PyType_Check(type) || ended_) {
    return;  // raises TypeError
  }
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (has_plain_instance_check(type)) {
    PyObject* const own_class = py::names.__class__;
    record_attribute(subject, own_class);
    if (!PyObject_TypeCheck(subject, cls) && Py_TYPE(subject)->tp_getattro == PyObject_GenericGetAttr) {
      return;
    }
  }
  std::vector<PyObject*> names;
  Ref<> given = positional > 0 ? steal(PyObject_GetAttr(type, name)) : nullptr;
  forget_error();
  if (positional > 0) {
    record_attribute(type, name);
    if (given && (!PyTuple_CheckExact(given.get()) || PyTuple_GET_SIZE(given.get()) < positional)) {
      return;  // raises TypeError
    }
    expose(given.get(), Reads::Deep);
    for (int i = 0; given && i < positional; ++i) {
      names.push_back(PyTuple_GET_ITEM(given.get(), i));
    }
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    names.push_back(PyTuple_GET_ITEM(keywords, i));
  }
  for (PyObject* attribute : names) {
    if (!ended_ && PyUnicode_Check(attribute)) {
      record_attribute(subject, attribute);
    }
  }
}

}  // namespace alternator::record
