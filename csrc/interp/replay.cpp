#include "interp/replay.h"

#include <utility>

#include "interp/hook.h"
#include "interp/snapshot.h"

namespace alternator::interp {
namespace {

class Replayer : public Observer {
 public:
  Replayer(uint64_t start, uint64_t every, ReplayReport* report)
      : next_(start), every_(every), report_(report), outer_(py::current_frame(py::current_thread())) {}

  Verdict before_instruction(const Position& position) override {
    if (resumed_) {
      resumed_ = false;  // the instruction at which it was taken away: seen already
      return Verdict::Go;
    }
    uint64_t number = report_->instructions++;
    if (number < next_ || done_) {
      return Verdict::Go;
    }
    next_ = number + every_;
    if (std::optional<Abort> abort = check_snapshot(position, outer_)) {
      report_->refused.push_back(abort->describe());
      return Verdict::Go;
    }
    done_ = every_ == 0;
    taken_ = take_snapshot(position);
    return Verdict::Abandon;
  }

  // The state that the run was abandoned in, if it was.
  std::optional<StackState> take() {
    resumed_ = taken_.has_value();
    return std::exchange(taken_, std::nullopt);
  }

 private:
  uint64_t next_;
  uint64_t every_;
  ReplayReport* report_;
  const py::Frame* outer_;
  std::optional<StackState> taken_;
  bool resumed_ = false;
  bool done_ = false;
};

}  // namespace

Ref<> replay(PyObject* callable, PyObject* args, PyObject* kwargs, uint64_t start, uint64_t every,
             ReplayReport* report) {
  Replayer replayer(start, every, report);
  Interpreting interpreting(&replayer);
  Ref<> result = steal(PyObject_Call(callable, args, kwargs));
  while (std::optional<StackState> state = replayer.take()) {
    PyErr_Clear();  // the mark of the abandoned run
    ++report->recreated;
    result = recreate(std::move(*state));
  }
  return result;
}

}  // namespace alternator::interp
