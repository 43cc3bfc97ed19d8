#include "interp/lookup.h"

#include "base/ref.h"
#include "interp/raise.h"
#include "py/names.h"

namespace alternator::interp {
namespace {

// A new reference, or null: absent if no exception is set.
PyObject* find_in(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping)) {
    return Py_XNewRef(PyDict_GetItemWithError(mapping, name));
  }
  PyObject* value = PyObject_GetItem(mapping, name);
  if (value == nullptr && PyErr_ExceptionMatches(PyExc_KeyError)) {
    PyErr_Clear();
  }
  return value;
}

PyObject* find_or_undefined(PyObject* mapping, PyObject* name) {
  PyObject* value = find_in(mapping, name);
  if (value == nullptr && !PyErr_Occurred()) {
    raise_undefined_name(name);
  }
  return value;
}

Ref<> module_text(PyObject* name) { return name ? share(name) : steal(PyUnicode_FromString("<unknown module name>")); }

void raise_cannot_import(PyObject* module, PyObject* name, PyObject* module_name) {
  Ref<> path = steal(PyModule_GetFilenameObject(module));
  Ref<> shown = module_text(module_name);
  if (!shown) {
    return;
  }
  if (!path || !PyUnicode_Check(path.get())) {
    PyErr_Clear();
    Ref<> text = steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
    PyErr_SetImportError(text.get(), module_name, nullptr);
    return;
  }
  Ref<> spec = steal(PyObject_GetAttr(module, py::names.__spec__));
  const char* format =
      _PyModuleSpec_IsInitializing(spec.get())
          ? "cannot import name %R from partially initialized module %R (most likely due to a circular import) (%S)"
          : "cannot import name %R from %R (%S)";
  Ref<> text = steal(PyUnicode_FromFormat(format, name, shown.get(), path.get()));
  PyErr_SetImportError(text.get(), module_name, path.get());
}

}  // namespace

PyObject* load_global(py::Frame* frame, PyObject* name, CacheLine* line) {
  PyObject* globals = frame->f_globals;
  PyObject* builtins = frame->f_builtins;
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
    PyObject* value = PyObject_GetItem(globals, name);
    if (value != nullptr || !PyErr_ExceptionMatches(PyExc_KeyError)) {
      return value;
    }
    PyErr_Clear();
    return find_or_undefined(builtins, name);
  }
  Py_hash_t hash = py::string_hash(name);
  if (hash == -1) {
    return nullptr;
  }
  PyObject* value = _PyDict_GetItem_KnownHash(globals, name, hash);
  bool in_globals = value != nullptr;
  if (value == nullptr && !PyErr_Occurred()) {
    value = _PyDict_GetItem_KnownHash(builtins, name, hash);
  }
  if (value == nullptr) {
    if (!PyErr_Occurred()) {
      raise_undefined_name(name);
    }
    return nullptr;
  }
  Py_INCREF(value);
  if (line != nullptr) {
    fill_global(line, globals, builtins, name, in_globals);
  }
  return value;
}

PyObject* load_name(py::Frame* frame, PyObject* name) {
  if (frame->f_locals == nullptr) {
    raise_no_locals("when loading", name);
    return nullptr;
  }
  PyObject* value = find_in(frame->f_locals, name);
  if (value == nullptr && !PyErr_Occurred()) {
    value = Py_XNewRef(PyDict_GetItemWithError(frame->f_globals, name));
  }
  if (value == nullptr && !PyErr_Occurred()) {
    value = find_or_undefined(frame->f_builtins, name);
  }
  return value;
}

PyObject* load_class_cell(py::Frame* frame, int index) {
  PyObject* name = PyTuple_GET_ITEM(frame->f_code->co_localsplusnames, index);
  PyObject* value = find_in(frame->f_locals, name);
  if (value != nullptr || PyErr_Occurred()) {
    return value;
  }
  value = PyCell_GET(frame->localsplus[index]);
  if (value == nullptr) {
    raise_unbound_cell(frame->f_code, index);
    return nullptr;
  }
  return Py_NewRef(value);
}

bool store_name(py::Frame* frame, PyObject* name, PyObject* value) {
  PyObject* locals = frame->f_locals;
  if (locals == nullptr) {
    raise_no_locals("found when storing", name);
    return false;
  }
  int failed = PyDict_CheckExact(locals) ? PyDict_SetItem(locals, name, value) : PyObject_SetItem(locals, name, value);
  return failed == 0;
}

bool delete_name(py::Frame* frame, PyObject* name) {
  if (frame->f_locals == nullptr) {
    raise_no_locals("when deleting", name);
    return false;
  }
  if (PyObject_DelItem(frame->f_locals, name) == 0) {
    return true;
  }
  raise_undefined_name(name);  // whatever the namespace raised
  return false;
}

bool set_up_annotations(py::Frame* frame) {
  PyObject* locals = frame->f_locals;
  if (locals == nullptr) {
    raise_no_locals("found when setting up annotations", nullptr);
    return false;
  }
  Ref<> found = steal(find_in(locals, py::names.__annotations__));
  if (found || PyErr_Occurred()) {
    return static_cast<bool>(found);
  }
  Ref<> made = steal(PyDict_New());
  return made && store_name(frame, py::names.__annotations__, made.get());
}

PyObject* load_build_class(py::Frame* frame) {
  PyObject* value = find_in(frame->f_builtins, py::names.__build_class__);
  if (value == nullptr && !PyErr_Occurred()) {
    PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  }
  return value;
}

PyObject* import_name(py::ThreadState* ts, py::Frame* frame, PyObject* name, PyObject* fromlist, PyObject* level) {
  Ref<> import = share(PyDict_GetItemWithError(frame->f_builtins, py::names.__import__));
  if (!import) {
    if (!PyErr_Occurred()) {
      PyErr_SetString(PyExc_ImportError, "__import__ not found");
    }
    return nullptr;
  }
  PyObject* locals = frame->f_locals ? frame->f_locals : Py_None;
  if (import.get() == ts->interp->import_func) {
    int depth = _PyLong_AsInt(level);
    if (depth == -1 && PyErr_Occurred()) {
      return nullptr;
    }
    return PyImport_ImportModuleLevelObject(name, frame->f_globals, locals, fromlist, depth);
  }
  PyObject* arguments[] = {name, frame->f_globals, locals, fromlist, level};
  return PyObject_Vectorcall(import.get(), arguments, 5, nullptr);
}

PyObject* import_from(PyObject* module, PyObject* name) {
  PyObject* value;
  if (_PyObject_LookupAttr(module, name, &value) != 0) {
    return value;
  }
  // A circular import: the submodule may be in sys.modules already.
  Ref<> module_name = steal(PyObject_GetAttr(module, py::names.__name__));
  if (module_name && !PyUnicode_Check(module_name.get())) {
    module_name.reset();
  }
  if (module_name) {
    Ref<> full = steal(PyUnicode_FromFormat("%U.%U", module_name.get(), name));
    if (!full) {
      return nullptr;
    }
    value = PyImport_GetModule(full.get());
    if (value != nullptr || PyErr_Occurred()) {
      return value;
    }
  }
  raise_cannot_import(module, name, module_name.get());
  return nullptr;
}

bool print_expression(PyObject* value) {
  Ref<> hook = share(PySys_GetObject("displayhook"));
  if (!hook) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return false;
  }
  Ref<> result = steal(PyObject_CallOneArg(hook.get(), value));
  return static_cast<bool>(result);
}

}  // namespace alternator::interp
