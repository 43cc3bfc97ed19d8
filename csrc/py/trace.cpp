#include "py/trace.h"

#include "base/ref.h"
#include "base/shortage.h"

namespace alternator::py {
namespace {

// Calls the thread's trace or profile function the way CPython's loop does, with the current frame.
bool call_trace(ThreadState* ts, Py_tracefunc function, PyObject* self, int what, PyObject* argument) {
  if (ts->tracing) {
    return true;
  }
  Ref<PyFrameObject> frame = Ref<PyFrameObject>::steal(PyThreadState_GetFrame(ts));
  if (!frame) {
    return true;
  }
  int outer = ts->tracing_what;
  ts->tracing_what = what;
  PyThreadState_EnterTracing(ts);
  frame->f_lineno = line_of(ts->cframe->current_frame);
  int result = function(self, frame.get(), what, argument);
  frame->f_lineno = 0;
  PyThreadState_LeaveTracing(ts);
  ts->tracing_what = outer;
  return result == 0;
}

}  // namespace

void trace_exception(ThreadState* ts) {
  if (ts->c_tracefunc == nullptr) {
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (value == nullptr) {
    value = Py_NewRef(Py_None);
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref<> argument = steal(PyTuple_Pack(3, type, value, traceback ? traceback : Py_None));
  if (!argument) {
    forget_error();
  } else if (!call_trace(ts, ts->c_tracefunc, ts->c_traceobj, PyTrace_EXCEPTION, argument.get())) {
    // The trace function's own exception takes the place of the program's.
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return;
  }
  PyErr_Restore(type, value, traceback);
}

void trace_unwinding(ThreadState* ts) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  // CPython passes NULL, which its trampoline shows as None.
  bool fine = ts->c_tracefunc == nullptr || call_trace(ts, ts->c_tracefunc, ts->c_traceobj, PyTrace_RETURN, nullptr);
  fine = fine &&
         (ts->c_profilefunc == nullptr || call_trace(ts, ts->c_profilefunc, ts->c_profileobj, PyTrace_RETURN, nullptr));
  if (fine) {
    PyErr_Restore(type, value, traceback);
  } else {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
}

}  // namespace alternator::py
