#include "torch/facts.h"

#include "base/once.h"
#include "torch/reveal.h"
#include "torch/tensor_words.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/DimVector.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <array>
#include <sstream>
#include <unordered_map>

namespace alternator::tensor {
namespace {

// ---- What torch keeps for a thread ----------------------------------------------------------------------------------
// Every call of a compiled function looks at it. Each function of torch that could be asked lies in a page of its own, which
// is in no cache when the program was busy with something else; so what they would read is read where it lies. References
// that torch gives out to a thread's variables are good for as long as the thread is.

using Functions = at::impl::PythonTorchFunctionTLS;
using DispatchModes = c10::impl::TorchDispatchModeTLS;
using torch::autograd::AutogradMeta;

REVEAL(FunctionModesOf, &Functions::stack_)
REVEAL(DisabledStateOf, &Functions::disabled_state_)
REVEAL(DispatchModesOf, &DispatchModes::stack_)
REVEAL(InfraModesOf, &DispatchModes::infra_modes_)
REVEAL(AutogradMetaOf, &c10::TensorImpl::autograd_meta_)
REVEAL(DeterministicOf, &at::Context::_deterministic_algorithms)
REVEAL(DeterministicWarnOnlyOf, &at::Context::_deterministic_algorithms_warn_only)

struct ThreadState {
  const Functions* functions;
  const DispatchModes* dispatch;
  const std::shared_ptr<torch::jit::tracer::TracingState>* tracing;
  const at::impl::SavedTensorDefaultHooksTLS* hooks;
  const c10::AutogradState* autograd;
  const c10::impl::PODLocalDispatchKeySet* keys;

  size_t function_modes() const { return (functions->*member(FunctionModesOf())).size(); }
  bool has_dispatch_modes() const {
    if (!(dispatch->*member(DispatchModesOf())).empty()) {
      return true;
    }
    for (const auto& mode : dispatch->*member(InfraModesOf())) {
      if (mode.has_value()) {
        return true;
      }
    }
    return false;
  }

  static const ThreadState& get() {
    static thread_local ThreadState state{};
    if (state.functions == nullptr) {
      state = {&Functions::get_state(),
               &DispatchModes::get_state(),
               &torch::jit::tracer::getTracingState(),
               &at::SavedTensorDefaultHooks::get_tls_state(),
               &c10::AutogradState::get_tls_state(),
               &c10::impl::raw_local_dispatch_key_set};
    }
    return state;
  }
};

const at::Context& context() {
  static const at::Context& context = at::globalContext();
  return context;
}

// ---- Tensors --------------------------------------------------------------------------------------------------------

struct GradState {
  bool required;
  bool is_leaf;
  bool operator==(const GradState&) const = default;
};

// What requires_grad and is_leaf say.
GradState grad_state(const c10::TensorImpl* impl) {
  auto* meta = static_cast<const AutogradMeta*>((impl->*member(AutogradMetaOf())).get());
  if (meta == nullptr) {
    return {false, true};
  }
  // A view also requires grad when its base does.
  return {meta->is_view_ ? meta->requires_grad() : meta->requires_grad_ || meta->grad_fn_, !meta->grad_fn_};
}

// Has sizes, strides and an offset. Torch throws when it is asked for those of another.
ALTERNATOR_WARM bool is_strided(const at::Tensor& value) {
  return value.layout() == at::kStrided && !value.is_nested() &&
         !value.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

class StridedFacts : public Facts {
 public:
  StridedFacts(PyObject* tensor, const std::vector<int>& free)
      : type_(steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(tensor)), nullptr))) {
    const at::Tensor& value = THPVariable_Unpack(tensor);
    keys_ = value.key_set();
    dtype_ = value.scalar_type();
    device_ = value.device();
    grad_ = grad_state(value.unsafeGetTensorImpl());
    strided_ = is_strided(value);
    if (strided_) {
      sizes_ = at::DimVector(value.sizes());
      strides_ = at::DimVector(value.strides());
      offset_ = value.storage_offset();
      for (int dimension : free) {
        sizes_[dimension] = kFree;
        is_free_ = true;
      }
    }
  }

