// Iterators over dicts, ordered dicts and sets: their __reduce__ tells only the items that are left, in a list. What one
// does when its table changes, and of which class it is, can be seen; so they are made again over the table itself.
#pragma once

#include "base/ref.h"
#include "py/python.h"

namespace alternator::py {

// Which one it is: `kind` tells those of ordered dicts apart.
struct TableIteration {
  PyTypeObject* type;
  int kind;
};

// Where one stands, in a table that holds the same items in the same order.
struct TablePosition {
  Py_ssize_t place;   // a set: the entry; a dict: the items before it; an ordered dict: the items given
  Py_ssize_t used;    // the size of the table when it began; an ordered dict: whether it has changed since then
  Py_ssize_t length;  // how many it says are left
};

bool is_table_iterator(PyObject* iterator);
// Borrowed; null if it has ended.
PyObject* table_of(PyObject* iterator);
TableIteration iteration_of(PyObject* iterator);
// How many items it has given; -1 if nobody can tell.
Py_ssize_t count_given(PyObject* iterator);
// Whether a table of that size, unchanged, is what it began with.
bool began_with(PyObject* iterator, Py_ssize_t size);
// A new reference to an iterator that has given so many items; without a table, to one that has ended. Null with an
// exception set.
PyObject* make_table_iterator(PyObject* table, TableIteration iteration, Py_ssize_t given);

TablePosition position_of(PyObject* iterator);
// False with an exception set.
bool set_position(PyObject* iterator, PyObject* table, TablePosition position);

}  // namespace alternator::py
