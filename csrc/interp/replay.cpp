#include "interp/replay.h"

#include <optional>
#include <utility>
#include <vector>

#include "interp/hook.h"
#include "interp/snapshot.h"

namespace alternator::interp {
namespace {

// The function whose frame a call of `callable` runs first, with no C code in between; null if there is none.
PyObject* find_first_function(PyObject* callable) {
  if (PyMethod_Check(callable)) {
    callable = PyMethod_GET_FUNCTION(callable);
  }
  return PyFunction_Check(callable) ? callable : nullptr;
}

class Replayer : public Observer {
 public:
  Replayer(PyObject* callable, uint64_t start, uint64_t every, ReplayReport* report)
      : next_(start), every_(every), report_(report), function_(share(find_first_function(callable))) {}

  void enter(py::Frame* entry) override {
    callees_.push_back(nullptr);
    if (callees_.size() == 1 && !finished_) {
      // After a re-creation the entry frame is still that of the carrier, which restore_entry() changes.
      in_base_ = resumed_ || reinterpret_cast<PyObject*>(entry->f_func) == function_.get();
    }
  }

  void leave() override {
    callees_.pop_back();
    if (callees_.empty() && in_base_) {
      in_base_ = false;
      finished_ = !taken_.has_value();  // finalisers may follow, which are C code's doing
    }
  }

  Verdict before_instruction(const Position& position) override {
    callees_.back() = name_c_callee(position);
    if (resumed_) {
      resumed_ = false;  // the instruction at which it was taken away: seen already
      return Verdict::Go;
    }
    uint64_t number = report_->instructions++;
    if (number < next_ || done_) {
      return Verdict::Go;
    }
    next_ = number + every_;
    done_ = every_ == 0;
    if (callees_.size() > 1 || !in_base_) {
      const char* caller = callees_.size() > 1 ? callees_[callees_.size() - 2] : nullptr;
      report_->refused.push_back(refuse_snapshot(position, caller).describe());
      return Verdict::Go;
    }
    taken_ = take_snapshot(position);
    return Verdict::Abandon;
  }

  bool was_abandoned() const { return taken_.has_value(); }
  // The state that the run was abandoned in.
  StackState take() {
    resumed_ = true;
    return *std::exchange(taken_, std::nullopt);
  }

 private:
  uint64_t next_;
  uint64_t every_;
  ReplayReport* report_;
  Ref<> function_;
  std::optional<StackState> taken_;
  bool resumed_ = false;
  bool done_ = false;
  std::vector<const char*> callees_;  // what the activations of the loop are calling, outermost first
  bool in_base_ = false;              // the outermost one is the call of the function itself
  bool finished_ = false;             // it has returned
};

}  // namespace

Ref<> replay(PyObject* callable, PyObject* args, PyObject* kwargs, uint64_t start, uint64_t every,
             ReplayReport* report) {
  Replayer replayer(callable, start, every, report);
  Interpreting interpreting(&replayer);
  Ref<> result = steal(PyObject_Call(callable, args, kwargs));
  while (replayer.was_abandoned()) {
    PyErr_Clear();  // the mark of the abandoned run
    ++report->recreated;
    result = recreate(replayer.take());
  }
  return result;
}

}  // namespace alternator::interp
