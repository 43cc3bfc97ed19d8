#include "torch/fake_tensor.h"

#include <c10/core/Allocator.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/variable.h>

#include "torch/write_entries.h"

namespace alternator::tensor {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

thread_local FakeMemo* active_memo = nullptr;

// The implementation object of a fake. TensorImpl::set_fake_device does much the same, but its device is lost in
// shallow copies: `.data`, `set_data` and the tensors that autograd saves would turn into meta tensors.
class FakeImpl final : public c10::TensorImpl {
 public:
  FakeImpl(c10::Storage&& storage, DispatchKeySet keys, caffe2::TypeMeta dtype, c10::Device device)
      : TensorImpl(VIEW, std::move(storage), keys, dtype), fake_device_(device) {
    set_custom_device(true);
  }

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override {
    auto copy = c10::make_intrusive<FakeImpl>(c10::Storage(storage_), key_set_, data_type_, fake_device_);
    copy_tensor_metadata(this, copy.get(), version, allow_metadata_change);
    return copy;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override {
    return shallow_copy_and_detach(version, allow_metadata_change);
  }
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& source) override {
    TensorImpl::shallow_copy_from(source);
    fake_device_ = source->device();
  }

  const char* tensorimpl_type_name() const override { return "FakeImpl"; }

 protected:
  c10::Device device_custom() const override { return fake_device_; }

 private:
  c10::Device fake_device_;
};

// The keys of an ordinary tensor of a backend. TensorImpl's own constructor would leave the autograd keys out in
// inference mode, also for the views of ordinary tensors, which are ordinary.
DispatchKeySet list_keys(DispatchKey backend, bool inference) {
  const DispatchKeySet keys(backend);
  const c10::BackendComponent component = c10::toBackendComponent(backend);
  const DispatchKeySet with_autocast = keys | c10::getAutocastRelatedKeySetFromBackend(component);
  return inference ? with_autocast : with_autocast | c10::getAutogradRelatedKeySetFromBackend(component);
}

// What makes a tensor a fake. The meta backend beside its own one tells torch's composite functions that there are no
// data to look at (at::isTensorSubclassLike): quantile() then checks nothing, max_pool1d() does not read pointers.
constexpr DispatchKeySet kFakeKeys = DispatchKeySet(DispatchKey::Fake) | DispatchKeySet(c10::BackendComponent::MetaBit);

void set_metadata(c10::TensorImpl& impl, const Metadata& metadata) {
  impl.set_sizes_and_strides(metadata.sizes, metadata.strides, metadata.offset);
  if (metadata.marks & ~kInference) {
    if (metadata.marks & kConjugate) impl._set_conj(true);
    if (metadata.marks & kNegative) impl._set_neg(true);
    if (metadata.marks & kZeroTensor) impl._set_zero(true);
    if (metadata.marks & kWrappedNumber) impl.set_wrapped_number(true);
  }
}

// Devices without an index are the current one's; fakes of devices that this build does not have take the first.
c10::Device normalise(c10::Device device) {
  bool indexed = device.has_index() || device.is_cpu() || device.is_meta();
  return indexed ? device : c10::Device(device.type(), 0);
}

}  // namespace

bool is_plain(const at::TensorBase& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->layout() == c10::kStrided && impl->has_storage() && !impl->has_symbolic_sizes_strides() &&
         !tensor.is_quantized() && !tensor.is_mkldnn() && !impl->is_python_dispatch() &&
         !impl->key_set().has(DispatchKey::Functionalize) && !impl->key_set().has(DispatchKey::FuncTorchBatched);
}

uint8_t read_marks(c10::TensorImpl& impl) {
  const DispatchKeySet keys = impl.key_set();
  return (keys.has(DispatchKey::Conjugate) ? kConjugate : 0) | (keys.has(DispatchKey::Negative) ? kNegative : 0) |
         (keys.has(DispatchKey::ZeroTensor) ? kZeroTensor : 0) | (impl.is_wrapped_number() ? kWrappedNumber : 0) |
         (impl.is_inference() ? kInference : 0);
}

Metadata read_metadata(const at::TensorBase& tensor) {
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  auto sizes = impl.sizes();
  auto strides = impl.strides();
  return Metadata{.sizes = Dims(sizes.begin(), sizes.end()),
                  .strides = Dims(strides.begin(), strides.end()),
                  .offset = impl.storage_offset(),
                  .dtype = tensor.scalar_type(),
                  .device = tensor.device(),
                  .marks = read_marks(impl)};
}

StorageRef make_meta_storage(size_t bytes) {
  static c10::Allocator* const allocator = c10::GetAllocator(c10::kMeta);
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               c10::DataPtr(nullptr, c10::Device(c10::kMeta)), allocator,
                                               /*resizable=*/true);
}

