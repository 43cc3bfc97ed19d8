// One call of a captured function, from the arguments to its frame.
#pragma once

#include "interp/hook.h"
#include "region/region.h"

namespace alternator::region {

class Captured::Call : public interp::FrameTaker {
 public:
  Call(Captured* owner, Inspection asked, PyObject* code) : inspecting(asked), owner_(owner), code_(code) {}

  bool wants(const py::Frame* frame) const override { return reinterpret_cast<PyObject*>(frame->f_code) == code_; }
  PyObject* take(py::ThreadState* ts, py::Frame* frame) override { return owner_->take(this, ts, frame); }

  Inspection inspecting;          // its frame is not to be run
  bool failed = false;            // the graph of the region that fitted: the call runs for real
  bool looked = false;            // for a region that fits its arguments:
  std::shared_ptr<Region> found;  // this one, or none

 private:
  Captured* owner_;
  PyObject* code_;  // only ever compared
};

}  // namespace alternator::region
