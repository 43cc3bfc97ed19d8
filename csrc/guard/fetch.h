// What a guard looks at: for the check and for the explanation of a failure.
#pragma once

#include "guard/guard.h"

namespace alternator::guard {

// The object that is there now, borrowed; null if it is absent. `valid` turns false if it cannot be looked at.
PyObject* fetch(const Guard& guard, PyObject* parent, PyObject* const* locals, const std::vector<PyObject*>& slots,
                bool* valid);

// Of a list, tuple, dict, set or deque; -1 for another object.
Py_ssize_t length_of(PyObject* object);

// What a getter says now; null if it fails.
Ref<> read_setting(const Guard& guard);
Ref<> read_c_attribute(const Guard& guard, PyObject* parent);

}  // namespace alternator::guard