  ALTERNATOR_WARM bool matches(PyObject* tensor) const override {
    if (!has_same_class(tensor)) {
      return false;
    }
    const at::Tensor& value = THPVariable_Unpack(tensor);
    return strided_ && value.key_set() == keys_ && value.scalar_type() == dtype_ && value.device() == device_ &&
           grad_state(value.unsafeGetTensorImpl()) == grad_ && is_strided(value) &&
           (is_free_ ? has_fixed_sizes(value)
                     : value.sizes() == sizes_ && value.strides() == strides_ && has_same_offset(value));
  }

  bool visit_words(PyObject* tensor, const std::function<void(const void*)>& visit) const override {
    return !is_free_ && visit_tensor_words(tensor, relies_on_offset_, visit);
  }

  std::string difference(PyObject* tensor) const override {
    if (!has_same_class(tensor)) {
      return "is now of another class";
    }
    const at::Tensor& value = THPVariable_Unpack(tensor);
    std::ostringstream text;
    if (value.scalar_type() != dtype_) {
      text << "had dtype " << dtype_ << ", has now " << value.scalar_type();
    } else if (!is_strided(value)) {
      text << "is now sparse, nested or of another layout";
    } else if (!has_fixed_sizes(value)) {
      text << "had sizes " << c10::IntArrayRef(sizes_) << ", has now " << value.sizes();
    } else if (!is_free_ && value.strides() != strides_) {
      text << "had strides " << c10::IntArrayRef(strides_) << ", has now " << value.strides();
    } else if (value.requires_grad() != grad_.required) {
      const char* const kNames[] = {"False", "True"};
      text << "had requires_grad=" << kNames[grad_.required] << ", has now " << kNames[value.requires_grad()];
    } else if (value.device() != device_) {
      text << "was on " << device_ << ", is now on " << value.device();
    } else if (!is_free_ && !has_same_offset(value)) {
      text << "had storage offset " << offset_ << ", has now " << value.storage_offset();
    } else {
      text << "has another layout or other dispatch keys (inference mode, conjugation ..) now";
    }
    return text.str();
  }

  std::string describe() const override {
    PyObject* type = type_ ? PyWeakref_GET_OBJECT(type_.get()) : Py_None;
    std::ostringstream text;
    text << (PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "Tensor") << ' '
         << c10::getDtypeNames(dtype_).first << c10::IntArrayRef(sizes_) << " strides " << c10::IntArrayRef(strides_)
         << ' ' << device_ << (grad_.required ? " requires_grad" : "");
    return text.str();
  }

  std::vector<int> changed_sizes(PyObject* tensor) const override {
    std::vector<int> changed;
    if (!has_same_class(tensor)) {
      return changed;
    }
    const at::Tensor& value = THPVariable_Unpack(tensor);
    if (strided_ && is_strided(value) && value.sizes().size() == sizes_.size()) {
      for (size_t i = 0; i < sizes_.size(); ++i) {
        if (sizes_[i] != value.sizes()[i]) {
          changed.push_back(static_cast<int>(i));
        }
      }
    }
    return changed;
  }

  void rely_on_offset() override { relies_on_offset_ = true; }

 private:
  bool has_same_class(PyObject* tensor) const {
    return type_ && reinterpret_cast<PyObject*>(Py_TYPE(tensor)) == PyWeakref_GET_OBJECT(type_.get());
  }

  static constexpr int64_t kFree = -1;  // may be any size

  bool has_fixed_sizes(const at::Tensor& value) const {
    return std::equal(sizes_.begin(), sizes_.end(), value.sizes().begin(), value.sizes().end(),
                      [](int64_t expected, int64_t size) { return expected == size || expected == kFree; });
  }

  bool has_same_offset(const at::Tensor& value) const {
    return !relies_on_offset_ || value.storage_offset() == offset_;
  }

  Ref<> type_;  // a weak reference
  c10::DispatchKeySet keys_;
  at::ScalarType dtype_;
  at::Device device_{at::kCPU};
  GradState grad_;
  bool strided_;
  bool is_free_ = false;
  bool relies_on_offset_ = false;
  at::DimVector sizes_, strides_;
  int64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<Facts> facts_of(PyObject* tensor, const std::vector<int>& free) {
  return std::make_unique<StridedFacts>(tensor, free);
}

int64_t extent_of(PyObject* tensor, Extent extent, int dimension) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  switch (extent) {
    case Extent::Size: return value.sizes()[dimension];
    case Extent::Stride: return value.strides()[dimension];
    case Extent::Offset: return value.storage_offset();
  }
  return 0;
}

