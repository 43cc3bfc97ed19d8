#include "torch/fake_kernel.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/library.h>

#include <span>

#include "torch/facts.h"
#include "torch/operator_info.h"
#include "torch/shadow.h"
#include "torch/write_entries.h"

namespace alternator::tensor {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

PythonWatch python_watch;
std::atomic<bool> compares{false};
std::atomic<uint64_t> torch_plans{0};
std::mutex differences_mutex;
std::vector<std::string> differences;

// Torch's own kernels run as if nobody watched: no recorder, no torch function mode of the user's, no Fake key.
class Unwatched {
 public:
  Unwatched() : exclude_fake_(DispatchKey::Fake), functions_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
    if (watch_.leave) watch_.leave();
  }
  ~Unwatched() {
    if (watch_.resume) watch_.resume();
    at::impl::PythonTorchFunctionTLS::set_disabled_state(functions_);
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_fake_;
  at::impl::TorchFunctionDisabledState functions_;
  PythonWatch watch_ = python_watch;
};

// ---- Arguments that are not fakes ----------------------------------------------------------------------------------

at::Tensor stand_in_for(const OperatorInfo& info, const at::Tensor& real, bool written) {
  if (!is_plain(real)) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, info.name, ": no fake for a tensor of layout ", real.layout(), " and keys ",
                                real.key_set());
  }
  if (written) {
    throw_data_dependent(info.name + " would write to a real tensor while only fakes may change");
  }
  FakeMemo* memo = FakeMode::memo();
  Metadata metadata = read_metadata(real);
  return make_fake(metadata, memo ? memo->share_storage(real.storage()) : make_fake_storage(real.storage().nbytes()));
}

bool needs_stand_in(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  if (is_fake(tensor) || tensor.is_meta()) return !is_plain(tensor);
  // A Python number stays what it is: FakeTensorMode wants to see its value, and nothing can alias it.
  return !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

void replace_real_arguments(const c10::OperatorHandle& op, const OperatorInfo& info, std::span<c10::IValue> values) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < values.size(); ++i) {
    c10::IValue& value = values[i];
    const bool written = arguments[i].alias_info() && arguments[i].alias_info()->isWrite();
    if (value.isTensor()) {
      if (needs_stand_in(value.toTensor())) value = stand_in_for(info, value.toTensor(), written);
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      auto needs = [](const c10::IValue& item) { return item.isTensor() && needs_stand_in(item.toTensor()); };
      auto items = value.toListRef();
      if (std::none_of(items.begin(), items.end(), needs)) continue;
      value = map_tensor_list(value, [&](const at::Tensor& tensor) {
        return needs_stand_in(tensor) ? stand_in_for(info, tensor, written) : tensor;
      });
    }
  }
}

// ---- Where results are ---------------------------------------------------------------------------------------------

// The device that an operator's new tensors are on: what it was told, or its arguments'. A zero-dimensional CPU tensor
// goes along with any device.
class CommonDevice {
 public:
  explicit CommonDevice(const OperatorInfo& info) : info_(info) {}

  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
    const c10::Device device = tensor.device();
    const bool scalar = tensor.dim() == 0 && device.is_cpu();
    if (!device_ || (scalar_ && !scalar)) {
      device_ = device;
      scalar_ = scalar;
    } else if (*device_ != device && !scalar && !info_.mixes_devices) {
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *device_,
                  " and ", device, "! (", info_.name, ")");
    }
  }

  c10::Device get() const { return device_.value_or(c10::kCPU); }

 private:
  const OperatorInfo& info_;
  std::optional<c10::Device> device_;
  bool scalar_ = false;
};

c10::Device find_device(const OperatorInfo& info, c10::ArrayRef<c10::IValue> values, const Arguments& arguments) {
  if (info.device_argument >= 0 && values[info.device_argument].isDevice()) {
    return values[info.device_argument].toDevice();
  }
  CommonDevice common(info);
  for (size_t place = 0; place < arguments.size(); ++place) common.add(arguments[place]);
  return common.get();
}

// ---- Making a plan -------------------------------------------------------------------------------------------------

// Runs a kernel for Meta on stand-ins for the arguments and reads off what it did.
Plan plan_with_meta(const c10::OperatorHandle& op, const OperatorInfo& info, c10::ArrayRef<c10::IValue> values,
                    const Arguments& arguments) {
  const c10::Device device = find_device(info, values, arguments);
  Shadows shadows(arguments);
  Unwatched unwatched;
  Stack stack = shadows.substitute(values);
  if (info.device_argument >= 0) stack[info.device_argument] = c10::Device(c10::kMeta);
  if (info.route == Route::Rule) {
    TORCH_CHECK_NOT_IMPLEMENTED(info.rule(stack, device), info.name, ": no rule for these arguments");
  } else if (info.route == Route::Direct) {
    info.kernel->callBoxed(op, DispatchKeySet(DispatchKey::Meta), &stack);
  } else {
    op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), &stack);
  }
  return shadows.read_plan(stack, device, info.writes);
}

Plan plan_with_torch(const c10::OperatorHandle& op, const OperatorInfo& info, c10::ArrayRef<c10::IValue> values,
                     const Arguments& arguments) {
  torch_plans.fetch_add(1, std::memory_order_relaxed);
  Shadows shadows(arguments);
  Unwatched unwatched;
  shadows.wrap_for_torch();
  Stack stack = shadows.substitute(values);
  call_in_torch_mode(op, stack);
  return shadows.read_plan(stack, std::nullopt, info.writes);
}

