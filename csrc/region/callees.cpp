#include "region/callees.h"

#include <cstring>

#include "py/members.h"
#include "py/names.h"
#include "record/contract.h"
#include "region/call.h"

namespace alternator::region {
namespace {

PyObject* function_of(const py::Frame* frame) { return reinterpret_cast<PyObject*>(frame->f_func); }

// The code of the function that a wrapper of torch.compiler.disable(recursive=False) calls.
const void* code_inside(PyObject* wrapper) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(wrapper)->func_dict;
  PyObject* function = attributes ? py::dict_item(attributes, py::names._torchdynamo_orig_callable) : nullptr;
  if (function != nullptr && PyMethod_Check(function)) {
    function = PyMethod_GET_FUNCTION(function);
  }
  return function != nullptr && PyFunction_Check(function) ? PyFunction_GET_CODE(function) : nullptr;
}

// Torch's own code, and ours: what it calls is the program's again.
bool is_of_framework(const py::Frame* frame) {
  PyObject* name = PyDict_Check(frame->f_globals) ? py::dict_item(frame->f_globals, py::names.__name__) : nullptr;
  const char* text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : "";
  for (const char* module : {"torch", "alternator"}) {
    size_t length = std::strlen(module);
    if (text != nullptr && std::strncmp(text, module, length) == 0 && (text[length] == '.' || text[length] == 0)) {
      return true;
    }
  }
  return false;
}

// A call of a function: no body of a class or module, and nothing that is resumed.
bool is_call(const py::Frame* frame) {
  int flags = frame->f_code->co_flags;
  return (flags & CO_OPTIMIZED) && !(flags & py::kGeneratorFlags) && frame->f_func != nullptr &&
         PyFunction_Check(function_of(frame));
}

}  // namespace

bool Captured::Callees::is_skipped(const py::Frame* frame) const {
  PyObject* function = function_of(frame);
  return frame->f_code == inside_ || owner_->skipped_.count(frame->f_code) > 0 ||
         (record::is_disabled(function) && !record::is_disabled_with_callees(function));
}

bool Captured::Callees::wants(const py::Frame* frame) const {
  if (!is_call(frame)) {
    return false;
  }
  PyObject* function = function_of(frame);
  if (which_ == Which::Skipped || is_skipped(frame)) {
    return is_skipped(frame);
  }
  return record::is_disabled(function) || !is_of_framework(frame);
}

PyObject* Captured::Callees::take(py::ThreadState* ts, py::Frame* frame) {
  PyObject* function = function_of(frame);
  PyObject* result;
  if (is_skipped(frame)) {
    result = run(owner_, ts, frame, record::is_disabled(function) ? code_inside(function) : nullptr);
  } else if (record::is_disabled(function) || record::is_of_real_module(function) ||
             record::contract_of(function) != nullptr) {
    result = py::run_in_default_loop(ts, frame, 0);
  } else {
    Call call(owner_, Inspection::No, reinterpret_cast<PyObject*>(frame->f_code));
    result = owner_->take(&call, ts, frame);
  }
  interp::thread_mode.taker = this;  // the hook gives it up before it calls
  return result;
}

PyObject* Captured::Callees::run(Captured* owner, py::ThreadState* ts, py::Frame* frame, const void* inside) {
  interp::Unobserved native;
  Callees callees(owner, Which::All, inside);
  interp::thread_mode.taker = &callees;
  return py::run_in_default_loop(ts, frame, 0);
}

PyObject* Captured::run_natively(py::ThreadState* ts, py::Frame* frame) {
  return skipped_.count(frame->f_code) > 0 ? Callees::run(this, ts, frame) : py::run_in_default_loop(ts, frame, 0);
}

}  // namespace alternator::region
