#include "record/purity.h"

#include <unordered_map>

namespace alternator::record {
namespace {

std::unordered_map<const void*, Purity> table;

constexpr const char* kNames[] = {"values",   "identity",  "shallow",  "deep",     "length",   "truth",
                                  "registry", "type_test", "get_attr", "set_attr", "get_item", "update",
                                  "advance",  "torch",     "setting",  "state",    "scope",    "inner"};

// The C function behind a callable; for a type, the type itself. Null if there is none.
const void* key_of(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyCFunction_Type) {
    return reinterpret_cast<const void*>(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_meth);
  }
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
    return reinterpret_cast<const void*>(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_meth);
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

}  // namespace

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
      table.emplace(key_of(callable), static_cast<Purity>(i));
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
