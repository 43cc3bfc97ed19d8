#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/boxing/impl/boxing.h>

#include "torch/operator_info.h"

namespace alternator::tensor {

// Kernels of ours for operators without a structured one: as a structured kernel of the same shape.
namespace own {

at::Tensor relu(const at::Tensor& self) { return at::meta::clamp_min(self, 0); }
at::Tensor& relu_(at::Tensor& self) { return at::meta::clamp_min_(self, 0); }
at::Tensor isnan(const at::Tensor& self) { return at::meta::ne(self, self); }
at::Tensor logical_not(const at::Tensor& self) { return at::meta::ne(self, self); }
// The condition is a bool and so has no say in the result's type.
at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  return at::meta::addcmul(condition, self, other, 1);
}

// A number as the operand of a binary operator, with a number's part in type promotion.
at::Tensor to_operand(const at::Scalar& number) {
  at::Tensor operand = c10::scalar_to_tensor(number);
  operand.unsafeGetTensorImpl()->set_wrapped_number(true);
  return operand;
}

at::Tensor add(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::meta::add(self, to_operand(other), alpha);
}
at::Tensor sub(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::meta::sub(self, to_operand(other), alpha);
}
at::Tensor mul(const at::Tensor& self, const at::Scalar& other) { return at::meta::mul(self, to_operand(other)); }
at::Tensor div(const at::Tensor& self, const at::Scalar& other) { return at::meta::div(self, to_operand(other)); }
at::Tensor remainder(const at::Tensor& self, const at::Scalar& other) {
  return at::meta::remainder(self, to_operand(other));
}

}  // namespace own

namespace {

// A meta kernel takes sizes as plain integers where the operator takes symbolic ones.
template <class Operator>
using Signature = typename c10::fn_remove_symint<typename Operator::schema>::type;

template <class Operator>
std::string name_of() {
  std::string name = Operator::name;
  std::string overload = Operator::overload_name;
  return overload.empty() ? name : name + "." + overload;
}

std::unordered_map<std::string, c10::KernelFunction> make_table() {
  std::unordered_map<std::string, c10::KernelFunction> table;
#define KERNEL(op, function)                                                                  \
  table.emplace(name_of<at::_ops::op>(), c10::KernelFunction::makeFromUnboxedRuntimeFunction( \
                                             static_cast<Signature<at::_ops::op>*>(&function)));
#define META_KERNEL(op, function) KERNEL(op, at::meta::function)
#define OWN_KERNEL(op, function) KERNEL(op, own::function)
#include "torch/meta_kernel.def"
#undef KERNEL
#undef META_KERNEL
#undef OWN_KERNEL
  return table;
}

}  // namespace

const c10::KernelFunction* find_meta_kernel(const std::string& name) {
  static const std::unordered_map<std::string, c10::KernelFunction> table = make_table();
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace alternator::tensor
