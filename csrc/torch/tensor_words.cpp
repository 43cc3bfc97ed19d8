#include "torch/tensor_words.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <utility>

#include "torch/reveal.h"

namespace alternator::tensor {
namespace {

using torch::autograd::AutogradMeta;

REVEAL(AutogradMetaOf, &c10::TensorImpl::autograd_meta_)
REVEAL(SizesOf, &c10::TensorImpl::sizes_and_strides_)
REVEAL(OffsetOf, &c10::TensorImpl::storage_offset_)
REVEAL(DtypeOf, &c10::TensorImpl::data_type_)
REVEAL(DeviceOf, &c10::TensorImpl::device_opt_)
REVEAL(KeysOf, &c10::TensorImpl::key_set_)
REVEAL(RankOf, &c10::impl::SizesAndStrides::size_)

static_assert(sizeof(at::Tensor) == sizeof(uint64_t), "a tensor is a pointer to its TensorImpl");
static_assert(sizeof(std::declval<c10::TensorImpl&>().*member(AutogradMetaOf())) == sizeof(uint64_t),
              "a plain pointer");
static_assert(sizeof(AutogradMeta::grad_fn_) == sizeof(uint64_t), "a plain pointer");
static_assert(sizeof(std::declval<c10::TensorImpl&>().*member(KeysOf())) == sizeof(uint64_t),
              "dispatch keys are a word");
static_assert(sizeof(std::declval<c10::impl::SizesAndStrides&>().*member(RankOf())) == sizeof(uint64_t), "a count");

const void* word_around(const void* field) {
  return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(field) & ~uintptr_t{7});
}

}  // namespace

bool visit_tensor_words(PyObject* tensor, bool with_offset, const std::function<void(const void*)>& visit) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const c10::TensorImpl* impl = value.unsafeGetTensorImpl();
  const c10::impl::SizesAndStrides& shape = impl->*member(SizesOf());
  auto* end = reinterpret_cast<const char*>(impl + 1);
  auto* sizes = reinterpret_cast<const char*>(shape.sizes_data());
  auto* strides = reinterpret_cast<const char*>(shape.strides_data());
  bool beside = sizes >= reinterpret_cast<const char*>(impl) && sizes < end && strides < end;
  const std::optional<c10::Device>& device = impl->*member(DeviceOf());
  auto* meta = static_cast<const AutogradMeta*>(impl->autograd_meta());
  // What somebody else computes, or has grown out of the TensorImpl, cannot be read there.
  if (!beside || impl->is_python_dispatch() || impl->has_symbolic_sizes_strides() || value.layout() != at::kStrided ||
      !device.has_value() || *device != value.device() || value.sizes().data() != shape.sizes_data() ||
      value.strides().data() != shape.strides_data() ||
      (meta != nullptr && meta->is_view_)) {  // a view requires grad when its base does
    return false;
  }
  visit(&reinterpret_cast<THPVariable*>(tensor)->cdata);
  visit(&(impl->*member(AutogradMetaOf())));
  visit(&(shape.*member(RankOf())));
  for (size_t i = 0; i < shape.size(); ++i) {
    visit(shape.sizes_data() + i);
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    visit(shape.strides_data() + i);
  }
  if (with_offset) visit(&(impl->*member(OffsetOf())));
  // Data type, device, and bits that say who computes sizes, device and layout stand together, before the keys.
  auto* keys = reinterpret_cast<const char*>(&(impl->*member(KeysOf())));
  auto* dtype = static_cast<const char*>(word_around(&(impl->*member(DtypeOf()))));
  for (const char* word = dtype; word <= keys; word += sizeof(uint64_t)) {
    visit(word);
  }
  if (meta != nullptr) {
    visit(&meta->grad_fn_);
    visit(word_around(&meta->requires_grad_));
  }
  return true;
}

}  // namespace alternator::tensor
