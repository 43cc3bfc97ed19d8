#include "base/shortage.h"

namespace alternator {
namespace {

thread_local constinit uint64_t shortages = 0;

}  // namespace

bool is_shortage(PyObject* error) {
  return PyErr_GivenExceptionMatches(error, PyExc_MemoryError) ||
         PyErr_GivenExceptionMatches(error, PyExc_RecursionError);
}

uint64_t count_shortages() { return shortages; }

void forget_set_error() noexcept {
  shortages += is_shortage(PyErr_Occurred());
  PyErr_Clear();
}

}  // namespace alternator
