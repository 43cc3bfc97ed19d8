#include "base/boundary.h"

#include <unistd.h>

#include <cstdio>
#include <new>

namespace alternator {
namespace {

// The thread has been ended, and does not know it yet: it waits for the process to end.
[[noreturn]] void wait_for_the_end() {
  while (true) {
    pause();
  }
}

}  // namespace

void translate_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    // A Python exception that C++ code passed on is the better one.
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_RuntimeError, "alternator: %s", error.what());
    }
  } catch (...) {
    wait_for_the_end();
  }
}

void die_of_exception(const char* where) noexcept {
  char text[512];
  try {
    throw;
  } catch (const std::exception& error) {
    std::snprintf(text, sizeof text, "alternator: a C++ exception %s: %s", where, error.what());
  } catch (...) {
    wait_for_the_end();
  }
  Py_FatalError(text);
}

}  // namespace alternator
