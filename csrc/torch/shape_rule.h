// Shape rules of our own, for frequent operators whose only meta kernel is slow Python, or looks at the device.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include <string>

namespace alternator::tensor {

// Replaces the arguments, shadows of fakes on `device`, by results. False, with the stack untouched, if the case is not
// one of the rule's: then FakeTensorMode decides, and says what is wrong with wrong arguments.
using ShapeRule = bool (*)(torch::jit::Stack& stack, c10::Device device);

// The rule of an operator ("aten::native_layer_norm"), or null.
ShapeRule find_shape_rule(const std::string& name);

}  // namespace alternator::tensor
