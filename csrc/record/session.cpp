#include "record/session.h"

#include <utility>

#include "interp/evaluate.h"
#include "interp/hook.h"
#include "torch/facts.h"

namespace alternator::record {
namespace {

thread_local Session* current_session = nullptr;
PyTypeObject* mode_type = nullptr;

struct Mode {
  PyObject_HEAD PyObject* tracer;
};

// Torch calls this for every overridable function while the mode is on its stack.
PyObject* torch_function(PyObject* self, PyObject* args, PyObject* kwargs) {
  interp::Unobserved native;
  Ref<> record = steal(PyObject_GetAttrString(reinterpret_cast<Mode*>(self)->tracer, "record"));
  Ref<> result = record ? steal(PyObject_Call(record.get(), args, kwargs)) : nullptr;
  Session* session = current_session;
  if (!result && session != nullptr && !session->recorder().aborted()) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Ref<> text = steal(value ? PyObject_Str(value) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    session->recorder().abort(AbortReason::UnsupportedTorch, utf8 ? utf8 : "an error in torch");
    PyErr_Restore(type, value, traceback);
  }
  return result.release();
}

void destroy_mode(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Mode*>(self)->tracer);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef mode_methods[] = {
    {"__torch_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(torch_function)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot mode_slots[] = {
    {Py_tp_methods, mode_methods},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy_mode)},
    {0, nullptr},
};
PyType_Spec mode_spec = {"alternator._capture.Mode", sizeof(Mode), 0, Py_TPFLAGS_DEFAULT, mode_slots};

Ref<> torch_c_function(const char* name) {
  Ref<> module = steal(PyImport_ImportModule("torch._C"));
  return module ? steal(PyObject_GetAttrString(module.get(), name)) : nullptr;
}

}  // namespace

bool add_mode_type(PyObject* module) {
  mode_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&mode_spec));
  return mode_type != nullptr && PyModule_AddObjectRef(module, "Mode", reinterpret_cast<PyObject*>(mode_type)) == 0;
}

Session* Session::current() { return current_session; }

bool Session::run(py::ThreadState* ts, py::Frame* frame) {
  tracer_ = steal(PyObject_CallNoArgs(begin_.get()));
  Ref<> push = torch_c_function("_push_on_torch_function_stack");
  Ref<> pop = torch_c_function("_pop_torch_function_stack");
  Ref<> mode = steal(mode_type->tp_alloc(mode_type, 0));
  if (!tracer_ || !push || !pop || !mode) {
    return false;
  }
  reinterpret_cast<Mode*>(mode.get())->tracer = Py_NewRef(tracer_.get());
  recorder_.set_tracer(tracer_.get());
  Ref<> pushed = steal(PyObject_CallOneArg(push.get(), mode.get()));
  if (!pushed) {
    return false;
  }
  Session* outer = std::exchange(current_session, this);
  // A collection would run finalisers of the program's objects in the middle of the trace.
  bool collects = PyGC_Disable();
  {
    interp::Interpreting interpreting(&recorder_);
    Ref<> result = steal(interp::evaluate_observed(ts, frame, 0, &recorder_, nullptr));
  }
  if (!recorder_.aborted() && recorder_.result() == nullptr) {
    recorder_.abort(AbortReason::UserException, "");
  }
  if (collects) {
    PyGC_Enable();
  }
  PyErr_Clear();  // the mark of the abandoned run, or the program's own exception, which eager execution will raise again
  exit_ = write_exit();
  recorder_.journal().roll_back();
  Ref<> popped = steal(PyObject_CallNoArgs(pop.get()));
  Ref<> ended = steal(PyObject_CallMethod(tracer_.get(), "end", nullptr));
  current_session = outer;
  return popped && ended;
}

std::optional<exits::ExitProgram> Session::write_exit() {
  if (recorder_.aborted()) {
    return std::nullopt;
  }
  auto output_of = [&](PyObject* tensor) {
    Ref<> index = steal(PyObject_CallMethod(tracer_.get(), "output_of", "O", tensor));
    long value = index ? PyLong_AsLong(index.get()) : -1;
    PyErr_Clear();
    return static_cast<int>(value);
  };
  exits::ExitWriter writer([&](PyObject* object) { return recorder_.graph().node_of(object); }, output_of);
  std::optional<exits::ExitProgram> program = writer.write(recorder_.result(), recorder_.journal());
  if (!program) {
    abort_ = Abort{AbortReason::UnsupportedResult, recorder_.place(), writer.reason()};
    return std::nullopt;
  }
  for (const journal::Place& place : recorder_.journal().places()) {
    recorder_.graph().read_distinct_from_all(place.owner.get());
  }
  return program;
}

bool Session::mutates_inputs() const {
  Ref<> answer = steal(PyObject_CallMethod(tracer_.get(), "mutates_inputs", nullptr));
  PyErr_Clear();
  return !answer || answer.get() == Py_True;
}

Ref<> Session::finish(PyObject* finish) { return steal(PyObject_CallOneArg(finish, tracer_.get())); }

const std::string* Session::watch(PyObject* tensor) {
  int node = recorder_.graph().node_of(tensor);
  if (node < 0) {
    return nullptr;
  }
  recorder_.graph().read_tensor(node, tensor::facts_of(tensor));
  return &recorder_.graph().name_of(node);
}

bool Session::add_input(PyObject* tensor) {
  int node = recorder_.graph().node_of(tensor);
  if (node >= 0) {
    inputs_.push_back(node);
  }
  return node >= 0;
}

}  // namespace alternator::record
