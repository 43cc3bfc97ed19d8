// What the building instructions do, out of line. Null or false means that an exception is set.
#pragma once

#include "py/python.h"

namespace alternator::interp {

// Takes over the references, one after the other: duplicates die in their order.
PyObject* build_set(PyObject* const* items, int count);
// [key, value, key, value, ..]
PyObject* build_dict(PyObject* const* items, int count);
PyObject* build_dict_with_keys(PyObject* keys, PyObject* const* values, int count);
// `conversion` is FORMAT_VALUE's: 0 none, 1 str, 2 repr, 3 ascii.
PyObject* format_value(PyObject* value, PyObject* spec, int conversion);
bool extend_list(PyObject* list, PyObject* iterable);
bool update_dict(PyObject* dict, PyObject* update);
// Takes `before` items, and with after >= 0 a list of the rest and `after` items more. They are stored downwards
// from `end`, the first item topmost.
bool unpack_iterable(PyObject* iterable, int before, int after, PyObject** end);

// Pattern matching. A match gives a tuple, none gives None.
PyObject* match_keys(PyObject* mapping, PyObject* keys);
PyObject* match_class(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* keywords);

}  // namespace alternator::interp
