// The evaluation loop.
#pragma once

#include "interp/observer.h"
#include "py/frame.h"

namespace alternator::interp {

struct StackState;

// Runs a frame as _PyEval_EvalFrameDefault() would. With `restoring`, the frame is first given that state (snapshot.h).
PyObject* evaluate(py::ThreadState* ts, py::Frame* entry, int throwflag, StackState* restoring);
PyObject* evaluate_observed(py::ThreadState* ts, py::Frame* entry, int throwflag, Observer* observer,
                            StackState* restoring);

// How often a frame was handed over to CPython's loop in mid-frame, since the process started.
extern uint64_t frames_handed_over;

}  // namespace alternator::interp
