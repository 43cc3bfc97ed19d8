// Regions: captured calls. A region is its guards, its graph and its exit; a compiled function has several, most recent
// first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "exit/recipe.h"
#include "guard/guard.h"
#include "interp/hook.h"
#include "torch/facts.h"

namespace alternator::region {

struct Region {
  tensor::GlobalState state;
  guard::GuardList guards;
  std::vector<int> inputs;  // nodes whose tensors are the graph's inputs, in order
  Ref<> graph;              // what the backend made
  exits::ExitProgram exit;
  std::vector<int> storages;  // if the graph changes inputs: which of them share memory (tensor::group_by_storage)
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

  bool wants(const py::Frame* frame) const override;
  PyObject* take(py::ThreadState* ts, py::Frame* frame) noexcept override;

  size_t size() const { return regions_.size(); }
  const Region& at(size_t index) const { return *regions_[index]; }
  void clear() { regions_.clear(); }
  // Why the most recent region did not fit, the last time that none did.
  const std::string& last_miss() const { return last_miss_; }

 private:
  std::shared_ptr<Region> find(py::Frame* frame, std::vector<PyObject*>* slots);
  // Traces a call from its frame and puts the frame back. Null if it could not be captured: then `abort` says why, or an
  // exception of the backend is set.
  std::shared_ptr<Region> trace(py::ThreadState* ts, py::Frame* frame, std::optional<Abort>* abort);
  PyObject* run_eagerly(py::ThreadState* ts, py::Frame* frame, const Abort& abort);

  Frontend frontend_;
  bool fullgraph_;
  int limit_;
  bool gave_up_ = false;
  Ref<> target_;  // the code whose frame is waited for
  std::vector<std::shared_ptr<Region>> regions_;
  std::string last_miss_;
};

// Runs a region whose guards hold. Null with an exception set.
PyObject* run_region(const Region& region, const std::vector<PyObject*>& slots);

}  // namespace alternator::region
