// The bodies of CPython's own containers: what an object holds, apart from its identity.
//
// A journal that has to put a container back exactly (order, holes, hash table, version) takes a twin: an object of the
// container's builtin base with equal contents. Then the two exchange bodies: the container goes on with the copy, the
// twin keeps the original, and a second exchange puts everything back.
#pragma once

#include <vector>

#include "py/python.h"

namespace alternator::py {

enum class BodyKind : uint8_t { None, List, Dict, OrderedDict, Set, Deque };

// The kind of body, if the object's class is such a container, or derived from it without iterating in its own way.
BodyKind body_kind(PyObject* object);

// An object of the builtin base with equal contents, in the same order. New reference, null with an exception set.
PyObject* make_twin(PyObject* object, BodyKind kind);
// Both of the same kind. Runs no code.
void exchange_bodies(PyObject* a, PyObject* b, BodyKind kind);

// What a container holds, in the order of its memory; borrowed. Runs no code.
std::vector<PyObject*> list_contents(PyObject* object, BodyKind kind);

// How the items of a set lie in its table: that decides in which order they come, what pop() takes, and where the next ones
// will lie. As bytes, without the items. New reference; null with an exception set.
PyObject* set_layout(PyObject* set);
// Lays out the items of a set in this way, if their hashes are those of the layout's. They are given in the layout's order.
void arrange_set(PyObject* set, PyObject* layout, const std::vector<PyObject*>& items);

// collections.deque, of which CPython exports no more than the class.
PyTypeObject* deque_type();
Py_ssize_t deque_limit(PyObject* deque);  // maxlen, or -1
Py_ssize_t deque_limit_offset();

// A deque that drops items when others come.
inline bool has_limit(PyObject* object) { return body_kind(object) == BodyKind::Deque && deque_limit(object) >= 0; }

// The names of the attributes that an instance holds are in this order; puts them into it. False with an exception set.
bool reorder_attributes(PyObject* object, PyObject* names);

}  // namespace alternator::py
