// Texts that the trace runs (exec, eval), and requests for frames. A text is Python code like any other: the frame that runs it
// is seen when it begins. The function that CPython makes for it, and a dict of globals that the trace made, are fresh.
#include "base/shortage.h"
#include "py/names.h"
#include "record/callable.h"
#include "record/recorder.h"
#include "record/stand_in.h"

namespace alternator::record {

namespace {

bool is_dict_of_module(PyObject* globals) {
  PyObject* const key = py::names.__name__;
  PyObject* name = py::dict_item(globals, key);
  PyObject* module = name != nullptr && PyUnicode_Check(name) ? py::dict_item(PyImport_GetModuleDict(), name) : nullptr;
  return module != nullptr && PyModule_Check(module) && PyModule_GetDict(module) == globals;
}

}  // namespace

// exec(text, globals, locals): the text is relied on. Without the dicts it would run in those of the frame that calls it.
void Recorder::record_executed_text(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* const key = py::names.__builtins__;
  std::optional<py::CallSite> site = call_site();
  bool known = deciding_ && site && site->names == nullptr && (count == 2 || count == 3) &&
               PyUnicode_CheckExact(arguments[0]) && PyDict_CheckExact(arguments[1]) &&
               (count == 2 || PyDict_CheckExact(arguments[2]));
  if (!known) {
    return abort(AbortReason::MustRun, quote_call(callable, arguments, count));
  }
  PyObject* globals = arguments[1];
  if (is_dict_of_module(globals)) {
    globals_node(globals);
  }
  PyObject* builtins = py::dict_item(globals, key);
  if (graph_.is_outside(globals)) {
    if (builtins == nullptr) {
      return abort(AbortReason::MustRun, quote_call(callable, arguments, count));  // it would be written there
    }
    record_item(globals, key, true);
  } else {
    fresh_globals_.emplace(globals, share(globals));
    if (builtins != nullptr && PyDict_CheckExact(builtins) && !graph_.is_outside(builtins) &&
        !is_dict_of_module(builtins)) {
      fresh_globals_.emplace(builtins, share(builtins));
    }
  }
  executed_ = {depth_, globals};
}

// The frame of a text begins: its function was made for it.
void Recorder::meet_executed_text(const py::Frame* frame) {
  if (executed_.depth == 0 || depth_ != executed_.depth + 1 || frame != position_.entry ||
      frame->f_globals != executed_.globals) {
    return;
  }
  executed_ = Executed();
  auto* function = reinterpret_cast<PyObject*>(frame->f_func);
  fresh_functions_.emplace(function, share(function));
}

// sys._getframe(1).f_globals, of a frame that the trace runs. Nothing else of a frame is known.
void Recorder::record_frame_request(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  std::optional<py::CallSite> site = call_site();
  bool plain = deciding_ && site && site->names == nullptr && !site->is_star_call() && count <= 1 &&
               (count == 0 || PyLong_CheckExact(arguments[0]));
  py::Instruction next(position_.instruction);
  while (next.op == py::Op::kKW_NAMES || next.op == py::Op::kPRECALL || next.op == py::Op::kCALL) {
    next = py::Instruction(next.at + 1 + py::cache_units(next.op));
  }
  plain =
      plain && next.op == py::Op::kLOAD_ATTR && PyUnicode_CompareWithASCIIString(name_at(next.oparg), "f_globals") == 0;
  long outwards = plain && count == 1 ? PyLong_AsLong(arguments[0]) : 0;
  forget_error();
  py::Frame* frame = position_.frame;
  for (; plain && outwards > 0 && frame != base_.front(); --outwards) {
    frame = frame->previous;
    plain = frame != nullptr && !is_stand_in(frame->f_globals);
  }
  if (!plain || outwards != 0) {
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  globals_node(frame->f_globals);
}

}  // namespace alternator::record
