// What except* and with statements do, out of line. False means that an exception is set.
#pragma once

#include "py/python.h"

namespace alternator::interp {

// Splits an exception by the type behind except*: `match` and `rest` are new references, None where there is nothing.
bool split_exception(PyObject* exception, PyObject* type, PyObject** match, PyObject** rest);

// The methods of a context manager, bound: new references.
bool find_manager_methods(PyObject* manager, bool asynchronous, PyObject** enter, PyObject** exit);

// The async iteration protocol: new references, null with an exception set.
PyObject* async_iterator(PyObject* object);
PyObject* async_next(PyObject* iterator);
PyObject* awaitable(PyObject* object, int where);

}  // namespace alternator::interp
