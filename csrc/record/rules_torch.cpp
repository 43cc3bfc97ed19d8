// Calls that set torch's state: grad mode's relatives autocast, inference mode, default dtype. They do not pass through
// torch's dispatch of overridable functions, so the tracer is told of them here.
#include "base/shortage.h"
#include "interp/hook.h"
#include "py/names.h"
#include "record/recorder.h"

namespace alternator::record {

namespace {

std::string take_error_text() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<> kept[] = {steal(type), steal(value), steal(traceback)};
  Ref<> text = steal(value ? PyObject_Str(value) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  forget_error();
  return utf8 ? utf8 : "?";
}

}  // namespace

namespace {

// Not an object with methods of its own that torch or a builtin function might run.
bool brings_no_code(PyObject* object, int depth) {
  source::Sort sort = source::sort_of(object);
  if (sort == source::Sort::Primitive || sort == source::Sort::Tensor) {
    return true;
  }
  if (depth > 2) {
    return false;
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return brings_no_code(slice->start, depth + 1) && brings_no_code(slice->stop, depth + 1) &&
           brings_no_code(slice->step, depth + 1);
  }
  bool list = PyList_CheckExact(object);
  if (!list && (!PyTuple_Check(object) || PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE))) {
    return false;
  }
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
    if (!brings_no_code(list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i), depth + 1)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool Recorder::is_tensor_operation(PyObject* const* operands, Py_ssize_t count) {
  bool tensor = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    tensor = tensor || source::is_tensor(operands[i]);
  }
  for (Py_ssize_t i = 0; tensor && i < count; ++i) {
    tensor = brings_no_code(operands[i], 0);
  }
  return tensor;
}

bool Recorder::tell_tracer(PyObject* function, PyObject* args, PyObject* kwargs) {
  ++torch_steps_;
  interp::Unobserved native;
  Ref<> told = steal(PyObject_CallMethod(tracer_, "note", "OOO", function, args, kwargs));
  if (!told) {
    abort(AbortReason::UnsupportedTorch, take_error_text());
  }
  return static_cast<bool>(told);
}

bool Recorder::record_tensor_assert() {
  const py::CodeUnit* at = position_.instruction + 1;
  if (py::canonical(*at) != py::Op::kLOAD_ASSERTION_ERROR) {
    return false;
  }
  Ref<> message = steal(PyUnicode_FromString("assertion error"));
  if (py::canonical(at[1]) == py::Op::kLOAD_CONST && py::canonical(at[2]) == py::Op::kPRECALL) {
    PyObject* constant = PyTuple_GET_ITEM(position_.frame->f_code->co_consts, py::oparg_of(at[1]));
    message = PyUnicode_Check(constant) ? share(constant) : std::move(message);
  }
  Ref<> module = steal(PyImport_ImportModule("torch"));
  Ref<> function = module ? steal(PyObject_GetAttrString(module.get(), "_assert_async")) : nullptr;
  Ref<> done = function && message
                   ? steal(PyObject_CallFunctionObjArgs(function.get(), peek(1), message.get(), nullptr))
                   : nullptr;
  if (!done) {
    forget_error();
    return ended_;
  }
  // The program goes on as if it held.
  Py_SETREF(position_.stack_top[-1], Py_NewRef(Py_True));
  opaque_ = false;
  return true;
}

void Recorder::record_state_call(PyObject* callable) {
  Ref<> call = describe_call(callable);
  if (!call || call.get() == Py_None) {
    forget_error();
    return abort(AbortReason::UnknownCall, "a setter of torch's state, in a roundabout way");
  }
  tell_tracer(callable, PyTuple_GET_ITEM(call.get(), 1), PyTuple_GET_ITEM(call.get(), 2));
}

void Recorder::record_scope_start(PyObject* function) {
  py::Frame* frame = position_.frame;
  Ref<> args = steal(PyTuple_New(frame->f_code->co_argcount));
  for (int i = 0; args && i < frame->f_code->co_argcount; ++i) {
    PyTuple_SET_ITEM(args.get(), i, Py_NewRef(frame->localsplus[i]));
  }
  if (args) {
    tell_tracer(function, args.get(), Py_None);
  }
}

void Recorder::record_context_enter(PyObject* manager) {
  PyObject* const name = py::names.__enter__;
  PyObject* enter = _PyType_Lookup(Py_TYPE(manager), name);
  if (enter == nullptr || recorder_of(enter) != RecordedBy::State) {
    return;
  }
  Ref<> args = steal(PyTuple_Pack(1, manager));
  if (graph_.is_outside(manager)) {
    return abort(AbortReason::UnsupportedTorch, "a scope of torch's state that was made outside");
  }
  if (args && tell_tracer(enter, args.get(), Py_None)) {
    opaque_ = true;
  }
}

void Recorder::record_context_exit(PyObject* exit) {
  PyObject* function = PyMethod_Check(exit) ? PyMethod_GET_FUNCTION(exit) : exit;
  if (recorder_of(function) == RecordedBy::State) {
    abort(AbortReason::UnsupportedTorch, "an exception leaves a scope of torch's state");
  }
}

// What is in *args of a module's call has no name of its own: it takes that of the parameter of `forward`.
void Recorder::name_arguments() {
  PyCodeObject* code = position_.frame->f_code;
  const FrameSlots& outermost = start_->frames().front();
  if (arguments_named_ || reinterpret_cast<PyObject*>(outermost.code) != module_call || outermost.offset != 0 ||
      code->co_filename == outermost.code->co_filename) {
    return;
  }
  arguments_named_ = true;
  for (int i = 0; i < code->co_argcount + code->co_kwonlyargcount; ++i) {
    PyObject* value = position_.frame->localsplus[i];
    int node = value != nullptr ? graph_.node_of(value) : -1;
    if (node < 0) {
      continue;
    }
    const std::string& name = graph_.name_of(node);
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, i));
    if (text != nullptr && (name.starts_with("L['args'][") || name.starts_with("L['kwargs']["))) {
      graph_.rename(node, "L['" + std::string(text) + "']");
    }
  }
}

}  // namespace alternator::record