StorageRef make_fake_storage(size_t bytes) {
  StorageRef storage = make_meta_storage(bytes);
  // Both: a pointer to read and one to write. Without the first, tolist() would read through the null pointer.
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(std::string(kNoData));
  storage->set_throw_on_mutable_data_ptr();
  return storage;
}

at::Tensor make_meta(const Metadata& metadata, StorageRef storage) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(std::move(storage)),
                                                   list_keys(DispatchKey::Meta, metadata.marks & kInference),
                                                   c10::scalarTypeToTypeMeta(metadata.dtype));
  set_metadata(*impl, metadata);
  return at::Tensor(std::move(impl));
}

at::Tensor make_fake(const Metadata& metadata, StorageRef storage) {
  if (metadata.device.is_meta()) return make_meta(metadata, std::move(storage));
  const DispatchKey backend = c10::computeDispatchKey(std::nullopt, c10::kStrided, metadata.device);
  auto impl = c10::make_intrusive<FakeImpl>(c10::Storage(std::move(storage)),
                                            list_keys(backend, metadata.marks & kInference) | kFakeKeys,
                                            c10::scalarTypeToTypeMeta(metadata.dtype), normalise(metadata.device));
  set_metadata(*impl, metadata);
  return at::Tensor(std::move(impl));
}

// ---- Memos ---------------------------------------------------------------------------------------------------------

StorageRef StorageMemo::share(const c10::Storage& real) {
  StorageRef owner = real.getWeakStorageImpl().lock();
  // Released last, without the lock: what dies with a storage is not ours to know.
  std::vector<Entry> dead;
  std::lock_guard lock(mutex_);
  auto [found, fresh] = entries_.try_emplace(owner.get(), Entry{real.getWeakStorageImpl(), {}});
  if (!fresh) return found->second.fake;
  StorageRef fake = found->second.fake = make_fake_storage(owner->nbytes());
  if (entries_.size() >= prune_at_) {
    std::erase_if(entries_, [&dead](auto& item) {
      const bool expired = item.second.real.expired();
      if (expired) dead.push_back(std::move(item.second));
      return expired;
    });
    prune_at_ = 2 * entries_.size() + 64;
  }
  return fake;
}

at::Tensor FakeMemo::make(const at::Tensor& real) {
  if (!real.defined() || is_fake(real) || real.is_meta()) {
    return real;
  }
  const void* key = real.unsafeGetTensorImpl();
  if (auto found = tensors_.find(key); found != tensors_.end()) {
    return found->second.fake;
  }
  at::Tensor fake = make_new(real);
  tensors_.emplace(key, Entry{c10::weak_intrusive_ptr<c10::TensorImpl>(real.getIntrusivePtr()), fake});
  return fake;
}

at::Tensor FakeMemo::make_new(const at::Tensor& real) {
  TORCH_CHECK_TYPE(is_plain(real), "no fake can stand for a tensor of layout ", real.layout(), " and keys ",
                   real.key_set());
  c10::InferenceMode normal_mode(real.is_inference());
  at::AutoGradMode with_grad(real.requires_grad());
  at::Tensor fake;
  // A view of the same type becomes a view for autograd too: writing to it must reach its base's history.
  if (real.is_view() && real._base().scalar_type() == real.scalar_type() && !real.is_inference() &&
      !(read_marks(*real.unsafeGetTensorImpl()) & (kConjugate | kNegative))) {
    at::Tensor base = make(at::Tensor(real._base()));
    WriteLog::Unnoted unnoted;  // it is not the program that makes this view
    fake = base.as_strided(real.sizes(), real.strides(), real.storage_offset());
  } else {
    fake = make_fake(read_metadata(real), share_storage(real.storage()));
  }
  if (real.requires_grad() && !fake.requires_grad()) {
    if (real.is_leaf()) {
      fake.set_requires_grad(true);
    } else {
      auto history = c10::make_intrusive<torch::autograd::Error>("the history of this tensor began before the trace");
      const uint32_t input = history->add_input_metadata(fake);
      torch::autograd::impl::set_gradient_edge(fake, {std::move(history), input});
    }
  }
  return fake;
}

StorageRef FakeMemo::share_storage(const c10::Storage& real) {
  StorageRef fake = storages_->share(real);
  if (WriteLog::Entries* log = WriteLog::current()) log->pair(real.unsafeGetStorageImpl(), fake);
  return fake;
}

// ---- FakeMode ------------------------------------------------------------------------------------------------------

FakeMode::FakeMode(FakeMemo* memo)
    : outer_(active_memo), was_included_(c10::impl::tls_is_dispatch_key_included(DispatchKey::Fake)) {
  active_memo = memo;
  c10::impl::tls_set_dispatch_key_included(DispatchKey::Fake, true);
}

FakeMode::~FakeMode() {
  c10::impl::tls_set_dispatch_key_included(DispatchKey::Fake, was_included_);
  active_memo = outer_;
}

FakeMemo* FakeMode::memo() { return active_memo; }

}  // namespace alternator::tensor
