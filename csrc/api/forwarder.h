// alternator._capture.Forwarder: a base class whose instances, when called, call the object in their `_captured_call`.
#pragma once

#include "base/ref.h"

namespace alternator::api {

// Adds Forwarder and forward_calls() to the module. False with an exception set.
bool add_forwarder(PyObject* module);

}  // namespace alternator::api
