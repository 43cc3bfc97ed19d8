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

bool fits_storages(const Region& region) {
  if (!region.distinct_storages) {
    return true;
  }
  const std::vector<PyObject*>& slots = region.checker.slots();
  std::vector<PyObject*> inputs;
  for (int node : region.inputs) {
    inputs.push_back(slots[node]);
  }
  return tensor::have_distinct_storages(inputs);
}

std::string explain(const Region& region, Py_ssize_t failed, py::Frame* frame) {
  return guard::explain(region.guards, failed, frame->localsplus, region.checker.slots());
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

PyObject* Captured::inspect(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames) {
  inspecting_ = true;
  PyObject* result = call(function, arguments, nargsf, kwnames);
  inspecting_ = false;
  return result;
}

PyObject* Captured::inspect_frame(py::Frame* frame) {
  Ref<> answer = steal(PyList_New(0));
  std::vector<std::shared_ptr<Region>> regions = regions_;
  for (const std::shared_ptr<Region>& region : regions) {
    Py_ssize_t failed = region->checker.check(region->guards, frame->localsplus);
    std::vector<PyObject*> slots;
    guard::check(region->guards, frame->localsplus, &slots);
    Ref<> rows = describe_guards(region->guards, &slots);
    Ref<> number = failed >= 0 ? steal(PyLong_FromSsize_t(failed)) : share(Py_None);
    Ref<> row = rows && number ? steal(PyTuple_Pack(2, number.get(), rows.get())) : nullptr;
    if (!answer || !row || PyList_Append(answer.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return answer.release();
}

bool Captured::wants(const py::Frame* frame) const {
  return reinterpret_cast<PyObject*>(frame->f_code) == target_.get();
}

std::shared_ptr<Region> Captured::find(py::Frame* frame) {
  for (size_t i = regions_.size(); i-- > 0;) {
    std::shared_ptr<Region> region = regions_[i];
    std::string miss;
    if (!region->state.is_current()) {
      miss = "the state of torch changed: grad mode, autocast, default dtype or the like";
    } else if (Py_ssize_t failed = region->checker.check(region->guards, frame->localsplus); failed >= 0) {
      // Only the most recent region's reason is of interest; the explanation is not free.
      miss = i + 1 == regions_.size() ? explain(*region, failed, frame) : "";
    } else if (!fits_storages(*region)) {
      miss = "tensors that the graph changes share memory now";
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
  if (inspecting_) {
    inspecting_ = false;
    return inspect_frame(frame);
  }
  std::shared_ptr<Region> region = find(frame);
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
      Py_ssize_t failed = region->checker.check(region->guards, frame->localsplus);
      if (failed >= 0) {
        last_miss_ = explain(*region, failed, frame);
      } else if (fits_storages(*region)) {
        regions_.push_back(region);
        return run_region(*region);
      }
    }
    return run_eagerly(ts, frame,
                       Abort{AbortReason::UnknownRead, "?", "it changed while the graph was compiled: " + last_miss_});
  }
  return run_region(*region);
}

PyObject* Captured::run_eagerly(py::ThreadState* ts, py::Frame* frame, const Abort& abort) {
  const char* kind = fullgraph_ && abort.reason != AbortReason::UserException ? "error" : "eager";
  Ref<> told = steal(PyObject_CallFunction(frontend_.report.get(), "ss", kind, abort.describe().c_str()));
  if (!told) {
    return nullptr;
  }
  gave_up_ = abort.reason != AbortReason::UserException;
  return py::run_in_default_loop(ts, frame, 0);
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
  region->exit_nodes = exits::number_nodes(&region->exit);
  region->inputs = session.inputs();
  region->distinct_storages = session.mutates_inputs();
  region->guards = session.take_guards();
  std::vector<PyObject*> slots;
  if (guard::check(region->guards, frame->localsplus, &slots) >= 0) {
    // The trace's own guards must hold right after it: if not, it read what it had written, by another way.
    *abort = Abort{AbortReason::UnknownRead, "?", "something that the function itself wrote"};
    return nullptr;
  }
  region->graph = session.finish(frontend_.finish.get());
  return region->graph ? region : nullptr;
}

Ref<> describe_guards(const guard::GuardList& list, const std::vector<PyObject*>* slots) {
  // Making the rows may run a garbage collection: what the slots point to is held first.
  std::vector<Ref<>> parents;
  for (int node = 0; node < list.nodes; ++node) {
    PyObject* object = slots != nullptr ? (*slots)[node] : nullptr;
    parents.push_back(share(object != nullptr ? object : Py_None));
  }
  Ref<> rows = steal(PyList_New(0));
  for (const guard::Guard& guard : list.guards) {
    Ref<> row =
        steal(Py_BuildValue("(ssOOns)", guard::kind_name(guard.kind), guard::expect_name(guard.expect),
                            guard.parent >= 0 ? parents[guard.parent].get() : Py_None,
                            guard.key ? guard.key.get() : Py_None, guard.index, guard::describe(list, guard).c_str()));
    if (!rows || !row || PyList_Append(rows.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return rows;
}

namespace {

// Objects of a call, held while the graph runs: another call may change what the region's slots have, and the program may
// drop what they point to.
class HeldObjects {
 public:
  HeldObjects(const Region& region) : count_(region.inputs.size() + region.exit_nodes.size()) {
    if (count_ + 1 > kOnStack) {
      heap_ = std::make_unique<PyObject*[]>(count_ + 1);
    }
    PyObject** objects = data();
    *objects++ = nullptr;  // for PY_VECTORCALL_ARGUMENTS_OFFSET
    const std::vector<PyObject*>& slots = region.checker.slots();
    for (const std::vector<int>* nodes : {&region.inputs, &region.exit_nodes}) {
      for (int node : *nodes) {
        *objects++ = Py_NewRef(slots[node]);
      }
    }
  }
  ~HeldObjects() {
    PyObject** objects = data() + 1;
    for (size_t i = 0; i < count_; ++i) {
      Py_DECREF(objects[i]);
    }
  }
  HeldObjects(const HeldObjects&) = delete;
  HeldObjects& operator=(const HeldObjects&) = delete;

  PyObject** inputs() { return data() + 1; }
  PyObject** of_exit(const Region& region) { return inputs() + region.inputs.size(); }

 private:
  static constexpr size_t kOnStack = 256;
  PyObject** data() { return heap_ ? heap_.get() : stack_; }

  size_t count_;
  PyObject* stack_[kOnStack];
  std::unique_ptr<PyObject*[]> heap_;
};

}  // namespace

PyObject* run_region(const Region& region) {
  HeldObjects held(region);
  Ref<> outputs = steal(PyObject_Vectorcall(region.graph.get(), held.inputs(),
                                            region.inputs.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!outputs) {
    return nullptr;
  }
  return exits::run_exit(region.exit, {held.of_exit(region), {}, outputs.get()}, nullptr).release();
}

}  // namespace alternator::region
