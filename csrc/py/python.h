// CPython's own headers, public and internal. Included by csrc/py only: the rest of the core sees the names that
// csrc/py gives to things, so that another Python version is a change to this folder.
#pragma once

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif

#include <Python.h>
#include <frameobject.h>
#include <structmember.h>

// pycore_atomic.h would include <stdatomic.h>, which C++20 does not have in CPython's form.
#ifdef __cplusplus
#undef HAVE_STD_ATOMIC
extern "C" {
#endif

#include "internal/pycore_atomic.h"
#include "internal/pycore_ceval.h"
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"
#include "internal/pycore_opcode.h"
#include "internal/pycore_pyerrors.h"
#include "internal/pycore_pystate.h"

#ifdef __cplusplus
}
#endif

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "Alternator's csrc/py knows CPython 3.11 so far; 3.12 and 3.13 need their tables here"
#endif
