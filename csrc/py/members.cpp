#include "py/members.h"
#include "base/once.h"

#include "base/shortage.h"

namespace alternator::py {
namespace {

// Values beside the object: the order of their insertion stands in bytes before them, counted downwards.
bool add_inline_values(PyObject* object, PyObject* list) {
  auto* bytes = reinterpret_cast<uint8_t*>(*_PyObject_ValuesPointer(object));
  PyObject** values = inline_values(object);
  PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(shared_keys(Py_TYPE(object)));
  for (int i = 0; i < bytes[-2]; ++i) {
    int index = bytes[-3 - i];
    Ref<> pair = steal(PyTuple_Pack(2, entries[index].me_key, values[index]));
    if (!pair || PyList_Append(list, pair.get()) < 0) {
      return false;
    }
  }
  return true;
}

bool has_method(PyTypeObject* type, const PyMethodDef* definition) {
  Ref<> name = steal(PyUnicode_InternFromString(definition->ml_name));
  for (Py_ssize_t i = 0; name && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
    PyObject* found = dict_item(dict, name.get());
    if (found != nullptr && Py_IS_TYPE(found, &PyMethodDescr_Type) && descriptor_place(found) == definition) {
      return true;
    }
  }
  forget_error();
  return false;
}

}  // namespace

PyObject* bound_to(PyObject* callable) {
  if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
    return reinterpret_cast<BoundMethod*>(callable)->self;
  }
  PyObject* self = PyCFunction_CheckExact(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  // A function of a module or a class has that as its self, one of pybind11 a record of its own.
  bool plain = self == nullptr || PyModule_Check(self) || PyType_Check(self) || PyCapsule_CheckExact(self);
  return !plain && has_method(Py_TYPE(self), reinterpret_cast<PyCFunctionObject*>(callable)->m_ml) ? self : nullptr;
}

Ref<> own_attributes(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Ref<> list = steal(PyList_New(0));
  PyObject* dict = nullptr;
  if (has_managed_dict(type)) {
    if (inline_values(object) != nullptr) {
      return list && add_inline_values(object, list.get()) ? std::move(list) : nullptr;
    }
    dict = managed_dict(object);
  } else if (PyObject** place = _PyObject_GetDictPtr(object)) {
    dict = *place;
  }
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (list && dict != nullptr && PyDict_Next(dict, &position, &key, &value)) {
    Ref<> pair = steal(PyTuple_Pack(2, key, value));
    if (!pair || PyList_Append(list.get(), pair.get()) < 0) {
      return nullptr;
    }
  }
  return list;
}

namespace {

struct MappingProxy {  // as in Objects/descrobject.c
  PyObject_HEAD PyObject* mapping;
};

struct Partial {  // as in Modules/_functoolsmodule.c
  PyObject_HEAD PyObject* function;
  PyObject* arguments;
  PyObject* keywords;
};

PyTypeObject* partial_type() {
  static constinit Once<PyTypeObject*> type;
  return type.get([] {
    Ref<> module = steal(PyImport_ImportModule("functools"));
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "partial") : nullptr;  // kept for good
    forget_error();
    return reinterpret_cast<PyTypeObject*>(found);
  });
}

}  // namespace

std::span<const Part> fixed_parts(PyObject* object) {
  static constexpr Part view[] = {{"mapping", offsetof(_PyDictViewObject, dv_dict)}};
  static constexpr Part proxy[] = {{"mapping", offsetof(MappingProxy, mapping)}};
  static constexpr Part slice[] = {{"start", offsetof(PySliceObject, start)},
                                   {"stop", offsetof(PySliceObject, stop)},
                                   {"step", offsetof(PySliceObject, step)}};
  static constexpr Part partial[] = {{"func", offsetof(Partial, function)},
                                     {"args", offsetof(Partial, arguments)},
                                     {"keywords", offsetof(Partial, keywords)}};
  if (PyDictKeys_Check(object) || PyDictItems_Check(object) || PyDictValues_Check(object)) {
    return view;
  }
  if (Py_IS_TYPE(object, &PyDictProxy_Type)) {
    return proxy;
  }
  if (Py_IS_TYPE(object, partial_type())) {
    return partial;
  }
  return PySlice_Check(object) ? std::span<const Part>(slice) : std::span<const Part>();
}

}  // namespace alternator::py
