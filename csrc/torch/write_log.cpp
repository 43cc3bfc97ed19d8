#include "torch/write_log.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <utility>

#include "torch/write_entries.h"

namespace alternator::tensor {
namespace {

thread_local WriteLog::Entries* current_entries = nullptr;

// ---- What may fail --------------------------------------------------------------------------------------------------

void visit_tensors(const c10::IValue& value, const auto& visit) {
  if (value.isTensor() && value.toTensor().defined()) {
    visit(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
    }
  }
}

bool may_fail(const OperatorInfo& info, std::span<const c10::IValue> values) {
  if (info.failure != Failure::OfIntegers) return info.failure == Failure::Any;
  bool has_fractions = false;
  for (const c10::IValue& value : values) {
    has_fractions = has_fractions || value.isDouble();
    visit_tensors(value, [&](const at::Tensor& tensor) {
      has_fractions = has_fractions || !c10::isIntegralType(tensor.scalar_type(), true);
    });
  }
  return !has_fractions;
}

// ---- Indices --------------------------------------------------------------------------------------------------------

// Collects what an operator compares its indices with. Gives up, for good, on whatever is not as expected.
class CheckList {
 public:
  void add(const c10::IValue& index, int64_t low, int64_t high, std::optional<int64_t> ignored = std::nullopt) {
    known_ = known_ && index.isTensor() && is_plain(index.toTensor()) &&
             (index.toTensor().scalar_type() == at::kLong || index.toTensor().scalar_type() == at::kInt) &&
             index.toTensor().device().is_cpu();
    if (known_) {
      const at::Tensor& tensor = index.toTensor();
      checks_.push_back({tensor.storage().getWeakStorageImpl().lock(), read_metadata(tensor), low, high, ignored});
    }
  }
  void add_along(const c10::IValue& self, int64_t dimension, const c10::IValue& index) {
    const int64_t count = self.toTensor().dim();
    dimension += dimension < 0 ? count : 0;
    known_ = known_ && dimension >= 0 && dimension < count;
    if (known_) add(index, 0, self.toTensor().size(dimension));
  }
  void add_each(const c10::IValue& self, const c10::IValue& indices) {
    auto items = indices.toListRef();
    known_ = known_ && static_cast<int64_t>(items.size()) <= self.toTensor().dim();
    for (size_t i = 0; known_ && i < items.size(); ++i) {
      if (items[i].isNone() || (items[i].isTensor() && !items[i].toTensor().defined())) continue;
      const int64_t size = self.toTensor().size(static_cast<int64_t>(i));
      add(items[i], -size, size);
    }
  }
  void add_classes(const c10::IValue& self, const c10::IValue& target, const c10::IValue& ignored) {
    const int64_t count = self.toTensor().dim();
    known_ = known_ && count > 0 && ignored.isInt();
    if (known_) add(target, 0, self.toTensor().size(count > 1 ? 1 : 0), ignored.toInt());
  }

  std::vector<IndexCheck> take() { return known_ ? std::move(checks_) : std::vector<IndexCheck>(); }

