#include "torch/operator_info.h"

#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace alternator::tensor {
namespace {

enum class Rule : uint8_t { ViaTorch, MixesDevices, NotCached, NeverFails, Divides, Hides, ReadsOffset };

// Whether operator_rule.def has a row for an overload, or for all of its operator's.
bool has_rule(const std::string& name, const std::string& base, Rule rule) {
  static const std::unordered_multimap<std::string_view, Rule> rules = {
#define VIA_TORCH(op, why) {op, Rule::ViaTorch},
#define MIXES_DEVICES(op) {op, Rule::MixesDevices},
#define NOT_CACHED(op, why) {op, Rule::NotCached},
#define NEVER_FAILS(op) {op, Rule::NeverFails},
#define DIVIDES(op) {op, Rule::Divides},
#define HIDES_WRITES(op) {op, Rule::Hides},
#define READS_OFFSET(op) {op, Rule::ReadsOffset},
#define INDEXES(op, how)
#include "torch/operator_rule.def"
#undef VIA_TORCH
#undef MIXES_DEVICES
#undef NOT_CACHED
#undef NEVER_FAILS
#undef DIVIDES
#undef HIDES_WRITES
#undef READS_OFFSET
#undef INDEXES
  };
  for (const std::string& key : {name, base}) {
    auto [begin, end] = rules.equal_range(key);
    for (auto row = begin; row != end; ++row) {
      if (row->second == rule) return true;
    }
  }
  return false;
}

// Operators that come with torch: their kernels are pure functions of metadata. A custom operator's fake kernel is the
// user's code, which may look at anything, and may be registered again.
bool comes_with_torch(const std::string& name) { return name.starts_with("aten::") || name.starts_with("prims::"); }

// Kernels for Meta say that the results of these are ordinary tensors. Operators that only round as quantization does, and
// give tensors of their arguments' types, are none of them.
bool is_about_quantized(const std::string& name) {
  return name.find("quantize") != std::string::npos && name.find("fake_quantize") == std::string::npos;
}

Route choose_route(const c10::OperatorHandle& op, const OperatorInfo& info, const std::string& base) {
  using c10::DispatchKey;
  if (op.hasTag(at::Tag::data_dependent_output)) return Route::Data;
  if (comes_with_torch(info.name) && is_about_quantized(base)) return Route::None;
  const bool own_meta = op.hasKernelForDispatchKey(DispatchKey::Meta);
  if (!own_meta && op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) return Route::Composite;
  if (!comes_with_torch(info.name) || op.hasTag(at::Tag::dynamic_output_shape)) return Route::Torch;
  if (has_rule(info.name, base, Rule::ViaTorch)) return Route::Torch;
  if (info.rule) return Route::Rule;
  if (info.kernel) return Route::Direct;
  return op.hasComputedKernelForDispatchKey(DispatchKey::Meta) ? Route::Meta : Route::Torch;
}

Indexing find_indexing(const std::string& base) {
  static const std::unordered_map<std::string_view, Indexing> rows = {
#define VIA_TORCH(op, why)
#define MIXES_DEVICES(op)
#define NOT_CACHED(op, why)
#define NEVER_FAILS(op)
#define DIVIDES(op)
#define HIDES_WRITES(op)
#define READS_OFFSET(op)
#define INDEXES(op, how) {op, Indexing::how},
#include "torch/operator_rule.def"
#undef VIA_TORCH
#undef MIXES_DEVICES
#undef NOT_CACHED
#undef NEVER_FAILS
#undef DIVIDES
#undef HIDES_WRITES
#undef READS_OFFSET
#undef INDEXES
  };
  auto found = rows.find(base);
  return found != rows.end() ? found->second : Indexing::None;
}

// A result that is an argument's memory, and nothing written: another look at it, which its metadata decide.
bool is_view(const c10::FunctionSchema& schema) {
  bool views = false;
  for (const auto& result : schema.returns()) views = views || result.alias_info();
  return views && !schema.is_mutable();
}

Failure find_failure(const c10::OperatorHandle& op, const c10::FunctionSchema& schema, const std::string& name) {
  if (has_rule(name, schema.name(), Rule::Divides)) return Failure::OfIntegers;
  const bool never = op.hasTag(at::Tag::pointwise) || schema.name().starts_with("aten::_foreach_") || is_view(schema) ||
                     has_rule(name, schema.name(), Rule::NeverFails);
  return never ? Failure::Never : Failure::Any;
}

OperatorInfo describe_operator(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OperatorInfo info;
  info.name = name_operator(schema);
  info.kernel = find_meta_kernel(info.name);
  info.rule = find_shape_rule(info.name);
  info.hides_writes = has_rule(info.name, schema.name(), Rule::Hides);
  const bool counted = op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView);
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if (name == "storage_offset") info.reads_offset = true;
    if (name == "device") info.device_argument = static_cast<int>(i);
    if (name == "dtype" || name == "out_dtype") info.dtype_argument = static_cast<int>(i);
    if (name == "train" || name == "training" || name == "dropout_p") info.draws_if = static_cast<int>(i);
    const bool written = arguments[i].alias_info() && arguments[i].alias_info()->isWrite();
    const bool hidden = info.hides_writes && name.starts_with("running_");
    info.writes = info.writes || written;
    if (hidden || written) info.written.push_back(static_cast<int>(i));
    if (hidden || (written && !counted)) info.silent_writes.push_back(static_cast<int>(i));
  }
  info.route = choose_route(op, info, schema.name());
  info.failure = find_failure(op, schema, info.name);
  info.indexing = find_indexing(schema.name());
  info.reads_offset = info.reads_offset || has_rule(info.name, schema.name(), Rule::ReadsOffset);
  info.mixes_devices = has_rule(info.name, schema.name(), Rule::MixesDevices);
  info.cached = comes_with_torch(info.name) && !has_rule(info.name, schema.name(), Rule::NotCached);
  info.foreign = !comes_with_torch(info.name);
  info.draws = op.hasTag(at::Tag::nondeterministic_seeded);
  return info;
}

}  // namespace

std::string name_operator(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
}

std::shared_ptr<const OperatorInfo> find_operator(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static std::unordered_map<c10::OperatorHandle, std::shared_ptr<const OperatorInfo>> known;
  {
    std::shared_lock lock(mutex);
    if (auto found = known.find(op); found != known.end()) return found->second;
  }
  auto info = std::make_shared<const OperatorInfo>(describe_operator(op));
  // A custom operator can go away and another one take its address.
  if (comes_with_torch(info->name)) {
    std::unique_lock lock(mutex);
    known.emplace(op, info);
  }
  return info;
}

}  // namespace alternator::tensor
