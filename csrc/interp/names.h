// Interned strings that the loop looks up by.
#pragma once

#include <Python.h>

namespace alternator::interp {

#define ALTERNATOR_NAMES(X)                                                                            \
  X(__enter__)                                                                                         \
  X(__exit__)                                                                                          \
  X(__aenter__)                                                                                        \
  X(__aexit__) X(__import__) X(__build_class__) X(__annotations__) X(__name__) X(__spec__) X(__call__) \
      X(__match_args__) X(split) X(get) X(send) X(displayhook)

struct Names {
#define X(name) PyObject* name;
  ALTERNATOR_NAMES(X)
#undef X
  PyObject* empty;  // ""
};

extern Names names;

// False with an exception set.
bool prepare_names();

}  // namespace alternator::interp
