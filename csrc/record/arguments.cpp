#include "record/arguments.h"

#include <structmember.h>

#include "py/instance.h"
#include "source/value.h"

namespace alternator::record {

TensorMap::TensorMap(PyObject* function, PyObject* table, PyObject* member) : function_(function) {
  if (table != nullptr && PyDict_CheckExact(table) && Py_IS_TYPE(member, &PyMemberDescr_Type)) {
    auto* descriptor = reinterpret_cast<PyMemberDescrObject*>(member);
    table_ = table;
    entries_ = descriptor->d_common.d_type;
    offset_ = descriptor->d_member->offset;
  }
}

Ref<> TensorMap::of(PyObject* tensor) const {
  if (table_ != nullptr) {
    Ref<> id = steal(PyLong_FromVoidPtr(tensor));
    PyObject* entry = id ? PyDict_GetItemWithError(table_, id.get()) : nullptr;
    if (entry != nullptr && Py_IS_TYPE(entry, entries_)) {
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(entry) + offset_);
      if (value != nullptr && value != Py_None) {
        return share(value);
      }
    }
    if (PyErr_Occurred()) {
      return nullptr;
    }
  }
  return steal(PyObject_CallOneArg(function_, tensor));
}

namespace {

Ref<> map_tuple(PyObject* tuple, const TensorMap& map) {
  Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  Ref<> copy = nullptr;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    Ref<> mapped = map_tensors(item, map);
    if (!mapped) {
      return nullptr;
    }
    if (!copy && mapped.get() == item && PyTuple_CheckExact(tuple)) {
      continue;
    }
    if (!copy) {
      copy = steal(PyTuple_New(size));
      for (Py_ssize_t j = 0; copy && j < i; ++j) {
        PyTuple_SET_ITEM(copy.get(), j, Py_NewRef(PyTuple_GET_ITEM(tuple, j)));
      }
      if (!copy) {
        return nullptr;
      }
    }
    PyTuple_SET_ITEM(copy.get(), i, mapped.release());
  }
  if (!copy) {
    return PyTuple_CheckExact(tuple) ? share(tuple) : steal(PyTuple_New(0));
  }
  return copy;
}

Ref<> map_list(PyObject* list, const TensorMap& map) {
  // Always a copy: the program may change its list while the graph remembers it.
  Ref<> copy = steal(PyList_New(0));
  for (Py_ssize_t i = 0; copy && i < PyList_GET_SIZE(list); ++i) {
    Ref<> mapped = map_tensors(PyList_GET_ITEM(list, i), map);
    if (!mapped || PyList_Append(copy.get(), mapped.get()) < 0) {
      return nullptr;
    }
  }
  return copy;
}

Ref<> map_dict(PyObject* dict, const TensorMap& map) {
  Ref<> copy = steal(PyDict_New());
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (copy && PyDict_Next(dict, &position, &key, &value)) {
    Ref<> mapped = map_tensors(value, map);
    if (!mapped || PyDict_SetItem(copy.get(), key, mapped.get()) < 0) {
      return nullptr;
    }
  }
  return copy;
}

Ref<> map_slice(PyObject* object, const TensorMap& map) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  Ref<> start = map_tensors(slice->start, map);
  Ref<> stop = start ? map_tensors(slice->stop, map) : nullptr;
  Ref<> step = stop ? map_tensors(slice->step, map) : nullptr;
  return step ? steal(PySlice_New(start.get(), stop.get(), step.get())) : nullptr;
}

using Container = Ref<> (*)(PyObject*, const TensorMap&);

Container container_of(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return PyTuple_Check(value)    ? map_tuple
         : type == &PyList_Type  ? map_list
         : type == &PyDict_Type  ? map_dict
         : type == &PySlice_Type ? map_slice
                                 : nullptr;
}

}  // namespace

Ref<> map_tensors(PyObject* value, const TensorMap& map) {
  source::Sort sort = source::sort_of(value);
  if (sort == source::Sort::Primitive) {
    return share(value);
  }
  if (sort == source::Sort::Tensor || PyType_Check(value)) {
    return map.of(value);
  }
  PyTypeObject* type = Py_TYPE(value);
  if (Container container = container_of(value)) {
    if (Py_EnterRecursiveCall(" in the arguments of a function of torch")) {
      return nullptr;  // it may contain itself
    }
    Ref<> mapped = container(value, map);
    Py_LeaveRecursiveCall();
    return mapped;
  }
  // torch takes what is derived from a number or a text for just that, members of enumerations among them; the code of a graph
  // could not always name those (two flags in one).
  if (Ref<> plain = steal(py::base_value(value)); plain && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    return plain;
  }
  // Other members of enumerations; functions would be called.
  if (sort == source::Sort::Pinned && !PyFunction_Check(value) && !PyModule_Check(value)) {
    return share(value);
  }
  PyErr_Format(PyExc_TypeError, "an argument of type %s", type->tp_name);
  return nullptr;
}

}  // namespace alternator::record
