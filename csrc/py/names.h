// Interned strings that objects are looked up by: the rows of names.def. They are made when the module is loaded, so that no
// function needs a static of its own for one (base/once.h says why).
#pragma once

#include <Python.h>

namespace alternator::py {

struct Names {
#define NAME(string) PyObject* string;
#define TEXT(name, string) PyObject* name;
#include "py/names.def"
#undef NAME
#undef TEXT
};

extern Names names;

// False with an exception set.
bool prepare_names();

}  // namespace alternator::py
