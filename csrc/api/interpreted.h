// alternator.interpret(fn): a callable whose frames, and all frames below them, run in our loop.
#pragma once

#include "base/ref.h"

namespace alternator::api {

// Adds the type `Interpreted` to the module. False with an exception set.
bool add_interpreted_type(PyObject* module);

}  // namespace alternator::api
