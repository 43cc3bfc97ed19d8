// Where a tensor keeps its metadata, as 64-bit words in memory.
#pragma once

#include <functional>

#include "base/ref.h"

namespace alternator::tensor {

// Gives the addresses of the words that decide the tensor's dispatch keys, dtype, device, layout, sizes, strides,
// requires_grad and is_leaf, and the offset if asked: while they are equal, these are. In an order in which each address is good if the words
// before it are equal, the first if the object is alive. False, and nothing is given, if there are no such words.
bool visit_tensor_words(PyObject* tensor, bool with_offset, const std::function<void(const void*)>& visit);

}  // namespace alternator::tensor
