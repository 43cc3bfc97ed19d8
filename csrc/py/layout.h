// The insides of dicts, instances and types, as far as inline caches need them. Nothing here runs Python code.
#pragma once

#include "py/names.h"
#include "py/python.h"

namespace alternator::py {

// A type's version: changes with every change to the type or its bases; 0 while it has none.
inline uint32_t type_version(PyTypeObject* type) { return type->tp_version_tag; }

// The same, but a type that has no version yet gets one.
inline uint32_t current_type_version(PyTypeObject* type) {
  if (type->tp_version_tag == 0) {
    PyObject* const some_name = py::names.__class__;
    _PyType_Lookup(type, some_name);  // assigns one
  }
  return type->tp_version_tag;
}

// A dict's version: unique to this dict in this state.
inline uint64_t dict_version(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }

inline bool has_string_keys(PyObject* dict) {
  return reinterpret_cast<PyDictObject*>(dict)->ma_keys->dk_kind != DICT_KEYS_GENERAL;
}

// Where this very key object stands in a dict with string keys only, or -1: then nothing is known, an equal key may be
// there. A hint for dict_value_at().
inline Py_ssize_t find_dict_index(PyObject* dict, PyObject* key) {
  auto* object = reinterpret_cast<PyDictObject*>(dict);
  PyDictKeysObject* keys = object->ma_keys;
  if (object->ma_values != nullptr || keys->dk_kind != DICT_KEYS_UNICODE) {
    return -1;
  }
  PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    if (entries[i].me_key == key) {
      return i;
    }
  }
  return -1;
}

// The value of `key` if it still stands at `index`; null if not (it may stand elsewhere).
inline PyObject* dict_value_at(PyObject* dict, Py_ssize_t index, PyObject* key) {
  auto* object = reinterpret_cast<PyDictObject*>(dict);
  PyDictKeysObject* keys = object->ma_keys;
  if (object->ma_values != nullptr || keys->dk_kind != DICT_KEYS_UNICODE || index >= keys->dk_nentries) {
    return nullptr;
  }
  PyDictUnicodeEntry* entry = DK_UNICODE_ENTRIES(keys) + index;
  return entry->me_key == key ? entry->me_value : nullptr;
}

// Instances of ordinary classes keep their attributes in an array beside the object until somebody asks for __dict__.
inline bool has_managed_dict(PyTypeObject* type) { return type->tp_flags & Py_TPFLAGS_MANAGED_DICT; }
inline PyObject** inline_values(PyObject* object) {
  PyDictValues* values = *_PyObject_ValuesPointer(object);
  return values ? values->values : nullptr;
}
inline void note_inline_insertion(PyObject* object, Py_ssize_t index) {
  _PyDictValues_AddToInsertionOrder(*_PyObject_ValuesPointer(object), index);
}
inline PyObject* managed_dict(PyObject* object) { return *_PyObject_ManagedDictPointer(object); }
// The keys that the instances of a class share only grow: the same count is the same set.
inline PyDictKeysObject* shared_keys(PyTypeObject* type) {
  // A type with a managed dict is a heap type; where the compiler thinks to know better, it warns.
  __asm__("" : "+r"(type));
  return reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
}
inline Py_ssize_t shared_key_count(PyTypeObject* type) { return shared_keys(type)->dk_nentries; }
inline Py_ssize_t find_shared_key(PyTypeObject* type, PyObject* name) {
  PyDictKeysObject* keys = shared_keys(type);
  if (keys == nullptr || keys->dk_kind != DICT_KEYS_SPLIT) {
    return -1;
  }
  PyDictUnicodeEntry* entries = DK_UNICODE_ENTRIES(keys);
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    if (entries[i].me_key == name) {
      return i;
    }
  }
  // A key need not be the interned string: only equality proves that there is none.
  for (Py_ssize_t i = 0; i < keys->dk_nentries; ++i) {
    if (_PyUnicode_EQ(entries[i].me_key, name)) {
      return i;
    }
  }
  return -1;
}

inline Py_hash_t string_hash(PyObject* string) {
  Py_hash_t hash = reinterpret_cast<PyASCIIObject*>(string)->hash;
  return hash != -1 ? hash : PyObject_Hash(string);
}

}  // namespace alternator::py
