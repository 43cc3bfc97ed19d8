// The module alternator._fakes: fakes from Python.
#include "torch/python_fakes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "base/once.h"
#include "base/phase.h"
#include "torch/fake_kernel.h"
#include "torch/ignored_warnings.h"
#include "torch/python_error.h"

namespace alternator::tensor {

// ---- Errors --------------------------------------------------------------------------------------------------------

void throw_data_dependent(const std::string& message) { throw DataDependent(message); }

PyObject* DataDependent::python_type() { return data_dependent_class(); }

PyObject* data_dependent_class() {
  static constinit Once<PyObject*> type;
  return type.get([] {
    return PyErr_NewExceptionWithDoc("alternator.DataDependent",
                                     "The result depends on the data of a tensor, and a fake has none.",
                                     PyExc_RuntimeError, nullptr);
  });
}

bool is_data_dependent(PyObject* exception) {
  if (PyErr_GivenExceptionMatches(exception, data_dependent_class())) return true;
  if (Py_TYPE(exception) != reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError)) return false;
  py::str text(exception);
  return std::string(text).starts_with(kNoData);
}

namespace {

// ---- Making fakes --------------------------------------------------------------------------------------------------

py::object wrap_fake(PyObject* real, const at::Tensor& fake) {
  // A Parameter's fake is one: `isinstance` and Module.__setattr__ tell them apart from other tensors.
  PyTypeObject* type = Py_TYPE(real);
  if (!THPVariable_CheckTypeExact(type)) {
    throw py::type_error(std::string("no fake can stand for a tensor of the class ") + type->tp_name);
  }
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(fake, type));
}

py::object make_fake_object(FakeMemo& memo, py::handle real) {
  if (!THPVariable_Check(real.ptr())) throw py::type_error("make() takes a tensor");
  return wrap_fake(real.ptr(), memo.make(THPVariable_Unpack(real.ptr())));
}

// The metadata of a tensor as it is now, as a tensor of a Python class.
py::object make_example(py::handle object, py::handle type) {
  if (!THPVariable_Check(object.ptr()) || !PyType_Check(type.ptr()))
    throw py::type_error("make_example(tensor, class)");
  const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
  at::Tensor copy(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false));
  if (tensor.requires_grad()) copy.set_requires_grad(true);
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(copy, reinterpret_cast<PyTypeObject*>(type.ptr())));
}

// Nothing of torch goes to Python's __torch_function__ here.
class FunctionsDisabled {
 public:
  FunctionsDisabled() : state_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~FunctionsDisabled() { at::impl::PythonTorchFunctionTLS::set_disabled_state(state_); }

 private:
  at::impl::TorchFunctionDisabledState state_;
};

py::object call_without_warnings(py::handle function, py::handle args, py::handle kwargs) {
  IgnoredWarnings ignored;
  PyObject* named = kwargs.is_none() || PyDict_GET_SIZE(kwargs.ptr()) == 0 ? nullptr : kwargs.ptr();
  PyObject* result = PyObject_Call(function.ptr(), args.ptr(), named);
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

class PythonMode {
 public:
  PythonMode() = default;
  PythonMode(PythonMode&&) = default;

  // Calls a function of torch in this mode.
  py::object call(py::handle function, py::handle args, py::handle kwargs) {
    Phased fakes(Phase::Fakes);
    FakeMode mode(&memo_);
    FunctionsDisabled disabled;
    return call_without_warnings(function, args, kwargs);
  }

  void enter() { mode_.emplace_back(std::make_unique<FakeMode>(&memo_)); }
  void exit() { mode_.pop_back(); }
  FakeMemo& memo() { return memo_; }

 private:
  FakeMemo memo_;
  std::vector<std::unique_ptr<FakeMode>> mode_;
};

// Storages are remembered: two tensors made one after the other must share what they share. The tensors are not, since
// a test may change a fake and ask for a fresh one.
py::object make_with_shared_storages(py::handle real) {
  static constinit Once<std::shared_ptr<StorageMemo>*> storages;
  FakeMemo memo(*storages.get([] { return new std::shared_ptr<StorageMemo>(std::make_shared<StorageMemo>()); }));
  return make_fake_object(memo, real);
}

py::dict describe_cache() {
  PlanCache::Counts counts = plan_cache().counts();
  py::dict info;
  info["hits"] = counts.hits;
  info["misses"] = counts.misses;
  info["uncached"] = counts.uncached;
  info["entries"] = counts.entries;
  info["via_torch"] = count_torch_plans();
  return info;
}

void bind(py::module_& module) {
  module.attr("DataDependent") = py::reinterpret_borrow<py::object>(data_dependent_class());
  module.def("make", &make_with_shared_storages);
  module.def("is_fake", [](py::handle object) {
    return THPVariable_Check(object.ptr()) && is_fake(THPVariable_Unpack(object.ptr()));
  });
  module.def("is_data_dependent", [](py::handle error) { return is_data_dependent(error.ptr()); });
  module.def("make_example", &make_example);
  module.def("cache_info", &describe_cache);
  module.def("clear_cache", [] { plan_cache().clear(); });
  module.def("set_comparison", &set_comparison);
  module.def("take_differences", &take_differences);
  module.def("route", &name_route);
  module.def("call_without_warnings", &call_without_warnings);
  module.def("count_warnings", &IgnoredWarnings::count);
  py::class_<PythonMode>(module, "FakeMode")
      .def(py::init<>())
      .def("__enter__",
           [](py::object self) {
             self.cast<PythonMode&>().enter();
             return self;
           })
      .def("__exit__", [](PythonMode& mode, py::args) { mode.exit(); })
      .def("call", &PythonMode::call)
      .def("make", [](PythonMode& mode, py::handle real) { return make_fake_object(mode.memo(), real); });
}

}  // namespace

namespace {

template <class Function>
PyObject* without_exceptions(Function function) {
  try {
    return function().release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace

PyObject* call_on_fakes(PyObject* mode, PyObject* function, PyObject* args, PyObject* kwargs) {
  return without_exceptions(
      [&] { return py::handle(mode).cast<PythonMode&>().call(function, args, kwargs ? kwargs : Py_None); });
}

PyObject* make_example_of(PyObject* tensor, PyObject* type) {
  return without_exceptions([&] { return make_example(tensor, type); });
}

bool is_ordinary_result(PyObject* object) {
  if (!Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(THPVariableClass))) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  bool leaf = tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view();
  return (is_fake(tensor) || tensor.is_meta()) && !leaf;
}

PyObject* make_fakes_module() {
  static PyModuleDef definition;
  try {
    py::module_ module =
        py::module_::create_extension_module("alternator._fakes", "Fake tensors: metadata without data.", &definition);
    bind(module);
    if (!IgnoredWarnings::prepare()) throw py::error_already_set();
    return module.release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

}  // namespace alternator::tensor