Ref<> make_scalar(double value) {
  at::Tensor scalar = at::detail::empty_cpu({}, at::kDouble);
  *scalar.mutable_data_ptr<double>() = value;
  return steal(THPVariable_Wrap(scalar));
}

std::vector<int> group_by_storage(const std::vector<PyObject*>& tensors) {
  std::unordered_map<const void*, int> first;
  std::vector<int> groups;
  for (PyObject* tensor : tensors) {
    const void* storage = THPVariable_Unpack(tensor).storage().unsafeGetStorageImpl();
    groups.push_back(first.try_emplace(storage, static_cast<int>(groups.size())).first->second);
  }
  return groups;
}

PyObject* grad_of(PyObject* tensor) {
  const at::Tensor& grad = THPVariable_Unpack(tensor).grad();
  // The tensor owns its gradient, and a tensor keeps the Python object that it once got.
  return grad.defined() ? steal(THPVariable_Wrap(grad)).get() : nullptr;
}

uint32_t version_of(PyObject* tensor) { return THPVariable_Unpack(tensor)._version(); }

struct RandomState::Fields {
  at::mt19937 engine;
  std::optional<float> next_float;  // normal numbers come in pairs
  std::optional<double> next_double;
};

RandomState::RandomState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator);
  fields_ = std::make_unique<Fields>(
      Fields{source->engine(), source->next_float_normal_sample(), source->next_double_normal_sample()});
}

RandomState::~RandomState() = default;

void RandomState::restore() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator);
  source->set_engine(fields_->engine);
  source->set_next_float_normal_sample(fields_->next_float);
  source->set_next_double_normal_sample(fields_->next_double);
}

bool RandomState::is_only() { return !at::getAccelerator(false).has_value(); }

namespace {

// The exception that is set stays the one, whatever happens meanwhile.
class ErrorKept {
 public:
  ErrorKept() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorKept() { PyErr_Restore(type_, value_, traceback_); }
  ErrorKept(const ErrorKept&) = delete;
  ErrorKept& operator=(const ErrorKept&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

// torch.set_default_device and `with torch.device(..)` are a function mode, the lowest of all: what it does to a call is
// known, and the tracer does it (alternator/recording.py). Null if there is none, or others besides.
ALTERNATOR_WARM PyObject* device_mode(const ThreadState& thread) {
  if (thread.function_modes() != 1) {
    return nullptr;
  }
  static constinit Once<PyObject*> type;
  auto find_type = [] {
    ErrorKept kept;
    Ref<> module = steal(PyImport_ImportModule("torch.utils._device"));
    return module ? PyObject_GetAttrString(module.get(), "DeviceContext") : nullptr;
  };
  PyObject* mode = Functions::get_stack_at(0)->ptr(getPyInterpreter());
  return reinterpret_cast<PyObject*>(Py_TYPE(mode)) == type.get(find_type) ? mode : nullptr;
}

std::optional<at::Device> read_default_device(const ThreadState& thread) {
  PyObject* mode = device_mode(thread);
  if (mode == nullptr) {
    return std::nullopt;
  }
  ErrorKept kept;
  Ref<> device = steal(PyObject_GetAttrString(mode, "device"));
  return device && THPDevice_Check(device.get()) ? std::optional(reinterpret_cast<THPDevice*>(device.get())->device)
                                                 : std::nullopt;
}

}  // namespace

ALTERNATOR_WARM bool has_modes() {
  const ThreadState& thread = ThreadState::get();
  return (thread.function_modes() > 0 && device_mode(thread) == nullptr) ||
         thread.functions->*member(DisabledStateOf()) != at::impl::TorchFunctionDisabledState::ENABLED ||
         thread.has_dispatch_modes() || *thread.tracing != nullptr || !thread.hooks->stack.empty() ||
         thread.keys->included().has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

namespace {

using AutocastTypes = std::array<at::ScalarType, at::autocast::_AUTOCAST_SUPPORTED_DEVICES.size()>;

AutocastTypes read_autocast_types() {
  AutocastTypes types;
  for (size_t i = 0; i < types.size(); ++i) {
    types[i] = at::autocast::get_autocast_dtype(at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i]);
  }
  return types;
}

int read_autocast_nesting() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

}  // namespace

// Which devices have autocast on is in the dispatch keys.
struct GlobalState::Fields {
  explicit Fields(const ThreadState& thread = ThreadState::get())
      : keys(*thread.keys),
        grad(thread.autograd->get_grad_mode()),
        inference(thread.autograd->get_inference_mode()),
        device(read_default_device(thread)) {}

