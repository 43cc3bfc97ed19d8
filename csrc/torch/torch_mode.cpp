// Torch's own fakes: operators that have no kernel we could run go through FakeTensorMode, in Python.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/once.h"
#include "base/ref.h"
#include "torch/operator_info.h"
#include "torch/python_error.h"
#include "torch/shadow.h"

namespace alternator::tensor {
namespace {

// FakeTensorMode and its class. Never freed: it is used from any thread until the process ends.
struct TorchMode {
  py::object fake_class;
  py::object mode;
  py::object
      leave;  // its __exit__, and what that is called with: made beforehand, there may be no memory where it is left
  py::tuple nothing;
  py::tuple data_errors;

  TorchMode() {
    py::module_ module = py::module_::import("torch._subclasses.fake_tensor");
    fake_class = module.attr("FakeTensor");
    mode = module.attr("FakeTensorMode")(py::arg("allow_non_fake_inputs") = true);
    leave = mode.attr("__exit__");
    nothing = py::make_tuple(py::none(), py::none(), py::none());
    data_errors =
        py::make_tuple(module.attr("DataDependentOutputException"), module.attr("DynamicOutputShapeException"));
  }

  static TorchMode& get() {
    static constinit Once<TorchMode*> mode;
    return *mode.get([] { return new TorchMode(); });
  }
};

class EnterMode {
 public:
  explicit EnterMode(TorchMode& torch) : torch_(torch) { torch_.mode.attr("__enter__")(); }
  ~EnterMode() {
    // An error on its way out must survive the Python call.
    py::error_scope keep;
    Ref<> left = steal(PyObject_Call(torch_.leave.ptr(), torch_.nothing.ptr(), nullptr));
    if (!left) {
      PyErr_WriteUnraisable(torch_.leave.ptr());
    }
  }

 private:
  TorchMode& torch_;
};

}  // namespace

at::Tensor make_torch_fake(const at::Tensor& meta, c10::Device device) {
  py::gil_scoped_acquire gil;
  TorchMode& torch = TorchMode::get();
  py::object wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(meta));
  return THPVariable_Unpack(torch.fake_class(torch.mode, wrapped, py::cast(device)).ptr());
}

void call_in_torch_mode(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  py::gil_scoped_acquire gil;
  TorchMode& torch = TorchMode::get();
  EnterMode entered(torch);
  try {
    op.callBoxed(&stack);
  } catch (python_error& error) {
    // It may leave the error where Python keeps it; leaving the mode runs Python code.
    error.persist();
    if (PyErr_GivenExceptionMatches(error.type, torch.data_errors.ptr())) {
      throw DataDependent(std::string(kNoData) + ": " + name_operator(op.schema()) + " needs it");
    }
    throw;
  }
}

}  // namespace alternator::tensor
