// The errors that the loop itself raises, with CPython's words. All of them set an exception and nothing else.
#pragma once

#include "py/frame.h"

namespace alternator::interp {

void raise_unbound_local(PyCodeObject* code, int index);
void raise_unbound_cell(PyCodeObject* code, int index);
void raise_undefined_name(PyObject* name);
void raise_no_locals(const char* doing, PyObject* name);

// `raise`, `raise exc`, `raise exc from cause`. Takes over the references. True if the exception is one that is being
// handled already (a bare raise), so that its traceback stays as it is.
bool raise_statement(py::ThreadState* ts, PyObject* exception, PyObject* cause);
// Restores an exception that was caught, with its own traceback. Takes over the reference.
void raise_again(PyObject* exception);
// Checks what stands behind `except` and `except*`. False with a TypeError set.
bool check_except_type(PyObject* type);
bool check_except_star_type(PyObject* type);

// The two ways in which **kwargs of a call can fail, reworded after the fact.
void reword_kwargs_error(PyObject* function, PyObject* kwargs);
// *args of a call is not iterable. True if it is.
bool check_star_args(PyObject* function, PyObject* args);

}  // namespace alternator::interp
