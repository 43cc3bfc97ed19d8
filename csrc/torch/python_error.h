// The error "the answer is in the data", in C++ and in Python.
#pragma once

#include <torch/csrc/Exceptions.h>

#include <string>

namespace alternator::tensor {

// Torch's bindings turn it into the Python class of the same name.
struct DataDependent : torch::PyTorchError {
  using PyTorchError::PyTorchError;
  PyObject* python_type() override;
};

// The Python class, a RuntimeError. Borrowed; made when first asked for. Needs the GIL.
PyObject* data_dependent_class();

// Whether an exception says that data was needed: a DataDependent, or what torch raises when a fake's pointer is read.
bool is_data_dependent(PyObject* exception);

}  // namespace alternator::tensor
