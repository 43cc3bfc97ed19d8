#include "torch/shape_rule.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <unordered_map>

#include "torch/fake_tensor.h"

namespace alternator::tensor {
namespace {

using torch::jit::Stack;

at::Tensor make_contiguous(c10::IntArrayRef sizes, at::ScalarType dtype) {
  return at::detail::empty_meta(sizes, dtype, c10::MemoryFormat::Contiguous);
}

// The type in which CPU kernels accumulate, and others keep statistics.
at::ScalarType widen(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype; }

// Whether an optional tensor is absent or has these sizes.
bool fits(const c10::IValue& tensor, c10::IntArrayRef sizes) {
  return !tensor.isTensor() || !tensor.toTensor().defined() || tensor.toTensor().sizes() == sizes;
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> (output, mean, rstd)
bool infer_layer_norm(Stack& stack, c10::Device device) {
  const at::Tensor input = stack[0].toTensor();
  const std::vector<int64_t> shape = stack[1].toIntVector();
  const auto sizes = input.sizes();
  if (shape.empty() || shape.size() > sizes.size() ||
      sizes.slice(sizes.size() - shape.size()) != c10::IntArrayRef(shape) || !fits(stack[2], shape) ||
      !fits(stack[3], shape) || !at::isFloatingType(input.scalar_type())) {
    return false;
  }
  Dims outer(sizes.begin(), sizes.end() - shape.size());
  outer.append(shape.size(), 1);
  const at::ScalarType statistics = device.is_cpu() ? input.scalar_type() : widen(input.scalar_type());
  stack = {make_contiguous(sizes, input.scalar_type()), make_contiguous(outer, statistics),
           make_contiguous(outer, statistics)};
  return true;
}

// _scaled_dot_product_flash_attention_for_cpu(query, key, value, ...) -> (output, logsumexp)
bool infer_flash_attention_for_cpu(Stack& stack, c10::Device) {
  const at::Tensor query = stack[0].toTensor();
  if (query.dim() != 4 || !query.is_non_overlapping_and_dense()) return false;
  const auto sizes = query.sizes();
  const int64_t batch = sizes[0], heads = sizes[1], length = sizes[2];
  at::Tensor output = at::detail::empty_strided_meta(sizes, query.strides(), query.scalar_type());
  // Laid out as (batch, length, heads), and transposed.
  at::Tensor logsumexp =
      at::detail::empty_strided_meta({batch, heads, length}, {length * heads, 1, heads}, widen(query.scalar_type()));
  stack = {std::move(output), std::move(logsumexp)};
  return true;
}

}  // namespace

ShapeRule find_shape_rule(const std::string& name) {
  static const std::unordered_map<std::string, ShapeRule> rules = {
      {"aten::native_layer_norm", &infer_layer_norm},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", &infer_flash_attention_for_cpu},
  };
  auto found = rules.find(name);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace alternator::tensor
