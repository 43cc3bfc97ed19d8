#include "torch/shadow.h"

#include <sstream>

namespace alternator::tensor {

Shadows::Shadows(const Arguments& arguments) : arguments_(arguments) {
  for (c10::StorageImpl* storage : arguments.storages()) storages_.push_back(make_meta_storage(storage->nbytes()));
  for (size_t place = 0; place < arguments.size(); ++place) {
    const size_t first = arguments.first_place(place);
    metadata_.push_back(arguments[place].defined() ? read_metadata(arguments[place]) : Metadata());
    if (!arguments[place].defined() || (metadata_[place].marks & kWrappedNumber)) {
      tensors_.emplace_back();
    } else if (first != place) {
      tensors_.push_back(tensors_[first]);
    } else {
      tensors_.push_back(make_meta(metadata_[place], storages_[arguments.storage_slot(place)]));
    }
  }
}

void Shadows::wrap_for_torch() {
  for (size_t place = 0; place < arguments_.size(); ++place) {
    if (!tensors_[place].defined()) continue;
    if (arguments_.first_place(place) != place) {
      tensors_[place] = tensors_[arguments_.first_place(place)];
    } else {
      tensors_[place] = make_torch_fake(tensors_[place], metadata_[place].device);
    }
  }
}

torch::jit::Stack Shadows::substitute(c10::ArrayRef<c10::IValue> values) const {
  torch::jit::Stack stack(values.begin(), values.end());
  size_t place = 0;
  auto next = [&](const at::Tensor& tensor) {
    const at::Tensor& shadow = tensors_[place++];
    return shadow.defined() ? shadow : tensor;
  };
  for (c10::IValue& value : stack) {
    if (value.isTensor()) {
      value = next(value.toTensor());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      value = map_tensor_list(value, next);
    }
  }
  return stack;
}

c10::IValue map_tensor_list(const c10::IValue& list, const std::function<at::Tensor(const at::Tensor&)>& replace) {
  auto items = list.toListRef();
  if (list.isTensorList()) {
    c10::List<at::Tensor> result;
    result.reserve(items.size());
    for (const c10::IValue& item : items) result.push_back(replace(item.toTensor()));
    return result;
  }
  c10::List<std::optional<at::Tensor>> result;
  result.reserve(items.size());
  for (const c10::IValue& item : items) {
    result.push_back(item.isTensor() ? std::optional(replace(item.toTensor())) : std::nullopt);
  }
  return result;
}

// ---- Reading a plan ------------------------------------------------------------------------------------------------

class Shadows::Reader {
 public:
  Reader(const Shadows& shadows, std::optional<c10::Device> device) : shadows_(shadows), device_(device) {}

  PlannedResult read(const c10::IValue& value) {
    PlannedResult result;
    if (value.isTensor()) {
      result.kind = PlannedResult::kTensor;
      result.tensors.push_back(read(value.toTensor()));
    } else if (value.isTensorList()) {
      result.kind = PlannedResult::kTensorList;
      for (const c10::IValue& item : value.toListRef()) result.tensors.push_back(read(item.toTensor()));
    } else {
      result.constant = value;
    }
    return result;
  }

  void read_changes() {
    const Arguments& arguments = shadows_.arguments_;
    for (size_t slot = 0; slot < shadows_.storages_.size(); ++slot) {
      const size_t bytes = shadows_.storages_[slot]->nbytes();
      if (bytes != arguments.storages()[slot]->nbytes()) plan_.storage_changes.emplace_back(slot, bytes);
    }
    for (uint32_t place = 0; place < arguments.size(); ++place) {
      const at::Tensor& shadow = shadows_.tensors_[place];
      if (!shadow.defined() || arguments.first_place(place) != place) continue;
      const Metadata& before = shadows_.metadata_[place];
      Metadata after = read_metadata(shadow);
      const int storage = find_storage(shadow);
      if (after.sizes != before.sizes || after.strides != before.strides || after.offset != before.offset ||
          storage != arguments.storage_slot(place)) {
        plan_.changes.push_back({place, storage, std::move(after)});
      }
    }
  }

  Plan take() { return std::move(plan_); }

