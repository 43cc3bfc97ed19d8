// Regions: captured calls. A region is its guards, its graph and its exit; a compiled function has several, most recent
// first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "exit/program.h"
#include "guard/checker.h"
#include "interp/hook.h"
#include "torch/facts.h"

namespace alternator::region {

struct Region {
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  tensor::GlobalState state;
  guard::GuardList guards;
  guard::Checker checker;   // of the guards; its slots have the objects of the call
  std::vector<int> inputs;  // nodes whose tensors are the graph's inputs, in order
  Ref<> graph;              // what the backend made
  exits::ExitProgram exit;
  std::vector<int> exit_nodes;     // nodes whose objects the exit needs, by the numbers that it has for them
  bool distinct_storages = false;  // the graph changes inputs: they must not share memory
};

// What the Python side is asked for (alternator/recording.py).
struct Frontend {
  Ref<> begin;   // begin() -> tracer
  Ref<> finish;  // finish(tracer, outputs) -> callable for the graph
  Ref<> report;  // report(kind, text): a fallback to eager execution, a recompilation
};

// A function whose calls are captured.
class Captured : public interp::FrameTaker {
 public:
  Captured(Frontend frontend, bool fullgraph, int limit)
      : frontend_(std::move(frontend)), fullgraph_(fullgraph), limit_(limit) {}

  // Calls a Python function or method, answering from a region where one fits.
  PyObject* call(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames);

  // Makes the call as far as to its frame, and tells what the regions' guards say of it: for each region the number of
  // the guard that does not hold (None: all do), and the guards as rows (describe_guards).
  PyObject* inspect(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames);

  bool wants(const py::Frame* frame) const override;
  PyObject* take(py::ThreadState* ts, py::Frame* frame) noexcept override;

  size_t size() const { return regions_.size(); }
  const Region& at(size_t index) const { return *regions_[index]; }
  void clear() { regions_.clear(); }
  // Why the most recent region did not fit, the last time that none did.
  const std::string& last_miss() const { return last_miss_; }

 private:
  // The region whose guards hold for the frame, its slots filled; null if there is none.
  std::shared_ptr<Region> find(py::Frame* frame);
  // Traces a call from its frame and puts the frame back. Null if it could not be captured: then `abort` says why, or an
  // exception of the backend is set.
  std::shared_ptr<Region> trace(py::ThreadState* ts, py::Frame* frame, std::optional<Abort>* abort);
  PyObject* inspect_frame(py::Frame* frame);
  PyObject* run_eagerly(py::ThreadState* ts, py::Frame* frame, const Abort& abort);

  Frontend frontend_;
  bool fullgraph_;
  int limit_;
  bool gave_up_ = false;
  bool inspecting_ = false;  // the frame that is waited for is not to be run
  Ref<> target_;             // the code whose frame is waited for
  std::vector<std::shared_ptr<Region>> regions_;
  std::string last_miss_;
};

// The guards as a list of rows (kind, expectation, parent, key, index, text). The parents are the objects in the slots, None
// without slots. Null with an exception set.
Ref<> describe_guards(const guard::GuardList& list, const std::vector<PyObject*>* slots);

// Runs a region whose guards hold, right after they were checked. Null with an exception set.
PyObject* run_region(const Region& region);

}  // namespace alternator::region
