// Copies of what a graph is about to write to, and of how autograd sees it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>

#include "base/error.h"
#include "torch/write_log.h"

namespace alternator::tensor {
namespace {

using torch::autograd::AutogradMeta;
using torch::autograd::DifferentiableViewMeta;

AutogradMeta* meta_of(c10::TensorImpl* impl) { return static_cast<AutogradMeta*>(impl->autograd_meta()); }

DifferentiableViewMeta* view_of(AutogradMeta* meta) {
  auto* view = meta != nullptr && meta->is_view_ ? static_cast<DifferentiableViewMeta*>(meta) : nullptr;
  return view != nullptr && view->has_bw_view() ? view : nullptr;
}

// One tensor: its form, how often it was written to, and its history.
class Record {
 public:
  explicit Record(const at::Tensor& tensor)
      : impl_(tensor.getIntrusivePtr()),
        sizes_(tensor.sizes()),
        strides_(tensor.strides()),
        offset_(tensor.storage_offset()) {
    if (!tensor.is_inference()) version_ = impl_->version_counter().current_version();
    AutogradMeta* meta = meta_of(impl_.get());
    had_meta_ = meta != nullptr;
    if (!had_meta_) return;
    history_ = meta->grad_fn_;
    output_ = meta->output_nr_;
    required_ = meta->requires_grad_;
    if (DifferentiableViewMeta* view = view_of(meta)) {
      attributes_ = view->get_attr_version();
      creation_ = view->get_creation_meta();
    }
  }

  bool is_restorable() const {
    AutogradMeta* meta = meta_of(impl_.get());
    const bool moved = meta != nullptr && meta->grad_fn_ != history_;
    return !moved || (meta->hooks_.empty() && !meta->retains_grad_);
  }

  void restore() const {
    if (impl_->sizes() != c10::IntArrayRef(sizes_) || impl_->strides() != c10::IntArrayRef(strides_) ||
        impl_->storage_offset() != offset_) {
      impl_->set_sizes_and_strides(sizes_, strides_, offset_);
    }
    if (version_) c10::VariableVersion(impl_->version_counter()).set_version(*version_);  // a copy shares the count
    AutogradMeta* meta = meta_of(impl_.get());
    if (meta == nullptr) return;
    meta->grad_fn_ = history_;
    meta->output_nr_ = output_;
    meta->requires_grad_ = required_;
    if (DifferentiableViewMeta* view = view_of(meta); view != nullptr && had_meta_) {
      view->set_attr_version(attributes_);
      view->set_creation_meta(creation_);
    }
  }

 private:
  c10::intrusive_ptr<c10::TensorImpl> impl_;
  at::DimVector sizes_, strides_;
  int64_t offset_;
  std::optional<int64_t> version_;
  bool had_meta_;
  decltype(AutogradMeta::grad_fn_) history_;
  uint32_t output_ = 0;
  bool required_ = false;
  uint32_t attributes_ = 0;
  torch::autograd::CreationMeta creation_ = torch::autograd::CreationMeta::DEFAULT;
};

// Bytes of a storage.
class Bytes {
 public:
  Bytes(const at::Tensor& tensor, const Range& range) : storage_(tensor.storage()) {
    const auto size = static_cast<int64_t>(storage_.nbytes());
    const int64_t start = tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
    const bool whole = range.end == Range::kToTheEnd;
    begin_ = whole ? 0 : std::max<int64_t>(start + range.begin, 0);
    count_ = std::max<int64_t>((whole ? size : std::min(start + range.end, size)) - begin_, 0);
    if (storage_.device().is_cpu()) {
      copy_ = std::make_unique_for_overwrite<char[]>(count_);
      std::memcpy(copy_.get(), static_cast<const char*>(storage_.data()) + begin_, count_);
    } else {
      at::NoGradGuard no_grad;
      elsewhere_ = view().clone();
    }
  }

  void restore() const {
    if (copy_) {
      std::memcpy(static_cast<char*>(storage_.mutable_data()) + begin_, copy_.get(), count_);
    } else {
      at::NoGradGuard no_grad;
      view().copy_(elsewhere_);
    }
  }

 private:
  at::Tensor view() const {
    return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage_.device()))
        .set_(storage_, begin_, {count_}, {1});
  }

  c10::Storage storage_;
  int64_t begin_;
  int64_t count_ = 0;
  std::unique_ptr<char[]> copy_;
  at::Tensor elsewhere_;
};

}  // namespace

struct Backup::Parts {
  std::vector<Record> records;
  std::vector<Bytes> bytes;
};

Backup::Backup(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Backup::~Backup() = default;

std::unique_ptr<Backup> Backup::take(const Undoing& undoing, PyObject* const* inputs, int64_t most) noexcept {
  try {
    for (const Range& range : undoing.ranges) {
      const bool whole = range.end == Range::kToTheEnd;
      const at::Tensor& tensor = THPVariable_Unpack(inputs[range.input]);
      most -= whole ? static_cast<int64_t>(tensor.storage().nbytes()) : range.end - range.begin;
    }
    if (most < 0) return nullptr;
    auto parts = std::make_unique<Parts>();
    parts->records.reserve(2 * undoing.tensors.size());
    for (int input : undoing.tensors) {
      const at::Tensor& tensor = THPVariable_Unpack(inputs[input]);
      parts->records.emplace_back(tensor);
      if (DifferentiableViewMeta* view = view_of(meta_of(tensor.unsafeGetTensorImpl()))) {
        parts->records.emplace_back(view->get_backward_view().base_);
      }
    }
    parts->bytes.reserve(undoing.ranges.size());
    for (const Range& range : undoing.ranges) {
      parts->bytes.emplace_back(THPVariable_Unpack(inputs[range.input]), range);
    }
    return std::unique_ptr<Backup>(new Backup(std::move(parts)));
  } catch (const std::exception&) {  // no memory, here or on the device
    return nullptr;
  }
}

bool Backup::restore() noexcept {
  for (const Record& record : parts_->records) {
    if (!record.is_restorable()) return false;
  }
  for (const Bytes& bytes : parts_->bytes) bytes.restore();
  for (const Record& record : parts_->records) record.restore();
  return true;
}

}  // namespace alternator::tensor
