// Where objects keep their state, as 64-bit words: what can be compared in memory instead of being looked up. An address is
// good for as long as the object that it was asked of lives and nothing said otherwise below changed. Nothing here runs
// Python code.
#pragma once

#include "py/layout.h"

namespace alternator::py {

using Word = uint64_t __attribute__((may_alias));
static_assert(sizeof(PyObject*) == sizeof(Word), "words are pointers, sizes and versions");

inline const Word* word_at(const void* field) { return static_cast<const Word*>(field); }

inline const Word* type_word(PyObject* object) { return word_at(&object->ob_type); }

// Only instances of mutable classes, and modules, can be given another class.
inline bool keeps_its_class(PyObject* object) {
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && !PyModule_Check(object);
}

// The version of a type is half a word; what follows it is padding.
static_assert(offsetof(PyTypeObject, tp_version_tag) % sizeof(Word) == 0, "no word starts at tp_version_tag");
inline const Word* type_version_word(PyTypeObject* type) { return word_at(&type->tp_version_tag); }

inline const Word* dict_version_word(PyObject* dict) {
  return word_at(&reinterpret_cast<PyDictObject*>(dict)->ma_version_tag);
}

inline const Word* dict_size_word(PyObject* dict) { return word_at(&reinterpret_cast<PyDictObject*>(dict)->ma_used); }

inline const Word* size_word(PyObject* sequence) { return word_at(&reinterpret_cast<PyVarObject*>(sequence)->ob_size); }
inline const Word* set_size_word(PyObject* set) { return word_at(&reinterpret_cast<PySetObject*>(set)->used); }
inline const Word* list_items_word(PyObject* list) { return word_at(&reinterpret_cast<PyListObject*>(list)->ob_item); }
inline const Word* list_item_word(PyObject* list, Py_ssize_t index) {
  return word_at(reinterpret_cast<PyListObject*>(list)->ob_item + index);
}
inline const Word* tuple_item_word(PyObject* tuple, Py_ssize_t index) {
  return word_at(reinterpret_cast<PyTupleObject*>(tuple)->ob_item + index);
}
inline const Word* cell_word(PyObject* cell) { return word_at(&reinterpret_cast<PyCellObject*>(cell)->ob_ref); }
inline const Word* slot_word(PyObject* object, Py_ssize_t offset) {
  return word_at(reinterpret_cast<char*>(object) + offset);
}
inline const Word* method_part_word(PyObject* method, bool self) {
  auto* object = reinterpret_cast<PyMethodObject*>(method);
  return word_at(self ? &object->im_self : &object->im_func);
}
inline const Word* annotations_word(PyObject* function) {
  return word_at(&reinterpret_cast<PyFunctionObject*>(function)->func_annotations);
}

// Whether what an object has at an offset stays there for as long as the object lives.
inline bool is_fixed_field(PyObject* object, Py_ssize_t offset) {
  return PyFunction_Check(object) &&
         (offset == offsetof(PyFunctionObject, func_globals) || offset == offsetof(PyFunctionObject, func_closure));
}

// The words that decide what dict an instance has; `add` gets each. Returns the dict as it is now, null if there is none
// (`values` then says whether the attributes are kept beside the object).
template <class Add>
PyObject* visit_dict_words(PyObject* object, PyObject*** values, Add add) {
  PyTypeObject* type = Py_TYPE(object);
  *values = nullptr;
  if (has_managed_dict(type)) {
    *values = inline_values(object);
    if (*values != nullptr) {
      add(word_at(_PyObject_ValuesPointer(object)));
      return nullptr;
    }
    // An instance that once had a dict never gets its values beside it again.
    PyObject** dict = _PyObject_ManagedDictPointer(object);
    if (*dict == nullptr) {
      add(word_at(_PyObject_ValuesPointer(object)));
    }
    add(word_at(dict));
    return *dict;
  }
  if (type->tp_dictoffset <= 0) {
    return nullptr;
  }
  auto** dict = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_dictoffset);
  add(word_at(dict));
  return *dict;
}

// Whether what visit_dict_words() finds is a dict.
inline bool has_dict(PyObject* object) {
  PyObject** values;
  return visit_dict_words(object, &values, [](const Word*) {}) != nullptr;
}

// The words that decide what own_attribute() (py/members.h) says: add(word, whether it is the attribute itself). What such a
// word points to is not kept alive by anything that the words prove.
template <class Add>
void visit_attribute_words(PyObject* object, PyObject* name, Add add) {
  PyObject** values;
  if (PyObject* dict = visit_dict_words(object, &values, [&](const Word* at) { add(at, false); })) {
    add(dict_version_word(dict), false);
  } else if (values != nullptr) {
    Py_ssize_t index = find_shared_key(Py_TYPE(object), name);
    if (index >= 0) {
      add(word_at(values + index), true);
    } else {
      add(word_at(&shared_keys(Py_TYPE(object))->dk_nentries), false);  // keys are only ever added
    }
  }
}

}  // namespace alternator::py
