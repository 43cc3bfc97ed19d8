#include "region/region.h"

#include "interp/evaluate.h"
#include "record/session.h"

namespace alternator::region {
namespace {

// The locals of a frame that has not begun, to be put back after the frame was used for a trace.
class FrameBackup {
 public:
  explicit FrameBackup(py::Frame* frame) : frame_(frame) {
    for (int i = 0; i < frame->stacktop; ++i) {
      locals_.push_back(share(frame->localsplus[i]));
    }
  }
  void restore() {
    for (int i = 0; i < frame_->stacktop; ++i) {
      Py_CLEAR(frame_->localsplus[i]);
    }
    for (size_t i = 0; i < locals_.size(); ++i) {
      frame_->localsplus[i] = locals_[i].release();
    }
    frame_->stacktop = static_cast<int>(locals_.size());
    frame_->prev_instr = py::first_instruction(frame_->f_code) - 1;
  }

 private:
  py::Frame* frame_;
  std::vector<Ref<>> locals_;
};

std::vector<int> group_inputs(const Region& region, const std::vector<PyObject*>& slots) {
  std::vector<PyObject*> inputs;
  for (int node : region.inputs) {
    inputs.push_back(slots[node]);
  }
  return tensor::group_by_storage(inputs);
}

bool fits_storages(const Region& region, const std::vector<PyObject*>& slots) {
  return region.storages.empty() || region.storages == group_inputs(region, slots);
}

PyObject* code_of(PyObject* function) {
  if (PyMethod_Check(function)) {
    function = PyMethod_GET_FUNCTION(function);
  }
  return PyFunction_Check(function) ? PyFunction_GET_CODE(function) : nullptr;
}

}  // namespace

PyObject* Captured::call(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames) {
  PyObject* code = code_of(function);
  if (code == nullptr || (reinterpret_cast<PyCodeObject*>(code)->co_flags & py::kGeneratorFlags)) {
    return PyObject_Vectorcall(function, arguments, nargsf, kwnames);
  }
  target_ = share(code);
  interp::acquire_hook();
  interp::FrameTaker* outer = std::exchange(interp::thread_mode.taker, this);
  PyObject* result = PyObject_Vectorcall(function, arguments, nargsf, kwnames);
  interp::thread_mode.taker = outer;
  interp::release_hook();
  return result;
}

bool Captured::wants(const py::Frame* frame) const {
  return reinterpret_cast<PyObject*>(frame->f_code) == target_.get();
}

std::shared_ptr<Region> Captured::find(py::Frame* frame, std::vector<PyObject*>* slots) {
  for (size_t i = regions_.size(); i-- > 0;) {
    std::shared_ptr<Region> region = regions_[i];
    std::string miss;
    if (!region->state.is_current()) {
      miss = "the state of torch changed: grad mode, autocast, default dtype or the like";
    } else if (Py_ssize_t failed = guard::check(region->guards, frame->localsplus, slots); failed >= 0) {
      // Only the most recent region's reason is of interest; the explanation is not free.
      miss = i + 1 == regions_.size() ? guard::explain(region->guards, failed, frame->localsplus, *slots) : "";
    } else if (!fits_storages(*region, *slots)) {
      miss = "tensors of a graph that changes some of them share memory in another way";
    } else {
      return region;
    }
    if (i + 1 == regions_.size()) {
      last_miss_ = std::move(miss);
    }
  }
  return nullptr;
}

PyObject* Captured::take(py::ThreadState* ts, py::Frame* frame) noexcept {
  interp::Unobserved native;
  if (tensor::has_modes()) {
    return py::run_in_default_loop(ts, frame, 0);  // the user's own modes see every call
  }
  std::vector<PyObject*> slots;
  std::shared_ptr<Region> region = find(frame, &slots);
  if (region == nullptr) {
    if (gave_up_) {
      return py::run_in_default_loop(ts, frame, 0);
    }
    if (regions_.size() >= static_cast<size_t>(limit_)) {
      gave_up_ = true;
      Ref<> told = steal(PyObject_CallFunction(frontend_.report.get(), "ss", "limit", last_miss_.c_str()));
      return told ? py::run_in_default_loop(ts, frame, 0) : nullptr;
    }
    if (!regions_.empty()) {
      Ref<> told = steal(PyObject_CallFunction(frontend_.report.get(), "ss", "recompile", last_miss_.c_str()));
      if (!told) {
        return nullptr;
      }
    }
    // A backend that is used for the first time may import and patch things that the trace read: then again.
    for (int attempt = 0; attempt < 4; ++attempt) {
      std::optional<Abort> abort;
      region = trace(ts, frame, &abort);
      if (region == nullptr) {
        return abort ? run_eagerly(ts, frame, *abort) : nullptr;
      }
      Py_ssize_t failed = guard::check(region->guards, frame->localsplus, &slots);
      if (failed >= 0) {
        last_miss_ = guard::explain(region->guards, failed, frame->localsplus, slots);
      } else if (fits_storages(*region, slots)) {
        regions_.push_back(region);
        return run_region(*region, slots);
      }
    }
    return run_eagerly(ts, frame,
                       Abort{AbortReason::UnknownRead, "?", "it changed while the graph was compiled: " + last_miss_});
  }
  return run_region(*region, slots);
}

PyObject* Captured::run_eagerly(py::ThreadState* ts, py::Frame* frame, const Abort& abort) {
  Ref<> result;
  if (abort.reason == AbortReason::TorchException) {
    // Most likely the program's own mistake, and then eager execution raises the genuine exception.
    result = steal(py::run_in_default_loop(ts, frame, 0));
    if (!result) {
      return nullptr;
    }
  }
  const char* kind = fullgraph_ && abort.reason != AbortReason::UserException ? "error" : "eager";
  Ref<> told = steal(PyObject_CallFunction(frontend_.report.get(), "ss", kind, abort.describe().c_str()));
  if (!told) {
    return nullptr;
  }
  gave_up_ = abort.reason != AbortReason::UserException;
  return result ? result.release() : py::run_in_default_loop(ts, frame, 0);
}

std::shared_ptr<Region> Captured::trace(py::ThreadState* ts, py::Frame* frame, std::optional<Abort>* abort) {
  auto region = std::make_shared<Region>();
  region->state = tensor::GlobalState::capture();
  FrameBackup backup(frame);
  record::Session session(frontend_.begin.get(), frame->f_code);
  bool began = session.run(ts, frame);
  region->state.restore();
  backup.restore();
  if (!began) {
    return nullptr;
  }
  std::optional<exits::ExitProgram> exit = session.take_exit();
  if (!exit) {
    *abort = session.aborted();
    return nullptr;
  }
  region->exit = std::move(*exit);
  region->inputs = session.inputs();
  region->guards = session.take_guards();
  std::vector<PyObject*> slots;
  if (guard::check(region->guards, frame->localsplus, &slots) >= 0) {
    // The trace's own guards must hold right after it: if not, it read what it had written, by another way.
    *abort = Abort{AbortReason::UnknownRead, "?", "something that the function itself wrote"};
    return nullptr;
  }
  if (session.mutates_inputs()) {
    region->storages = group_inputs(*region, slots);
  }
  region->graph = session.finish(frontend_.finish.get());
  if (region->graph && PyUnicode_Check(region->graph.get())) {
    const char* text = PyUnicode_AsUTF8(region->graph.get());
    *abort = Abort{AbortReason::BackendFailed, "?", text ? text : ""};
    return nullptr;
  }
  return region->graph ? region : nullptr;
}

PyObject* run_region(const Region& region, const std::vector<PyObject*>& slots) {
  std::vector<PyObject*> inputs;
  inputs.reserve(region.inputs.size() + 1);
  inputs.push_back(nullptr);
  for (int node : region.inputs) {
    inputs.push_back(slots[node]);
  }
  Ref<> outputs = steal(PyObject_Vectorcall(region.graph.get(), inputs.data() + 1,
                                            region.inputs.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!outputs) {
    // A graph that fails in the middle leaves scopes of torch's state open, which `with` would have closed.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    region.state.restore();
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  return exits::run_exit(region.exit, slots, outputs.get()).release();
}

}  // namespace alternator::region
