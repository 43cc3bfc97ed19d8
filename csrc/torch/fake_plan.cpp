#include "torch/fake_plan.h"

#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <cstring>

namespace alternator::tensor {

// ---- Arguments -----------------------------------------------------------------------------------------------------

Arguments::Arguments(c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor()) add(item.toTensor());
      }
    }
  }
  number_places();
}

void Arguments::add(const at::Tensor& tensor) { tensors_.push_back(&tensor); }

void Arguments::number_places() {
  // Few arguments: a scan is faster than any table. Lists of parameters (foreach operators) can be long.
  constexpr size_t kScanned = 16;
  std::unordered_map<const void*, uint32_t> seen;
  const bool scan = tensors_.size() <= kScanned;
  for (uint32_t place = 0; place < tensors_.size(); ++place) {
    const at::Tensor& tensor = *tensors_[place];
    uint32_t first = place;
    int32_t slot = -1;
    if (tensor.defined()) {
      const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
      c10::StorageImpl* storage = impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
      if (scan) {
        for (first = 0; tensors_[first]->unsafeGetTensorImpl() != impl; ++first) {
        }
        for (slot = 0; slot < static_cast<int>(storages_.size()) && storages_[slot] != storage; ++slot) {
        }
      } else {
        first = seen.try_emplace(impl, place).first->second;
        slot = seen.try_emplace(storage, storages_.size()).first->second;
      }
      if (!storage) {
        slot = -1;
      } else if (slot == static_cast<int>(storages_.size())) {
        storages_.push_back(storage);
      }
    }
    first_place_.push_back(first);
    slots_.push_back(slot);
  }
}

// ---- Replay --------------------------------------------------------------------------------------------------------

namespace {

class Replay {
 public:
  Replay(const Plan& plan, const Arguments& arguments) : plan_(plan), arguments_(arguments) {
    for (size_t bytes : plan.new_storages) new_storages_.push_back(make_fake_storage(bytes));
  }

  StorageRef storage(int slot) const {
    return slot < 0 ? new_storages_[~slot] : StorageRef::reclaim_copy(arguments_.storages()[slot]);
  }

  at::Tensor make(const PlannedTensor& planned) const {
    switch (planned.kind) {
      case PlannedTensor::kUndefined: return at::Tensor();
      case PlannedTensor::kArgument: return arguments_[planned.place];
      case PlannedTensor::kTensor: break;
    }
    return make_fake(planned.metadata, storage(planned.storage));
  }

  c10::IValue make(const PlannedResult& planned) const {
    switch (planned.kind) {
      case PlannedResult::kConstant: return planned.constant;
      case PlannedResult::kTensor: return make(planned.tensors[0]);
      case PlannedResult::kTensorList: break;
    }
    c10::List<at::Tensor> list;
    list.reserve(planned.tensors.size());
    for (const PlannedTensor& item : planned.tensors) list.push_back(make(item));
    return list;
  }

  void change_arguments() const {
    for (const auto& [slot, bytes] : plan_.storage_changes) arguments_.storages()[slot]->set_nbytes(bytes);
    for (const PlannedChange& change : plan_.changes) {
      c10::TensorImpl* impl = arguments_[change.place].unsafeGetTensorImpl();
      if (change.storage != arguments_.storage_slot(change.place)) {
        impl->set_storage_keep_dtype(c10::Storage(storage(change.storage)));
      }
      impl->set_sizes_and_strides(change.metadata.sizes, change.metadata.strides, change.metadata.offset);
    }
  }

 private:
  const Plan& plan_;
  const Arguments& arguments_;
  c10::SmallVector<StorageRef, 4> new_storages_;
};

}  // namespace

void replay(const Plan& plan, const Arguments& arguments, size_t count, torch::jit::Stack& stack) {
  Replay run(plan, arguments);
  c10::SmallVector<c10::IValue, 4> results;
  for (const PlannedResult& planned : plan.results) results.push_back(run.make(planned));
  run.change_arguments();
  // The arguments go last: results were made from references to them.
  torch::jit::drop(stack, count);
  for (c10::IValue& result : results) stack.push_back(std::move(result));
}

// ---- Keys ----------------------------------------------------------------------------------------------------------

