// Watching a run: an observed run tells its observer of every instruction before it is executed.
// A concrete run has no observer and pays nothing for it.
#pragma once

#include "py/frame.h"

namespace alternator::interp {

// Where the loop stands: `instruction` is about to run.
struct Position {
  py::ThreadState* ts;
  py::Frame* frame;
  py::Frame* entry;  // the outermost frame of this activation of the loop; C code called it
  py::CodeUnit* instruction;
  PyObject** stack_top;
};

class FrameTaker;

enum class Verdict {
  Go,
  Opaque,   // a call: let what it calls run natively and unobserved, as one step
  Raise,    // the instruction raises the exception that is set, instead of running
  Abandon,  // leave all frames of this activation at once, without running handlers
};

class Observer {
 public:
  virtual ~Observer() = default;
  // An activation of the loop begins or ends: C code called the entry frame.
  virtual void enter(py::Frame* entry) = 0;
  virtual void leave() = 0;
  virtual Verdict before_instruction(const Position& position) = 0;
  // An exception is set, and the run is about to look for its handler. Go or Abandon.
  virtual Verdict on_exception(const Position&) { return Verdict::Go; }
  // Who waits for frames of what Opaque lets run.
  virtual FrameTaker* taker_of_opaque() { return nullptr; }
  // The run has been given up: frames that finalisers of its objects would run are not run at all.
  virtual bool discards() const { return false; }
  // No signal handler and no other thread gets a turn while this run lasts.
  virtual bool defers_pending_work() const { return false; }
};

}  // namespace alternator::interp
