// Lacks of memory or stack that our code met. Code that asks CPython something and goes on if there is no answer ("it has no such
// attribute") must not take a lack for an answer. It drops its exception by forget_error(), which counts lacks; who relies on
// the answers (a trace) compares the count before and after.
#pragma once

#include <Python.h>

#include <cstdint>

namespace alternator {

// MemoryError or RecursionError: the class, or an exception of it.
bool is_shortage(PyObject* error);

// How many this thread has met so far.
uint64_t count_shortages();

// Clears the error indicator.
void forget_set_error() noexcept;
inline void forget_error() noexcept {
  if (PyErr_Occurred() != nullptr) {
    forget_set_error();
  }
}

}  // namespace alternator
