// Look-ups of names in the namespaces of a frame: globals, builtins, class and module namespaces, imports.
// A null result or false means that an exception is set; results are new references.
#pragma once

#include "interp/cache.h"
#include "py/frame.h"

namespace alternator::interp {

// `line` is filled if it is not null.
PyObject* load_global(py::Frame* frame, PyObject* name, CacheLine* line);
PyObject* load_name(py::Frame* frame, PyObject* name);
PyObject* load_class_cell(py::Frame* frame, int index);
bool store_name(py::Frame* frame, PyObject* name, PyObject* value);
bool delete_name(py::Frame* frame, PyObject* name);
bool set_up_annotations(py::Frame* frame);
PyObject* load_build_class(py::Frame* frame);

PyObject* import_name(py::ThreadState* ts, py::Frame* frame, PyObject* name, PyObject* fromlist, PyObject* level);
PyObject* import_from(PyObject* module, PyObject* name);

// `expr` at the interactive prompt.
bool print_expression(PyObject* value);

}  // namespace alternator::interp
