// What the fallback knows about an operator: how its metadata is computed, and which of its arguments matter.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <vector>

#include "torch/shape_rule.h"

namespace alternator::tensor {

// How an operator's results are found.
enum class Route : uint8_t {
  Data,       // not at all: the answer is in the data
  None,       // not at all: it is about quantized tensors, of which there are no fakes
  Composite,  // by running its definition in terms of other operators, on fakes
  Direct,     // by the structured C++ meta kernel of meta_kernel.def, around Python kernels that replace it
  Meta,       // by the kernel registered for the Meta key, in C++ or Python
  Rule,       // by a rule of shape_rule.cpp
  Torch,      // by torch's own FakeTensorMode
};

// Whether an operator that runs may fail over a value of a tensor. (What its metadata decide is found while tracing.)
enum class Failure : uint8_t {
  Never,       // it is written down that it does not
  OfIntegers,  // integers may be divided by zero
  Any,
};

// How an operator uses indices that it compares with a size.
enum class Indexing : uint8_t {
  None,     // not at all, or in a way that is not known here
  Along,    // (self, dim, index): items of one dimension
  Each,     // (self, indices): a list, with a tensor or nothing for each dimension
  Rows,     // (weight, indices): of the first dimension
  Classes,  // (self, target, weight, reduction, ignore_index)
};

struct OperatorInfo {
  std::string name;  // "aten::add.Tensor"
  Route route = Route::Meta;
  const c10::KernelFunction* kernel = nullptr;  // Route::Direct
  ShapeRule rule = nullptr;                     // Route::Rule
  int device_argument = -1;                     // index of the argument that says where results are, or -1
  int dtype_argument = -1;                      // index of the argument that says which type results have, or -1
  bool writes = false;                          // some argument is written to
  bool hides_writes = false;                    // HIDES_WRITES
  std::vector<int> silent_writes;               // arguments that are written to and that torch does not count writes to
  std::vector<int> written;                     // arguments that are written to, silently or not
  Failure failure = Failure::Any;
  Indexing indexing = Indexing::None;
  bool reads_offset = false;   // what it gives, or whether it fails, depends on a tensor's offset into its storage
  bool mixes_devices = false;  // takes tensors of several devices, as a copy does
  bool cached = true;
  bool foreign = false;  // does not come with torch
  bool draws = false;    // random numbers
  int draws_if = -1;     // .. only if this argument is neither false nor zero, if there is one
};

// The info of an operator. Operators that come with torch are looked up once for the life of the process.
std::shared_ptr<const OperatorInfo> find_operator(const c10::OperatorHandle& op);

// The name with the overload, as torch prints it.
std::string name_operator(const c10::FunctionSchema& schema);

// The structured meta kernel of an operator (meta_kernel.def), or null.
const c10::KernelFunction* find_meta_kernel(const std::string& name);

}  // namespace alternator::tensor