 private:
  bool known_ = true;
  std::vector<IndexCheck> checks_;
};

std::vector<IndexCheck> list_checks(const OperatorInfo& info, std::span<const c10::IValue> values) {
  CheckList list;
  switch (info.indexing) {
    case Indexing::None: break;
    case Indexing::Along: list.add_along(values[0], values[1].toInt(), values[2]); break;
    case Indexing::Each: list.add_each(values[0], values[1]); break;
    case Indexing::Rows: list.add_along(values[0], 0, values[1]); break;
    case Indexing::Classes: list.add_classes(values[0], values[1], values[4]); break;
  }
  return list.take();
}

bool is_same_view(const Metadata& a, const Metadata& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset && a.dtype == b.dtype;
}

// ---- Plans ----------------------------------------------------------------------------------------------------------

// The inputs of a graph by what stands for their memory.
class Inputs {
 public:
  Inputs(const WriteLog::Entries& entries, const std::vector<PyObject*>& tensors) {
    for (PyObject* tensor : tensors) {
      const at::Tensor& real = THPVariable_Unpack(tensor);
      auto fake =
          is_plain(real) ? entries.fakes_of.find(real.storage().unsafeGetStorageImpl()) : entries.fakes_of.end();
      inputs_.push_back({fake != entries.fakes_of.end() ? fake->second.get() : nullptr, read_metadata_of_plain(real)});
    }
  }
  int find_on(const c10::StorageImpl* storage) const {
    auto found = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& one) { return one.storage == storage; });
    return found != inputs_.end() ? static_cast<int>(found - inputs_.begin()) : -1;
  }
  std::vector<int> list_on(const c10::StorageImpl* storage) const {
    std::vector<int> found;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].storage == storage) found.push_back(static_cast<int>(i));
    }
    return found;
  }
  // Of bytes of the storage.
  Range make_range(int input, int64_t begin, int64_t end) const {
    const Metadata& metadata = inputs_[input].metadata;
    const int64_t start = metadata.offset * static_cast<int64_t>(c10::elementSize(metadata.dtype));
    return {input, begin - start, end - start};
  }
  int find(const IndexCheck& check) const {
    auto found = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& one) {
      return one.storage == check.storage.get() && is_same_view(one.metadata, check.metadata);
    });
    return found != inputs_.end() ? static_cast<int>(found - inputs_.begin()) : -1;
  }

 private:
  struct Input {
    const c10::StorageImpl* storage;
    Metadata metadata;
  };
  static Metadata read_metadata_of_plain(const at::Tensor& real) {
    return is_plain(real) ? read_metadata(real) : Metadata();
  }

  std::vector<Input> inputs_;
};

// Looking at the inputs beforehand tells whether the operator fails.
bool check_beforehand(const WriteLog::Entries& entries, const WriteLog::Entries::Risk& risk, const Inputs& inputs,
                      std::vector<ValueCheck>* checks) {
  std::vector<ValueCheck> found;
  for (const IndexCheck& check : risk.checks) {
    auto write = entries.writes.find(check.storage.get());
    const int input = inputs.find(check);
    if (input < 0 || (write != entries.writes.end() && write->second.first <= risk.time)) return false;
    found.push_back({input, check.low, check.high, check.ignored});
  }
  for (const ValueCheck& check : found) {
    if (std::find(checks->begin(), checks->end(), check) == checks->end()) checks->push_back(check);
  }
  return !found.empty();
}

template <typename Value>
bool are_in_range(const Value* data, c10::IntArrayRef sizes, c10::IntArrayRef strides, const ValueCheck& check) {
  if (sizes.empty()) {
    const int64_t value = *data;
    return (value >= check.low && value < check.high) || (check.ignored && value == *check.ignored);
  }
  for (int64_t i = 0; i < sizes[0]; ++i) {
    if (!are_in_range(data + i * strides[0], sizes.slice(1), strides.slice(1), check)) return false;
  }
  return true;
}

}  // namespace

bool IndexCheck::implies(const IndexCheck& other) const {
  return storage == other.storage && is_same_view(metadata, other.metadata) && low >= other.low && high <= other.high &&
         (!ignored || ignored == other.ignored);
}

// ---- Entries --------------------------------------------------------------------------------------------------------

void WriteLog::Entries::note(const OperatorInfo& info, std::span<const c10::IValue> values, bool off) {
  ++time;
  if (may_fail(info, values)) {
    std::vector<IndexCheck> checks = list_checks(info, values);
    const bool covered = is_covered(checks);
    for (const IndexCheck& check : checks) {
      if (!covered) passed.emplace_back(time, check);
    }
    risks.push_back({time, std::move(checks), covered});
  }
  for (const c10::IValue& value : info.reads_offset ? values : std::span<const c10::IValue>()) {
    visit_tensors(value, [&](const at::Tensor& tensor) { rely_on_offset(tensor); });
  }
  if (off) return;
  for (int i : info.written) {
    visit_tensors(values[i], [&](const at::Tensor& tensor) { note_write(tensor); });
  }
}

void WriteLog::Entries::note_write(const at::Tensor& tensor) {
  if (!tensor.has_storage() || !is_plain(tensor)) return;
  int64_t extent = tensor.numel() > 0;
  for (int64_t i = 0; i < tensor.dim() && extent > 0; ++i) {
    extent += (tensor.size(i) - 1) * tensor.stride(i);
  }
  const int64_t item = static_cast<int64_t>(tensor.element_size());
  const int64_t begin = tensor.storage_offset() * item;
  const int64_t end = begin + extent * item;
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  auto [found, is_new] =
      writes.try_emplace(storage, Write{tensor.storage().getWeakStorageImpl().lock(), time, time, begin, end});
  if (!is_new) {
    Write& write = found->second;
    write.last = time;
    write.begin = std::min(write.begin, begin);
    write.end = std::max(write.end, end);
  }
}

