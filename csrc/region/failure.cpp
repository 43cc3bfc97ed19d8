// Failures of our own: the program, which has not begun, runs as it would without us.
#include <string>

#include "base/shortage.h"
#include "region/region.h"

namespace alternator::region {
namespace {

// Memory or stack ran out. C code, torch's as well, may have made another exception of it.
bool comes_of_shortage(PyObject* error) {  // or null
  for (Ref<> cause = share(error); cause; cause = steal(PyException_GetCause(cause.get()))) {
    if (is_shortage(cause.get())) {
      return true;
    }
  }
  return false;
}

}  // namespace

void Captured::forgive_shortage() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyErr_Restore(type, value, traceback);
  if (comes_of_shortage(value)) {
    PyErr_Clear();
  }
}

void Captured::forgive_failure(Point& point, PyObject* error) {
  if (comes_of_shortage(error)) {
    return;
  }
  Ref<> text = steal(PyObject_Repr(error));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  Abort abort{AbortReason::Internal, "?", utf8 ? utf8 : ""};
  if (!fullgraph_) {
    point.conduct = Conduct::Native;
  }
  tell(fullgraph_ ? "error" : "eager", abort);
}

}  // namespace alternator::region
