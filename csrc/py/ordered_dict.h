// OrderedDict keeps its order in a list of its own, which dict's functions and dict's version know nothing of.
#pragma once

#include "py/fields.h"

namespace alternator::py {

// As in CPython's Objects/odictobject.c, which has no header.
struct OrderedNode {
  PyObject* key;
  Py_hash_t hash;
  OrderedNode* next;
  OrderedNode* previous;
};
struct OrderedDict {
  PyDictObject dict;
  OrderedNode* first;
  OrderedNode* last;
  OrderedNode** nodes;
  Py_ssize_t node_count;
  void* resize_sentinel;
  size_t state;  // changes whenever the order does
  PyObject* attributes;
  PyObject* weakrefs;
};

// Whether this Python's OrderedDict is like that: tried out, once.
bool knows_ordered_dict();

inline const Word* order_word(PyObject* ordered_dict) {
  return word_at(&reinterpret_cast<OrderedDict*>(ordered_dict)->state);
}

// Calls visit(key) in the order of iteration until it says false; whether it never did. Also false if the order is not known.
template <class Visit>
bool visit_keys(PyObject* dict, Visit visit) {
  if (PyODict_Check(dict)) {
    if (!knows_ordered_dict()) {
      return false;
    }
    for (OrderedNode* node = reinterpret_cast<OrderedDict*>(dict)->first; node != nullptr; node = node->next) {
      if (!visit(node->key)) {
        return false;
      }
    }
    return true;
  }
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!visit(key)) {
      return false;
    }
  }
  return true;
}

}  // namespace alternator::py