bool WriteLog::Entries::is_covered(const std::vector<IndexCheck>& checks) const {
  return !checks.empty() && std::all_of(checks.begin(), checks.end(), [&](const IndexCheck& check) {
    auto write = writes.find(check.storage.get());
    const uint64_t since = write != writes.end() ? write->second.last : 0;
    return std::any_of(passed.begin(), passed.end(),
                       [&](const auto& earlier) { return earlier.first > since && earlier.second.implies(check); });
  });
}

// ---- The log --------------------------------------------------------------------------------------------------------

WriteLog::WriteLog() : entries_(std::make_unique<Entries>()) {}
WriteLog::~WriteLog() = default;

WriteLog::Entries* WriteLog::current() { return current_entries; }

WriteLog::Unnoted::Unnoted() : kept_(std::exchange(current_entries, nullptr)) {}
WriteLog::Unnoted::~Unnoted() { current_entries = kept_; }

void WriteLog::open() { outer_ = std::exchange(current_entries, entries_.get()); }

void WriteLog::close() { current_entries = outer_; }

void WriteLog::rely_on_offset(PyObject* fake) { entries_->rely_on_offset(THPVariable_Unpack(fake)); }

bool WriteLog::relies_on_offset(PyObject* tensor) const {
  const at::Tensor& real = THPVariable_Unpack(tensor);
  if (!is_plain(real)) return true;
  auto fake = entries_->fakes_of.find(real.storage().unsafeGetStorageImpl());
  return fake == entries_->fakes_of.end() || entries_->with_offset.contains(fake->second.get());
}

Undoing WriteLog::plan(const std::vector<PyObject*>& tensors, Risks risks, bool keeps_order, bool has_symbols) const {
  Undoing undoing;
  if (entries_->writes.empty()) return undoing;
  const Inputs inputs(*entries_, tensors);
  struct Exposed {
    int input;
    const Entries::Write* write;
  };
  std::vector<Exposed> writes;
  uint64_t earliest = UINT64_MAX;
  for (const auto& [storage, write] : entries_->writes) {
    if (const int input = inputs.find_on(storage); input >= 0) {
      writes.push_back({input, &write});
      earliest = std::min(earliest, write.first);
    }
  }
  if (writes.empty()) return undoing;
  uint64_t latest_risk = 0;
  for (const Entries::Risk& risk : entries_->risks) {
    if ((keeps_order && risk.time < earliest) || (risk.is_covered && !has_symbols)) continue;
    if (has_symbols || !check_beforehand(*entries_, risk, inputs, &undoing.checks)) latest_risk = risk.time;
  }
  // An operator that refuses its arguments has not written: the last one is a risk to writes before it.
  if (risks == Risks::All && entries_->time > earliest)
    latest_risk = std::max(latest_risk, entries_->time - keeps_order);
  for (const Exposed& one : writes) {
    if (latest_risk == 0 || (keeps_order && one.write->first > latest_risk)) {
      undoing.is_complete = false;
      continue;
    }
    undoing.ranges.push_back(has_symbols ? Range{one.input, 0, Range::kToTheEnd}
                                         : inputs.make_range(one.input, one.write->begin, one.write->end));
    for (int input : inputs.list_on(one.write->storage.get())) undoing.tensors.push_back(input);
  }
  std::sort(undoing.ranges.begin(), undoing.ranges.end(),
            [](const Range& a, const Range& b) { return a.input < b.input; });
  return undoing;
}

bool holds(const std::vector<ValueCheck>& checks, PyObject* const* inputs) {
  return std::all_of(checks.begin(), checks.end(), [&](const ValueCheck& check) {
    const at::Tensor& tensor = THPVariable_Unpack(inputs[check.input]);
    const void* data = tensor.const_data_ptr();
    return tensor.scalar_type() == at::kLong
               ? are_in_range(static_cast<const int64_t*>(data), tensor.sizes(), tensor.strides(), check)
               : are_in_range(static_cast<const int32_t*>(data), tensor.sizes(), tensor.strides(), check);
  });
}

}  // namespace alternator::tensor
