// What runs code when an object dies: a finaliser (`__del__`), a callback of a weak reference, the `finally` of a generator.
#pragma once

#include "py/python.h"

namespace alternator::py {

// The object itself, or what dies together with it.
bool runs_code_when_dropped(PyObject* object);
// The object itself.
bool is_finalised(PyObject* object);

}  // namespace alternator::py
