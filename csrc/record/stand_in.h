// Python code that a trace runs in place of C functions whose own reads cannot be seen (alternator/stand_ins.py).
#pragma once

#include <optional>

#include "base/ref.h"

namespace alternator::record {

// Fills the table: {name of the condition: {callable: Python function}}. False with an exception set.
bool fill_stand_ins(PyObject* table);

// What is to be called instead of `callable`; null if it runs itself; nothing if the stand-in does not take such arguments,
// and so the C function does not. `positional` of the arguments have no name, the others those in `names` (or null).
// The result is C code that calls the Python function: to the trace the call is still one of C code, which breaks as one.
// A stand-in itself (`caller`) calls the real thing.
std::optional<Ref<>> stand_in_for(PyObject* callable, PyObject* const* arguments, Py_ssize_t count,
                                  Py_ssize_t positional, PyObject* names, PyObject* caller);

// f(*iterable): C code that is called with f and the iterable in front of the names.
Ref<> unpacking_call();

// The frame runs such a function, or one that is written beside it.
bool is_stand_in(PyObject* globals);

}  // namespace alternator::record
