#include "record/arguments.h"

#include "source/value.h"

namespace alternator::record {
namespace {

Ref<> map_tuple(PyObject* tuple, PyObject* function) {
  Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  Ref<> copy = nullptr;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    Ref<> mapped = map_tensors(item, function);
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

Ref<> map_list(PyObject* list, PyObject* function) {
  // Always a copy: the program may change its list while the graph remembers it.
  Ref<> copy = steal(PyList_New(0));
  for (Py_ssize_t i = 0; copy && i < PyList_GET_SIZE(list); ++i) {
    Ref<> mapped = map_tensors(PyList_GET_ITEM(list, i), function);
    if (!mapped || PyList_Append(copy.get(), mapped.get()) < 0) {
      return nullptr;
    }
  }
  return copy;
}

Ref<> map_dict(PyObject* dict, PyObject* function) {
  Ref<> copy = steal(PyDict_New());
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (copy && PyDict_Next(dict, &position, &key, &value)) {
    Ref<> mapped = map_tensors(value, function);
    if (!mapped || PyDict_SetItem(copy.get(), key, mapped.get()) < 0) {
      return nullptr;
    }
  }
  return copy;
}

Ref<> map_slice(PyObject* object, PyObject* function) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  Ref<> start = map_tensors(slice->start, function);
  Ref<> stop = start ? map_tensors(slice->stop, function) : nullptr;
  Ref<> step = stop ? map_tensors(slice->step, function) : nullptr;
  return step ? steal(PySlice_New(start.get(), stop.get(), step.get())) : nullptr;
}

}  // namespace

Ref<> map_tensors(PyObject* value, PyObject* function) {
  source::Sort sort = source::sort_of(value);
  if (sort == source::Sort::Primitive) {
    return share(value);
  }
  if (sort == source::Sort::Tensor || PyType_Check(value)) {
    return steal(PyObject_CallOneArg(function, value));
  }
  PyTypeObject* type = Py_TYPE(value);
  if (PyTuple_Check(value)) {
    return map_tuple(value, function);
  }
  if (type == &PyList_Type) {
    return map_list(value, function);
  }
  if (type == &PyDict_Type) {
    return map_dict(value, function);
  }
  if (type == &PySlice_Type) {
    return map_slice(value, function);
  }
  // Members of enumerations; functions would be called.
  if (sort == source::Sort::Pinned && !PyFunction_Check(value) && !PyModule_Check(value)) {
    return share(value);
  }
  PyErr_Format(PyExc_TypeError, "an argument of type %s", type->tp_name);
  return nullptr;
}

}  // namespace alternator::record
