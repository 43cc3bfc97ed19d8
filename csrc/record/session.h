// One trace: the recorder, torch's function mode that sends torch's calls to the Python tracer, and what comes out of it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exit/writer.h"
#include "guard/conditions.h"
#include "record/recorder.h"
#include "torch/write_log.h"

namespace alternator::record {

class Session {
 public:
  // `begin()` makes the tracer (alternator/recording.py): record(func, types, args, kwargs), output_of(tensor).
  Session(PyObject* begin, const interp::StackState& state, std::optional<Recorder::Stop> stop)
      : begin_(share(begin)), start_(state), recorder_(&start_, std::move(stop)) {}

  // Runs the frames observed. False if the trace could not even begin: with an exception set, or begin() gave None.
  bool run();
  // Torch, or the program's code that torch called, raised the exception that is set: the trace ends.
  void end_by_exception();
  // What the region leaves; empty if a value cannot be rebuilt (aborted() says why), or if the trace is to be made again.
  std::optional<exits::ExitProgram> take_exit() { return std::move(exit_); }
  // What the trace left where it ended cannot be rebuilt; it may be so further in front.
  bool is_unwritable() const { return unwritable_; }
  // The trace has to be made again, up to this instruction.
  std::optional<Recorder::Stop> again() const;
  // Whether torch was called at all.
  bool has_operations() const { return has_operations_; }
  const std::optional<Abort>& aborted() const { return abort_ ? abort_ : recorder_.aborted(); }
  // Dimensions of tensors, by name, that had other sizes in earlier calls.
  void set_moving_sizes(const std::map<std::string, std::set<int>>* sizes) { moving_sizes_ = sizes; }
  const std::set<int>* moving_sizes(const std::string& name) const {
    auto found = moving_sizes_->find(name);
    return found != moving_sizes_->end() ? &found->second : nullptr;
  }
  // There are to be no symbols.
  void set_static(bool is_static, bool has_fixed_floats) {
    is_static_ = is_static;
    has_fixed_floats_ = is_static || has_fixed_floats;
  }
  bool is_static() const { return is_static_; }
  // .. or at least none for floats.
  bool has_fixed_floats() const { return has_fixed_floats_; }
  // The trace had some.
  bool has_floats() const;
  // finish(tracer) -> the callable for the graph. Null with an exception set.
  Ref<> finish(PyObject* finish);
  // Where there is no graph: False if the trace has to be made again without symbols. Null with an exception set.
  Ref<> conclude() { return steal(PyObject_CallMethod(tracer_.get(), "conclude", nullptr)); }

  const std::vector<int>& inputs() const { return inputs_; }
  // Which of the inputs share memory, if the graph changes any of them; empty if not.
  const std::vector<int>& storages() const { return storages_; }
  // The program may run for real when the graph failed in the middle: it changes nothing but the random numbers' state, and
  // the inputs that it writes to, whose version counters tell.
  bool is_repeatable() const { return repeatable_; }
  // What has to be undone then. `keeps_order`: whoever runs the graph runs its nodes in their order.
  const tensor::Undoing& undoing(tensor::Risks risks, bool keeps_order) const {
    return undoing_[risks == tensor::Risks::All][keeps_order];
  }
  // The tracer says so, once the graph is finished.
  bool keeps_order() const;
  const std::vector<int>& written() const { return written_; }
  // The graph draws random numbers.
  bool draws() const { return draws_; }
  // Sizes and numbers that are no constants of the graph, once it is finished: what the graph is called with if that is more
  // than its inputs, and what has to hold. False with an exception set.
  bool read_symbols(std::vector<guard::Quantity>* arguments, guard::Conditions* conditions);
  guard::GuardList take_guards() { return recorder_.graph().take(); }

  // For the tracer: watches the metadata of a tensor from outside, but for the sizes of the dimensions that are `free`. Its
  // name; null if it has no source.
  const std::string* watch(PyObject* tensor, const std::vector<int>& free);
  // For the tracer: where a fake begins in its storage is relied on, and so is where the tensors from outside begin that share
  // its memory.
  void rely_on_offset(PyObject* fake) { writes_.rely_on_offset(fake); }
  bool relies_on_offset(PyObject* tensor) const { return writes_.relies_on_offset(tensor); }
  // A watched tensor becomes an input of the graph, behind those that are inputs already.
  bool add_input(PyObject* tensor);
  Recorder& recorder() { return recorder_; }
  const Recorder& recorder() const { return recorder_; }
  const Start& start() const { return start_; }

  // The session of the trace that runs in this thread; null if none does.
  static Session* current();
  // Held by the thread that traces: no process is forked in the middle of a trace (alternator/turns.py).
  static Ref<>& lock();

 private:
  class ModeSwitch;

  std::optional<exits::ExitProgram> write_exit();
  bool end_tracer(bool finished);
  void rely_on_offsets();
  void keep_tensors_apart(bool may_write_to_all);
  void plan_undoing(bool is_told);
  bool holds_texts() const;

  Ref<> begin_;
  Ref<> tracer_;
  Start start_;
  Recorder recorder_;
  std::optional<exits::ExitProgram> exit_;
  std::optional<Abort> abort_;
  Ref<> interruption_;  // an exception that no eager run would raise again
  std::vector<int> inputs_;
  std::vector<PyObject*> input_tensors_;  // kept by the read graph
  std::vector<int> storages_;
  std::vector<std::pair<PyObject*, tensor::Facts*>> watched_;  // both kept by the read graph
  const std::map<std::string, std::set<int>>* moving_sizes_ = nullptr;
  bool is_static_ = false;
  bool has_fixed_floats_ = false;
  std::vector<int> written_;  // numbers of inputs
  bool has_operations_ = false;
  bool unwritable_ = false;
  bool repeatable_ = false;
  bool draws_ = false;
  tensor::WriteLog writes_;
  tensor::Undoing undoing_[2][2];  // for risks of values or all; for whoever keeps the order of the nodes or not
};

// The function mode's type, added to the module. False with an exception set.
bool add_mode_type(PyObject* module);

}  // namespace alternator::record