 private:
  PlannedTensor read(const at::Tensor& tensor) {
    PlannedTensor planned;
    if (!tensor.defined()) return planned;
    for (uint32_t place = 0; place < shadows_.tensors_.size(); ++place) {
      if (shadows_.tensors_[place].is_same(tensor)) {
        planned.kind = PlannedTensor::kArgument;
        planned.place = place;
        return planned;
      }
    }
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && tensor.has_storage(),
                                "no fake can stand for a result of layout ", tensor.layout());
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(tensor.scalar_type()), "no fake can stand for a result of type ",
                                tensor.scalar_type());
    planned.kind = PlannedTensor::kTensor;
    planned.metadata = read_metadata(tensor);
    // A kernel that made its result elsewhere on purpose (not on meta) knows where it belongs.
    if (device_ && planned.metadata.device.is_meta()) planned.metadata.device = *device_;
    planned.storage = find_storage(tensor);
    return planned;
  }

  int find_storage(const at::Tensor& tensor) {
    const StorageRef storage = tensor.storage().getWeakStorageImpl().lock();
    for (size_t slot = 0; slot < shadows_.storages_.size(); ++slot) {
      if (shadows_.storages_[slot] == storage) return static_cast<int>(slot);
    }
    for (size_t i = 0; i < new_storages_.size(); ++i) {
      if (new_storages_[i] == storage) return ~static_cast<int>(i);
    }
    // Kept alive: a storage that died would leave its address to the next one.
    new_storages_.push_back(storage);
    plan_.new_storages.push_back(storage->nbytes());
    return ~static_cast<int>(new_storages_.size() - 1);
  }

  const Shadows& shadows_;
  std::optional<c10::Device> device_;
  std::vector<StorageRef> new_storages_;
  Plan plan_;
};

Plan Shadows::read_plan(const torch::jit::Stack& results, std::optional<c10::Device> device, bool writes) const {
  Reader reader(*this, device);
  Plan plan;
  std::vector<PlannedResult> planned;
  for (const c10::IValue& value : results) planned.push_back(reader.read(value));
  if (writes) reader.read_changes();
  plan = reader.take();
  plan.results = std::move(planned);
  return plan;
}

// ---- Comparison ----------------------------------------------------------------------------------------------------

namespace {

std::string print(const PlannedTensor& planned) {
  std::ostringstream out;
  switch (planned.kind) {
    case PlannedTensor::kUndefined: return "undefined";
    case PlannedTensor::kArgument: out << "argument " << planned.place; return out.str();
    case PlannedTensor::kTensor: break;
  }
  const Metadata& metadata = planned.metadata;
  out << metadata.dtype << c10::IntArrayRef(metadata.sizes) << " strides " << c10::IntArrayRef(metadata.strides)
      << " offset " << metadata.offset << " on " << metadata.device << (planned.storage < 0 ? " new " : " alias of ")
      << planned.storage << " marks " << int(metadata.marks);
  return out.str();
}

bool equal(const PlannedTensor& a, const PlannedTensor& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == PlannedTensor::kArgument) return a.place == b.place;
  return a.kind == PlannedTensor::kUndefined || (a.storage == b.storage && a.metadata == b.metadata);
}

}  // namespace

std::string describe_difference(const Plan& ours, const Plan& theirs) {
  if (ours.results.size() != theirs.results.size()) return "number of results";
  for (size_t i = 0; i < ours.results.size(); ++i) {
    const PlannedResult& a = ours.results[i];
    const PlannedResult& b = theirs.results[i];
    if (a.kind != b.kind || a.tensors.size() != b.tensors.size()) return "kind of result " + std::to_string(i);
    for (size_t k = 0; k < a.tensors.size(); ++k) {
      if (!equal(a.tensors[k], b.tensors[k])) return "ours " + print(a.tensors[k]) + "; theirs " + print(b.tensors[k]);
    }
    if (a.kind == PlannedResult::kConstant && a.constant != b.constant) return "constant result";
  }
  if (ours.changes.size() != theirs.changes.size()) return "changed arguments";
  for (size_t i = 0; i < ours.changes.size(); ++i) {
    const PlannedChange& a = ours.changes[i];
    const PlannedChange& b = theirs.changes[i];
    if (a.place != b.place || a.storage != b.storage || a.metadata.sizes != b.metadata.sizes ||
        a.metadata.strides != b.metadata.strides || a.metadata.offset != b.metadata.offset) {
      return "changed argument";
    }
  }
  return "";
}

}  // namespace alternator::tensor
