#include "record/purity.h"

#include <unordered_map>

namespace alternator::record {
namespace {

std::unordered_map<const void*, Purity> table;

PyObject* real_modules = nullptr;  // kept for good

constexpr const char* kNames[] = {
#define PURITY(name, row) row,
#include "record/purity.def"
#undef PURITY
};

}  // namespace

// The definition of the C function behind a callable (not the function pointer: pybind11 has one for all of its
// functions); for a type, the type itself. Null if there is none.
const void* key_of(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyCFunction_Type) {
    return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  }
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  if (type == &PyWrapperDescr_Type) {
    // Slots share wrapper functions and implementations; the pair is told by the descriptor, which types keep.
    return callable;
  }
  if (is_method_wrapper(callable)) {
    Ref<> objclass = steal(PyObject_GetAttrString(callable, "__objclass__"));
    Ref<> name = steal(PyObject_GetAttrString(callable, "__name__"));
    PyErr_Clear();
    return objclass && name && PyType_Check(objclass.get())
               ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(objclass.get()), name.get())
               : nullptr;
  }
  if (PyType_Check(callable)) {
    return callable;
  }
  return callable;  // other callables are in the table by identity
}

void set_real_modules(PyObject* names) { real_modules = Py_NewRef(names); }

bool is_of_real_module(PyObject* function) {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  PyObject* name = PyDict_GetItemWithError(reinterpret_cast<PyFunctionObject*>(function)->func_globals, key);
  for (Py_ssize_t i = 0; name && PyUnicode_Check(name) && real_modules && i < PyTuple_GET_SIZE(real_modules); ++i) {
    PyObject* module = PyTuple_GET_ITEM(real_modules, i);
    Py_ssize_t length = PyUnicode_GET_LENGTH(module);
    if (PyUnicode_Tailmatch(name, module, 0, PyUnicode_GET_LENGTH(name), -1) == 1 &&
        (PyUnicode_GET_LENGTH(name) == length || PyUnicode_ReadChar(name, length) == '.')) {
      return true;
    }
  }
  PyErr_Clear();
  return false;
}

bool is_method_wrapper(PyObject* callable) { return Py_TYPE(callable) == &_PyMethodWrapper_Type; }

bool fill_purity_table(PyObject* rows) {
  table.clear();
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    PyObject* callables = PyDict_GetItemString(rows, kNames[i]);
    if (callables == nullptr) {
      PyErr_Format(PyExc_KeyError, "the purity table has no row %s", kNames[i]);
      return false;
    }
    Ref<> list = steal(PySequence_List(callables));
    for (Py_ssize_t j = 0; list && j < PyList_GET_SIZE(list.get()); ++j) {
      PyObject* callable = PyList_GET_ITEM(list.get(), j);
      Py_INCREF(callable);  // lives as long as the table: its address is the key
      table.insert_or_assign(key_of(callable), static_cast<Purity>(i));  // the later row counts
    }
    if (!list) {
      return false;
    }
  }
  return true;
}

std::optional<Purity> purity_of(PyObject* callable) {
  auto found = table.find(key_of(callable));
  return found == table.end() ? std::nullopt : std::optional<Purity>(found->second);
}

}  // namespace alternator::record
