// Interned strings that the loop looks up by: the rows of names.def.
#pragma once

#include <Python.h>

namespace alternator::interp {

struct Names {
#define NAME(string) PyObject* string;
#include "interp/names.def"
#undef NAME
  PyObject* empty;  // ""
};

extern Names names;

// False with an exception set.
bool prepare_names();

}  // namespace alternator::interp