  c10::impl::LocalDispatchKeySet keys;
  bool grad;
  bool inference;
  bool autocast_cache = at::autocast::is_autocast_cache_enabled();
  bool deterministic = context().*member(DeterministicOf());
  bool deterministic_warn_only = context().*member(DeterministicWarnOnlyOf());
  AutocastTypes autocast_types = read_autocast_types();
  caffe2::TypeMeta dtype = c10::get_default_dtype();
  int threads = at::get_num_threads();
  std::optional<at::Device> device;

  bool operator==(const Fields& other) const {
    return keys.included_ == other.keys.included_ && keys.excluded_ == other.keys.excluded_ && grad == other.grad &&
           inference == other.inference && autocast_cache == other.autocast_cache &&
           autocast_types == other.autocast_types && dtype == other.dtype && deterministic == other.deterministic &&
           deterministic_warn_only == other.deterministic_warn_only && threads == other.threads &&
           device == other.device;
  }
};

GlobalState::GlobalState() = default;
GlobalState::~GlobalState() = default;
GlobalState::GlobalState(GlobalState&&) noexcept = default;
GlobalState& GlobalState::operator=(GlobalState&&) noexcept = default;

GlobalState GlobalState::capture() {
  GlobalState state;
  state.fields_ = std::make_unique<Fields>();
  state.autocast_nesting_ = read_autocast_nesting();
  return state;
}

std::string GlobalState::difference() const {
  const Fields now;
  std::ostringstream text;
  auto tell = [&](const char* what, const auto& before, const auto& after) {
    if (text.str().empty() && before != after) {
      text << std::boolalpha << what << " was " << before << ", is now " << after;
    }
  };
  tell("torch.is_grad_enabled()", fields_->grad, now.grad);
  tell("torch.is_inference_mode_enabled()", fields_->inference, now.inference);
  tell("torch.get_default_dtype()", fields_->dtype.name(), now.dtype.name());
  tell("torch.are_deterministic_algorithms_enabled()", fields_->deterministic, now.deterministic);
  tell("torch.get_num_threads()", fields_->threads, now.threads);
  return text.str().empty() ? "the state of torch (autocast, dispatch keys ..) is another one" : text.str();
}

ALTERNATOR_WARM bool GlobalState::is_current() const { return fields_ && *fields_ == Fields(); }

void GlobalState::restore() const {
  const int nesting = read_autocast_nesting();
  if (nesting > 0 || autocast_nesting_ > 0) {
    at::autocast::clear_cache();  // casts of fakes must not stay
  }
  if (is_current() && nesting == autocast_nesting_) {
    return;
  }
  c10::impl::_force_tls_local_dispatch_key_set(fields_->keys);
  c10::AutogradState::get_tls_state().set_inference_mode(fields_->inference);
  c10::GradMode::set_enabled(fields_->grad);
  for (size_t i = 0; i < fields_->autocast_types.size(); ++i) {
    at::autocast::set_autocast_dtype(at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i], fields_->autocast_types[i]);
  }
  at::autocast::set_autocast_cache_enabled(fields_->autocast_cache);
  while (read_autocast_nesting() > autocast_nesting_) at::autocast::decrement_nesting();
  while (read_autocast_nesting() < autocast_nesting_) at::autocast::increment_nesting();
  c10::set_default_dtype(fields_->dtype);
  at::globalContext().setDeterministicAlgorithms(fields_->deterministic, fields_->deterministic_warn_only);
}

}  // namespace alternator::tensor
