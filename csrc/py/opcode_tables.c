// CPython's opcode tables are defined with array designators, which C++ does not have: so this is C.
#define Py_BUILD_CORE 1
#define NEED_OPCODE_TABLES
#include <Python.h>
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#include "internal/pycore_opcode.h"

const uint8_t* const alternator_opcode_deopt = _PyOpcode_Deopt;
const uint8_t* const alternator_opcode_caches = _PyOpcode_Caches;
