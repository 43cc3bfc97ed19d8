// Fake tensors: tensors without data that torch's own kernels can tell the metadata of.
//
// A fake is a plain torch tensor (no Python subclass) with the key DispatchKey::Fake in its key set:
//
//   device()      the device it stands for
//   key set       that device's keys, for autograd and autocast; Fake; the meta backend's bit
//   storage       a StorageImpl on `meta`: a size and an identity, no bytes; reading its pointer is an error
//
// Aliasing is exact: two fakes share a StorageImpl if and only if what they stand for shares its memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace alternator::tensor {

// Whether a tensor is one of our fakes. An undefined tensor is none.
inline bool is_fake(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Fake);
}

// What the fallback can compute with: strided, with a storage, of concrete sizes.
bool is_plain(const at::TensorBase& tensor);

// ---- Errors --------------------------------------------------------------------------------------------------------

// Thrown where the answer is in the data. Python sees the exception class `DataDependent`.
[[noreturn]] void throw_data_dependent(const std::string& message);

// How every error of ours about missing data begins; torch itself raises it where a raw pointer is read.
inline constexpr const char* kNoData = "a fake tensor has no data";

// ---- The parts of a tensor -----------------------------------------------------------------------------------------

// Bits of a tensor that are neither shape nor type, and that kernels look at.
enum Mark : uint8_t {
  kConjugate = 1,
  kNegative = 2,
  kZeroTensor = 4,
  kWrappedNumber = 8,  // a Python number that became a tensor: takes part in type promotion as a number
  kInference = 16,     // made in inference mode: without autograd keys
};

using Dims = c10::SmallVector<int64_t, 5>;

// Everything about a tensor but its storage.
struct Metadata {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;
  c10::Device device = c10::kCPU;
  uint8_t marks = 0;

  bool operator==(const Metadata&) const = default;
};

uint8_t read_marks(c10::TensorImpl& impl);
Metadata read_metadata(const at::TensorBase& tensor);

using StorageRef = c10::intrusive_ptr<c10::StorageImpl>;

// A storage on `meta` that kernels may ask for its (null) pointer, as TensorIterator does for overlaps.
StorageRef make_meta_storage(size_t bytes);
// A storage of a fake: whoever reads its pointer gets an error that says so.
StorageRef make_fake_storage(size_t bytes);

// A meta tensor, or a fake, with these metadata on this storage. What is on `meta` has no data anyway, and is no fake.
at::Tensor make_meta(const Metadata& metadata, StorageRef storage);
at::Tensor make_fake(const Metadata& metadata, StorageRef storage);

// ---- Fakes that stand for real tensors -----------------------------------------------------------------------------

// Which fake storage stands for which real one. Any thread may use it.
//
// Keys are weak references: the memory of a key is not reused while it is in the table, so a dead storage's successor
// at the same address is never taken for it. FakeMemo does the same for tensors.
class StorageMemo {
 public:
  StorageRef share(const c10::Storage& real);

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> real;
    StorageRef fake;
  };

  std::mutex mutex_;
  std::unordered_map<const void*, Entry> entries_;
  size_t prune_at_ = 64;
};

// Which fake stands for which real tensor, for as long as one trace lasts. One thread's.
class FakeMemo {
 public:
  FakeMemo() : FakeMemo(std::make_shared<StorageMemo>()) {}
  explicit FakeMemo(std::shared_ptr<StorageMemo> storages) : storages_(std::move(storages)) {}

  // The fake of a real tensor, the same one each time. Views of one storage get views of one fake storage; what is a
  // view for autograd is one of its base's fake. Throws for what is not plain.
  at::Tensor make(const at::Tensor& real);

  // The storage of the fakes of all tensors on a real storage.
  StorageRef share_storage(const c10::Storage& real);

 private:
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> real;
    at::Tensor fake;
  };

  at::Tensor make_new(const at::Tensor& real);

  std::shared_ptr<StorageMemo> storages_;
  std::unordered_map<const void*, Entry> tensors_;
};

// While one lives, factory functions of this thread make fakes, and real tensors among an operator's arguments are
// taken for their fakes in `memo`.
class FakeMode {
 public:
  explicit FakeMode(FakeMemo* memo);
  ~FakeMode();
  FakeMode(const FakeMode&) = delete;
  FakeMode& operator=(const FakeMode&) = delete;

  // The innermost scope's memo, or null outside of any.
  static FakeMemo* memo();

 private:
  FakeMemo* outer_;
  bool was_included_;
};

}  // namespace alternator::tensor
