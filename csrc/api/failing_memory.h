// Python's memory allocators, for tests, with a chosen allocation that fails. Only allocations of our own code count: those
// that CPython makes on its behalf, and those of our Python code, but none that torch, a backend or the program itself makes,
// in either loop. Who it is that allocates is seen on the C stack.
#pragma once

#include "base/ref.h"

namespace alternator::api {

// count_memory(at, file): from now on the allocations of our code are counted, and number `at` fails (-1: none). `file` is the
// file of the package that calls this; it is not counted itself.
PyObject* count_memory(PyObject*, PyObject* args);
// release_memory() -> (allocations counted, whether one failed, whether a capture was going on then). Back to the ordinary
// allocators.
PyObject* release_memory(PyObject*, PyObject*);

}  // namespace alternator::api