void compare_plans(const c10::OperatorHandle& op, const OperatorInfo& info, c10::ArrayRef<c10::IValue> values,
                   const Arguments& arguments, const Plan& plan) {
  std::string difference;
  try {
    Plan torch_plan = plan_with_torch(op, info, values, arguments);
    difference = describe_difference(plan, torch_plan);
  } catch (const std::exception& error) {
    difference = std::string("FakeTensorMode fails: ") + error.what();
  }
  if (!difference.empty()) {
    std::lock_guard lock(differences_mutex);
    differences.push_back(info.name + ": " + difference);
  }
}

Plan make_plan(const c10::OperatorHandle& op, const OperatorInfo& info, c10::ArrayRef<c10::IValue> values,
               const Arguments& arguments) {
  if (info.route == Route::Torch) return plan_with_torch(op, info, values, arguments);
  Plan plan;
  try {
    plan = plan_with_meta(op, info, values, arguments);
  } catch (const c10::NotImplementedError&) {
    // A kernel that exists but says no for these arguments: torch may have a decomposition.
    return plan_with_torch(op, info, values, arguments);
  }
  if (compares.load(std::memory_order_relaxed)) compare_plans(op, info, values, arguments, plan);
  return plan;
}

// ---- The kernel ----------------------------------------------------------------------------------------------------

// torch.tensor() hands its freshly made real tensor over with this operator; here it becomes a fake.
bool is_lift(const OperatorInfo& info) { return info.name.starts_with("aten::lift"); }

thread_local uint64_t foreign = 0;
thread_local uint64_t draws = 0;

// Dropout that is switched off draws nothing. (A flag that was not given, None, is no false one.)
bool is_off(const OperatorInfo& info, std::span<const c10::IValue> values) {
  if (info.draws_if < 0) {
    return false;
  }
  const c10::IValue& value = values[info.draws_if];
  return value.isBool() ? !value.toBool() : value.isDouble() && value.toDouble() == 0.0;
}

// The counters of fakes tell which tensors a graph writes to, also where torch does not count: for lists of tensors its
// kernels do, as a rule, which do not run here.
void count_writes(const OperatorInfo& info, std::span<const c10::IValue> values) {
  auto count = [](const at::Tensor& tensor) {
    if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  };
  for (int i : info.silent_writes) {
    if (values[i].isTensor()) count(values[i].toTensor());
    if (!values[i].isTensorList()) continue;
    for (const at::Tensor& tensor : values[i].toTensorVector()) count(tensor);
  }
}

void refuse_quantized(const OperatorInfo& info, std::span<const c10::IValue> values) {
  if (info.dtype_argument < 0 || !values[info.dtype_argument].isInt()) return;
  const auto dtype = static_cast<c10::ScalarType>(values[info.dtype_argument].toInt());
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(dtype), info.name, ": no fake can stand for a tensor of type ", dtype);
}

// Kernels insist on both running statistics or none; fakes of torch's own do not look.
void refuse_half_of_statistics(const OperatorInfo& info, std::span<const c10::IValue> values) {
  if (!info.hides_writes) return;
  auto given = [&](int i) { return values[i].isTensor() && values[i].toTensor().defined(); };
  for (int i : info.silent_writes) {
    TORCH_CHECK_VALUE(given(i) == given(info.silent_writes.front()), info.name,
                      ": one of the running statistics is missing");
  }
}

void run_fallback(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  const std::shared_ptr<const OperatorInfo> found = find_operator(op);
  const OperatorInfo& info = *found;
  foreign += info.foreign;
  const size_t count = op.schema().arguments().size();
  const std::span<c10::IValue> values(stack->data() + stack->size() - count, count);
  const bool off = is_off(info, values);
  draws += info.draws && !off;
  switch (info.route) {
    case Route::None: TORCH_CHECK_NOT_IMPLEMENTED(false, info.name, ": no fake can stand for a quantized tensor");
    case Route::Data: throw_data_dependent(std::string(kNoData) + ": " + info.name + " needs it");
    // Fake stays switched on: the definition calls operators on our fakes, each of which comes here.
    case Route::Composite: return op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), stack);
    default: break;
  }
  refuse_quantized(info, values);
  refuse_half_of_statistics(info, values);
  if (WriteLog::Entries* log = WriteLog::current()) log->note(info, values, off);
  replace_real_arguments(op, info, values);
  if (is_lift(info)) return;  // its only argument is its result
  Arguments arguments(values);
  KeyWords key;
  const bool cached = info.cached && write_key(reinterpret_cast<uint64_t>(&info), values, arguments, key);
  std::shared_ptr<const Plan> plan = cached ? plan_cache().find(key) : nullptr;
  if (!plan) {
    plan = std::make_shared<const Plan>(make_plan(op, info, values, arguments));
    if (cached && plan->reusable) {
      plan_cache().insert(key, plan);
    } else {
      plan_cache().count_uncached();
    }
  }
  if (!off) count_writes(info, values);
  replay(*plan, arguments, count, *stack);
}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_fallback>()); }

}  // namespace

PlanCache& plan_cache() {
  static PlanCache cache;
  return cache;
}

void set_python_watch(PythonWatch watch) { python_watch = watch; }

std::string name_route(const std::string& operator_name) {
  const size_t dot = operator_name.find('.');
  const std::string overload = dot == std::string::npos ? "" : operator_name.substr(dot + 1);
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(operator_name.substr(0, dot).c_str(), overload.c_str());
  static constexpr const char* kNames[] = {"Data", "None", "Composite", "Direct", "Meta", "Rule", "Torch"};
  return kNames[static_cast<size_t>(find_operator(op)->route)];
}

uint64_t count_torch_plans() { return torch_plans; }

void set_comparison(bool on) { compares = on; }

std::vector<std::string> take_differences() {
  std::lock_guard lock(differences_mutex);
  return std::exchange(differences, {});
}

uint64_t count_foreign() { return foreign; }

uint64_t count_draws() { return draws; }

void note_draw() { ++draws; }

}  // namespace alternator::tensor
