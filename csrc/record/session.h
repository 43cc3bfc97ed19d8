// One trace: the recorder, torch's function mode that sends torch's calls to the Python tracer, and what comes out of it.
#pragma once

#include <optional>
#include <vector>

#include "exit/recipe.h"
#include "record/recorder.h"

namespace alternator::record {

class Session {
 public:
  // `begin()` makes the tracer (alternator/recording.py): record(func, types, args, kwargs), output_of(tensor).
  Session(PyObject* begin, PyCodeObject* code) : begin_(share(begin)), recorder_(code) {}

  // Runs the frame observed. False, with an exception set, if the trace could not even begin.
  bool run(py::ThreadState* ts, py::Frame* frame);
  // How to rebuild the result and what to write; empty if the trace was aborted or a value cannot be rebuilt: aborted() says
  // why.
  std::optional<exits::ExitProgram> take_exit() { return std::move(exit_); }
  // Whether the graph changes tensors that came from outside.
  bool mutates_inputs() const;
  const std::optional<Abort>& aborted() const { return abort_ ? abort_ : recorder_.aborted(); }
  // finish(tracer) -> the callable for the graph. Null with an exception set.
  Ref<> finish(PyObject* finish);

  const std::vector<int>& inputs() const { return inputs_; }
  guard::GuardList take_guards() { return recorder_.graph().take(); }

  // For the tracer: watches the metadata of a tensor from outside. Its name; null if it has no source.
  const std::string* watch(PyObject* tensor);
  // A watched tensor becomes an input of the graph, behind those that are inputs already.
  bool add_input(PyObject* tensor);
  Recorder& recorder() { return recorder_; }

  // The session of the trace that runs in this thread; null if none does.
  static Session* current();

 private:
  std::optional<exits::ExitProgram> write_exit();

  Ref<> begin_;
  Ref<> tracer_;
  Recorder recorder_;
  std::optional<exits::ExitProgram> exit_;
  std::optional<Abort> abort_;
  std::vector<int> inputs_;
};

// The function mode's type, added to the module. False with an exception set.
bool add_mode_type(PyObject* module);

}  // namespace alternator::record
