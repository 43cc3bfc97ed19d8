// Looking into objects without running anybody's code and without changing their layout.
#pragma once

#include <span>

#include "base/ref.h"
#include "base/shortage.h"
#include "py/layout.h"

namespace alternator::py {

// An attribute that the instance itself holds (not its class), borrowed; null if it has none. `known` turns false if that
// cannot be told without running code.
inline PyObject* own_attribute(PyObject* object, PyObject* name, bool* known) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* dict = nullptr;
  if (has_managed_dict(type)) {
    if (PyObject** values = inline_values(object)) {
      Py_ssize_t index = find_shared_key(type, name);
      return index >= 0 ? values[index] : nullptr;
    }
    dict = managed_dict(object);
  } else if (type->tp_dictoffset > 0) {
    dict = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_dictoffset);
  } else if (type->tp_dictoffset < 0) {
    *known = false;  // behind a variable-sized object
    return nullptr;
  }
  if (dict == nullptr) {
    return nullptr;
  }
  if (!has_string_keys(dict)) {
    *known = false;
    return nullptr;
  }
  return _PyDict_GetItem_KnownHash(dict, name, string_hash(name));
}

// Visits the values of the attributes that the instance itself holds, borrowed, some of them null.
template <class Visit>
void visit_attributes(PyObject* object, Visit visit) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* dict = nullptr;
  if (has_managed_dict(type)) {
    if (PyObject** values = inline_values(object)) {
      for (Py_ssize_t i = 0; i < shared_keys(type)->dk_nentries; ++i) {
        visit(values[i]);
      }
      return;
    }
    dict = managed_dict(object);
  } else if (type->tp_dictoffset > 0) {
    dict = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_dictoffset);
  }
  Py_ssize_t position = 0;
  PyObject* value;
  while (dict != nullptr && PyDict_Next(dict, &position, nullptr, &value)) {
    visit(value);
  }
}

// The attributes that the instance itself holds, in their order: a list of (name, value). Null with an exception set.
Ref<> own_attributes(PyObject* object);

// A method of a C class that is bound to an object: [].append, {}.__getitem__.
struct BoundMethod {  // Objects/descrobject.c keeps the second kind to itself
  PyObject_HEAD;
  PyObject* descriptor;
  PyObject* self;
};
// The object that it is bound to, borrowed; null if it is no such method.
PyObject* bound_to(PyObject* callable);
// Where it keeps what it is a method of, and what it does.
inline Py_ssize_t bound_self_offset(PyObject* callable) {
  return PyCFunction_CheckExact(callable) ? offsetof(PyCFunctionObject, m_self) : offsetof(BoundMethod, self);
}
inline Py_ssize_t bound_definition_offset(PyObject* callable) {
  return PyCFunction_CheckExact(callable) ? offsetof(PyCFunctionObject, m_ml) : offsetof(BoundMethod, descriptor);
}

// Where an object that is made of others, and is no container, keeps them: a view of a dict or a read-only one, a slice, a
// functools.partial. None for all others.
struct Part {
  const char* name;
  Py_ssize_t offset;
};
std::span<const Part> fixed_parts(PyObject* object);

// The mapping that a view of keys, items or values, or a mappingproxy, shows; borrowed. Null if the object is none.
inline PyObject* shown_mapping(PyObject* object) {
  auto parts = fixed_parts(object);
  return parts.size() == 1 ? *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + parts[0].offset) : nullptr;
}

// An item of a dict by a key whose hash and equality are C code; borrowed, null if absent.
inline PyObject* dict_item(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr) {
    forget_error();
  }
  return value;
}

// An item of a dict by an object whose hash is its address, and that equals nothing else; borrowed, null if absent.
inline PyObject* dict_item_at(PyObject* dict, PyObject* key) {
  PyObject* value = _PyDict_GetItem_KnownHash(dict, key, static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(key)));
  if (value == nullptr) {
    forget_error();
  }
  return value;
}

// The class that a descriptor of a C function or field was made for; null for any other object. And where in that class's
// tables it points to.
inline PyTypeObject* descriptor_owner(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  bool descriptor = type == &PyMemberDescr_Type || type == &PyGetSetDescr_Type || type == &PyMethodDescr_Type ||
                    type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type;
  return descriptor ? reinterpret_cast<PyDescrObject*>(object)->d_type : nullptr;
}
inline const void* descriptor_place(PyObject* descriptor) {
  static_assert(sizeof(PyMemberDescrObject) == sizeof(PyDescrObject) + sizeof(void*), "the place comes last");
  return reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;  // of the others, at the same offset
}

}  // namespace alternator::py
