// What an operator does to metadata, as a value: made once from a run on meta tensors, replayed for equal arguments.
//
//   key    operator, global state, and for each argument its metadata, its storage's size, and which earlier argument
//          has the same storage or is the same tensor
//   plan   the results (new, on an argument's storage, or an argument itself) and the arguments' new metadata
//
// A first run and a repeated one both end in replay(), so there is one way in which results come to be.
//
// Not part of the key, on purpose: requires_grad and autocast. Both are dealt with above the Fake key; the kernels
// below get tensors without them.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "torch/fake_tensor.h"

namespace alternator::tensor {

// The tensors among an operator's arguments, those in lists included, each place once.
class Arguments {
 public:
  explicit Arguments(c10::ArrayRef<c10::IValue> values);

  size_t size() const { return tensors_.size(); }
  // May be undefined.
  const at::Tensor& operator[](size_t place) const { return *tensors_[place]; }
  // The first place with this very tensor; the place itself if there is none before.
  size_t first_place(size_t place) const { return first_place_[place]; }
  // The number of the tensor's storage, counted from 0 in order of appearance; -1 without one.
  int storage_slot(size_t place) const { return slots_[place]; }
  c10::ArrayRef<c10::StorageImpl*> storages() const { return storages_; }

 private:
  void add(const at::Tensor& tensor);
  void number_places();

  c10::SmallVector<const at::Tensor*, 8> tensors_;
  c10::SmallVector<uint32_t, 8> first_place_;
  c10::SmallVector<int32_t, 8> slots_;
  c10::SmallVector<c10::StorageImpl*, 8> storages_;
};

// ---- Plan ----------------------------------------------------------------------------------------------------------

struct PlannedTensor {
  enum Kind : uint8_t { kUndefined, kArgument, kTensor } kind = kUndefined;
  uint32_t place = 0;  // kArgument: which one
  int storage = 0;     // kTensor: an argument's slot, or ~n for the n-th new storage
  Metadata metadata;
};

struct PlannedResult {
  enum Kind : uint8_t { kTensor, kTensorList, kConstant } kind = kConstant;
  std::vector<PlannedTensor> tensors;
  c10::IValue constant;
};

struct PlannedChange {
  uint32_t place;
  int storage;
  Metadata metadata;
};

struct Plan {
  std::vector<PlannedResult> results;
  std::vector<size_t> new_storages;                     // their sizes in bytes
  std::vector<PlannedChange> changes;                   // arguments whose metadata the operator changes
  std::vector<std::pair<int, size_t>> storage_changes;  // storages of arguments that it resizes
  bool reusable = true;
};

// Makes the results of a plan and changes the arguments as it says. `stack` ends with the arguments; they are replaced
// by the results.
void replay(const Plan& plan, const Arguments& arguments, size_t count, torch::jit::Stack& stack);

// ---- Cache ---------------------------------------------------------------------------------------------------------

using KeyWords = c10::SmallVector<uint64_t, 96>;

// Writes the key of a call. False if an argument cannot be part of a key: then the call is not cached.
bool write_key(uint64_t operator_id, c10::ArrayRef<c10::IValue> values, const Arguments& arguments, KeyWords& key);

class PlanCache {
 public:
  struct Counts {
    uint64_t hits = 0, misses = 0, uncached = 0, entries = 0;
  };

  std::shared_ptr<const Plan> find(const KeyWords& key);
  void insert(const KeyWords& key, std::shared_ptr<const Plan> plan);
  void clear();
  Counts counts() const;
  void count_uncached() { uncached_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // A trace of the largest models needs some thousands; a program that never repeats a shape must not grow for ever.
  static constexpr size_t kMaxEntries = 1 << 16;

  struct View {
    c10::ArrayRef<uint64_t> words;
    size_t hash;
  };
  struct Key {
    std::vector<uint64_t> words;
    size_t hash;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const View& view) const { return view.hash; }
    size_t operator()(const Key& key) const { return key.hash; }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const View& a, const Key& b) const { return a.words == c10::ArrayRef<uint64_t>(b.words); }
    bool operator()(const Key& b, const View& a) const { return a.words == c10::ArrayRef<uint64_t>(b.words); }
    bool operator()(const Key& a, const Key& b) const { return a.words == b.words; }
  };

  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const Plan>, Hash, Equal> plans_;
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, uncached_ = 0;
};

}  // namespace alternator::tensor
