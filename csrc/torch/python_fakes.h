// Fakes for Python: the functions of the module alternator._fakes.
//
//   make(tensor)             a fake of a real tensor; views made one after the other share their storage
//   FakeMode()               a context manager in which factories make fakes; .make(tensor) gives one fake per tensor
//   is_fake(x), DataDependent, is_data_dependent(exception)
//   cache_info(), clear_cache(), route(operator), set_comparison(on), take_differences()
#pragma once

#include <Python.h>

namespace alternator::tensor {

// A new module object, or null with an exception set. Once in a process; torch must have been imported.
PyObject* make_fakes_module();

// What the module's functions of these names do; new references, null with an exception set. `kwargs` may be null.
PyObject* call_on_fakes(PyObject* mode, PyObject* function, PyObject* args, PyObject* kwargs);
PyObject* make_example_of(PyObject* tensor, PyObject* type);
// A plain fake, and no new leaf of autograd.
bool is_ordinary_result(PyObject* tensor);

}  // namespace alternator::tensor
