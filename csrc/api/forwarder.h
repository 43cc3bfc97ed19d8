// alternator._capture.Forwarder: a base class whose instances, when called, call the object in their `_captured_call`.
//
// That captures the calls of another object, the `_callee`. What these are is up to the class of the callee, which may
// get another `__call__` at any time: the captured call is told (`rebind`) before it is made.
#pragma once

#include "base/ref.h"

namespace alternator::api {

// Adds Forwarder and forward_calls() to the module. False with an exception set.
bool add_forwarder(PyObject* module);

}  // namespace alternator::api
