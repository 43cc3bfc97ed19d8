// Shadows: the meta tensors on which torch's kernels run in place of fakes, and how a plan is read off them.
//
// A shadow has its fake's metadata and a storage of its own, one for each storage of the arguments. After the call,
//   a result that is a shadow                      is that argument
//   a result on a shadow's storage                 aliases that argument
//   a shadow whose metadata or storage size changed   is an argument that the operator changed
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>

#include "torch/fake_plan.h"

namespace alternator::tensor {

class Shadows {
 public:
  explicit Shadows(const Arguments& arguments);

  // Turns the shadows into FakeTensors of torch, on the same storages.
  void wrap_for_torch();

  // The arguments with shadows in the places of tensors.
  torch::jit::Stack substitute(c10::ArrayRef<c10::IValue> values) const;

  // What the call did. New tensors are on `device`; without one, where they say they are.
  Plan read_plan(const torch::jit::Stack& results, std::optional<c10::Device> device, bool writes) const;

 private:
  class Reader;

  const Arguments& arguments_;
  c10::SmallVector<Metadata, 8> metadata_;  // of the arguments, before the call
  // By place. Undefined where the argument is, and for a Python number: it stays the real tensor that it is, since
  // Python kernels want its value, and C++ kernels take a number along on any device.
  c10::SmallVector<at::Tensor, 8> tensors_;
  c10::SmallVector<StorageRef, 8> storages_;
};

// A list of (optional) tensors with each tensor replaced.
c10::IValue map_tensor_list(const c10::IValue& list, const std::function<at::Tensor(const at::Tensor&)>& replace);

// Empty if two plans make the same results; otherwise the first difference.
std::string describe_difference(const Plan& ours, const Plan& theirs);

// Both need Python, and take the GIL. Errors that say "the answer is in the data" are thrown as such.
at::Tensor make_torch_fake(const at::Tensor& meta, c10::Device device);
void call_in_torch_mode(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace alternator::tensor
