// What can be told of a callable by looking at it, without calling it.
#pragma once

#include <string>

#include "base/ref.h"

namespace alternator::record {

// "module.function()"
std::string describe_callable(PyObject* callable);
// A call as the user may recognise it: texts among the arguments, and why the function was disabled.
std::string quote_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
// It is torch._dynamo.skip_frame.
bool asks_to_skip(PyObject* function);
// Python code gets the arguments, as they are.
bool passes_on_to_python(PyObject* callable);
// Calling it runs neither a function that is seen when it begins nor C code that has a contract.
bool is_opaque_callable(PyObject* object);
// The object that a builtin method is bound to; null if it is none. Borrowed from the callable.
PyObject* receiver_of(PyObject* callable);

}  // namespace alternator::record
