#include "torch/facts.h"

#include "torch/tensor_words.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <sstream>
#include <unordered_set>

namespace alternator::tensor {
namespace {

class StridedFacts : public Facts {
 public:
  explicit StridedFacts(PyObject* tensor) : type_(share(reinterpret_cast<PyObject*>(Py_TYPE(tensor)))) {
    const at::Tensor& value = THPVariable_Unpack(tensor);
    keys_ = value.key_set();
    dtype_ = value.scalar_type();
    device_ = value.device();
    requires_grad_ = value.requires_grad();
    is_leaf_ = value.is_leaf();
    strided_ = value.layout() == at::kStrided;
    if (strided_) {
      sizes_ = value.sizes().vec();
      strides_ = value.strides().vec();
      offset_ = value.storage_offset();
    }
  }

  bool matches(PyObject* tensor) const override {
    if (reinterpret_cast<PyObject*>(Py_TYPE(tensor)) != type_.get()) {
      return false;
    }
    const at::Tensor& value = THPVariable_Unpack(tensor);
    return strided_ && value.key_set() == keys_ && value.scalar_type() == dtype_ && value.device() == device_ &&
           value.requires_grad() == requires_grad_ && value.is_leaf() == is_leaf_ && value.layout() == at::kStrided &&
           value.sizes() == sizes_ && value.strides() == strides_ && value.storage_offset() == offset_;
  }

  bool visit_words(PyObject* tensor, const std::function<void(const void*)>& visit) const override {
    return visit_tensor_words(tensor, visit);
  }

  std::string difference(PyObject* tensor) const override {
    if (reinterpret_cast<PyObject*>(Py_TYPE(tensor)) != type_.get()) {
      return "is now of another class";
    }
    const at::Tensor& value = THPVariable_Unpack(tensor);
    std::ostringstream text;
    if (value.scalar_type() != dtype_) {
      text << "had dtype " << dtype_ << ", has now " << value.scalar_type();
    } else if (value.sizes() != sizes_) {
      text << "had sizes " << c10::IntArrayRef(sizes_) << ", has now " << value.sizes();
    } else if (value.strides() != strides_) {
      text << "had strides " << c10::IntArrayRef(strides_) << ", has now " << value.strides();
    } else if (value.requires_grad() != requires_grad_) {
      text << "had requires_grad=" << (requires_grad_ ? "True" : "False");
    } else {
      text << "changed its device, layout or dispatch keys";
    }
    return text.str();
  }

 private:
  Ref<> type_;
  c10::DispatchKeySet keys_;
  at::ScalarType dtype_;
  at::Device device_{at::kCPU};
  bool requires_grad_, is_leaf_, strided_;
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<Facts> facts_of(PyObject* tensor) { return std::make_unique<StridedFacts>(tensor); }

bool have_distinct_storages(const std::vector<PyObject*>& tensors) {
  std::unordered_set<const void*> seen;
  for (PyObject* tensor : tensors) {
    if (!seen.insert(THPVariable_Unpack(tensor).storage().unsafeGetStorageImpl()).second) {
      return false;
    }
  }
  return true;
}

struct GlobalState::Fields {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  bool grad = c10::GradMode::is_enabled();
  bool inference = c10::InferenceMode::is_enabled();
  bool autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  bool autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  bool autocast_cache = at::autocast::is_autocast_cache_enabled();
  at::ScalarType autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  at::ScalarType autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  caffe2::TypeMeta dtype = c10::get_default_dtype();
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool deterministic_warn_only = at::globalContext().deterministicAlgorithmsWarnOnly();
  int threads = at::get_num_threads();

  bool operator==(const Fields& other) const {
    return keys.included_ == other.keys.included_ && keys.excluded_ == other.keys.excluded_ && grad == other.grad &&
           inference == other.inference && autocast_cpu == other.autocast_cpu && autocast_cuda == other.autocast_cuda &&
           autocast_cache == other.autocast_cache && autocast_cpu_dtype == other.autocast_cpu_dtype &&
           autocast_cuda_dtype == other.autocast_cuda_dtype && dtype == other.dtype &&
           deterministic == other.deterministic && deterministic_warn_only == other.deterministic_warn_only &&
           threads == other.threads;
  }
};

GlobalState::GlobalState() = default;
GlobalState::~GlobalState() = default;
GlobalState::GlobalState(GlobalState&&) noexcept = default;
GlobalState& GlobalState::operator=(GlobalState&&) noexcept = default;

GlobalState GlobalState::capture() {
  GlobalState state;
  state.fields_ = std::make_unique<Fields>();
  return state;
}

bool GlobalState::is_current() const { return fields_ && *fields_ == Fields(); }

void GlobalState::restore() const { c10::GradMode::set_enabled(fields_->grad); }

}  // namespace alternator::tensor
