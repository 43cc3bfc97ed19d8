// The entries of a WriteLog, for those who fill them: the fakes' kernel and the memo of fakes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <span>
#include <unordered_map>
#include <unordered_set>

#include "torch/fake_tensor.h"
#include "torch/operator_info.h"
#include "torch/write_log.h"

namespace alternator::tensor {

// A tensor of indices, and what they are compared with.
struct IndexCheck {
  StorageRef storage;
  Metadata metadata;
  int64_t low;
  int64_t high;
  std::optional<int64_t> ignored;

  // Where this one holds, the other one does as well.
  bool implies(const IndexCheck& other) const;
};

struct WriteLog::Entries {
  // An operator that may fail over a value.
  struct Risk {
    uint64_t time;
    std::vector<IndexCheck> checks;  // it does not fail if they hold; none: nobody knows
    bool is_covered;                 // an earlier operator would have failed over the same indices
  };
  struct Write {
    StorageRef storage;
    uint64_t first;
    uint64_t last;
    int64_t begin;  // bytes
    int64_t end;
  };

  // An operator is about to run. `off`: its flag says that it changes nothing (OperatorInfo::draws_if).
  void note(const OperatorInfo& info, std::span<const c10::IValue> values, bool off);
  // Where a fake begins in its storage is relied on.
  void rely_on_offset(const at::Tensor& fake) {
    if (fake.has_storage()) with_offset.insert(fake.storage().unsafeGetStorageImpl());
  }
  // A fake storage stands for a real one.
  void pair(const c10::StorageImpl* real, const StorageRef& fake) { fakes_of[real] = fake; }

  uint64_t time = 0;
  std::vector<Risk> risks;
  std::unordered_map<const c10::StorageImpl*, Write> writes;         // by fake storage
  std::unordered_map<const c10::StorageImpl*, StorageRef> fakes_of;  // by real storage
  std::unordered_set<const c10::StorageImpl*> with_offset;           // fake ones: views of them are at fixed offsets
  std::vector<std::pair<uint64_t, IndexCheck>> passed;               // when, and what held from then on

 private:
  void note_write(const at::Tensor& tensor);
  bool is_covered(const std::vector<IndexCheck>& checks) const;
};

}  // namespace alternator::tensor