namespace {

// First word of each argument. Distinct, so that a list and its items flattened do not make the same key.
enum Tag : uint64_t {
  kTagNone = 1,
  kTagInt,
  kTagDouble,
  kTagBool,
  kTagComplex,
  kTagString,
  kTagDevice,
  kTagList,
  kTagTensor,
  kTagUndefined,
  kTagSameTensor,
  kTagGenerator,
};

uint64_t to_bits(double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

class KeyWriter {
 public:
  KeyWriter(const Arguments& arguments, KeyWords& key) : arguments_(arguments), key_(key) {}

  bool write(const c10::IValue& value) {
    if (value.isTensor()) return write_tensor();
    if (value.isNone()) return push(kTagNone);
    if (value.isInt()) return push(kTagInt, value.toInt());
    if (value.isDouble()) return push(kTagDouble, to_bits(value.toDouble()));
    if (value.isBool()) return push(kTagBool, value.toBool());
    if (value.isDevice()) {
      c10::Device device = value.toDevice();
      return push(kTagDevice, static_cast<uint64_t>(device.type()) << 16 | static_cast<uint8_t>(device.index()));
    }
    if (value.isString()) return write_string(value.toStringRef());
    if (value.isComplexDouble()) {
      auto number = value.toComplexDouble();
      return push(kTagComplex, to_bits(number.real())) && push(to_bits(number.imag()));
    }
    if (value.isList()) return write_list(value.toListRef());
    // Random numbers have no influence on metadata; that a generator is given may have.
    if (value.isGenerator()) return push(kTagGenerator);
    return false;
  }

 private:
  bool push(uint64_t word) {
    key_.push_back(word);
    return true;
  }
  bool push(uint64_t tag, uint64_t word) { return push(tag) && push(word); }

  bool write_string(const std::string& text) {
    push(kTagString, text.size());
    for (size_t i = 0; i < text.size(); i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
      push(word);
    }
    return true;
  }

  bool write_list(c10::ArrayRef<c10::IValue> items) {
    push(kTagList, items.size());
    for (const c10::IValue& item : items) {
      if (!write(item)) return false;
    }
    return true;
  }

  bool write_tensor() {
    const size_t place = place_++;
    const at::Tensor& tensor = arguments_[place];
    if (!tensor.defined()) return push(kTagUndefined);
    if (arguments_.first_place(place) != place) return push(kTagSameTensor, arguments_.first_place(place));
    c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const c10::Device device = impl.device();
    auto sizes = impl.sizes();
    push(kTagTensor | sizes.size() << 8 | static_cast<uint64_t>(tensor.scalar_type()) << 16 |
         static_cast<uint64_t>(device.type()) << 24 |
         static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 32 |
         static_cast<uint64_t>(read_marks(impl)) << 40);
    push(static_cast<uint64_t>(arguments_.storage_slot(place)) << 48 ^ impl.unsafe_storage().nbytes());
    push(impl.storage_offset());
    key_.append(sizes.begin(), sizes.end());
    auto strides = impl.strides();
    key_.append(strides.begin(), strides.end());
    return true;
  }

  const Arguments& arguments_;
  KeyWords& key_;
  size_t place_ = 0;
};

// Multiply and fold, a word at a time.
size_t hash_words(c10::ArrayRef<uint64_t> words) {
  uint64_t hash = 0x9E3779B97F4A7C15ull ^ words.size();
  for (uint64_t word : words) {
    auto product = static_cast<unsigned __int128>(hash ^ word) * 0xD6E8FEB86659FD93ull;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return hash;
}

}  // namespace

bool write_key(uint64_t operator_id, c10::ArrayRef<c10::IValue> values, const Arguments& arguments, KeyWords& key) {
  key.push_back(operator_id);
  // What kernels read from the thread: the default type of results, and whether tensors are made for inference.
  key.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8 |
                static_cast<uint64_t>(c10::InferenceMode::is_enabled()) << 1 | c10::GradMode::is_enabled());
  KeyWriter writer(arguments, key);
  for (const c10::IValue& value : values) {
    if (!writer.write(value)) return false;
  }
  return true;
}

// ---- PlanCache -----------------------------------------------------------------------------------------------------

std::shared_ptr<const Plan> PlanCache::find(const KeyWords& key) {
  std::shared_lock lock(mutex_);
  auto found = plans_.find(View{key, hash_words(key)});
  if (found == plans_.end()) {
    misses_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  return found->second;
}

void PlanCache::insert(const KeyWords& key, std::shared_ptr<const Plan> plan) {
  std::unique_lock lock(mutex_);
  if (plans_.size() >= kMaxEntries) plans_.clear();
  plans_.emplace(Key{std::vector<uint64_t>(key.begin(), key.end()), hash_words(key)}, std::move(plan));
}

void PlanCache::clear() {
  std::unique_lock lock(mutex_);
  plans_.clear();
  hits_ = misses_ = uncached_ = 0;
}

PlanCache::Counts PlanCache::counts() const {
  std::shared_lock lock(mutex_);
  return Counts{hits_, misses_, uncached_, plans_.size()};
}

}  // namespace alternator::tensor
