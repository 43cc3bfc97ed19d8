#include "interp/hook.h"

#include <utility>

#include "base/boundary.h"
#include "interp/evaluate.h"
#include "interp/snapshot.h"
#include "py/borrow.h"

namespace alternator::interp {

thread_local constinit ThreadMode thread_mode;
uint64_t frames_interpreted = 0;

namespace {

// Guarded by the GIL.
int hook_users = 0;
bool whole_process = false;
bool buried = false;  // ours was left below somebody else's, TorchDynamo's for one, who calls it
py::EvalFunction previous_hook = nullptr;

// Lets the hook that was there before ours have a frame. It may have been put on top of ours once more, as TorchDynamo's is
// when it goes to work under a call of ours: then it gives the frame back to us, and CPython's loop has to run it.
PyObject* pass_on(py::ThreadState* ts, py::Frame* frame, int throwflag) {
  ThreadMode& mode = thread_mode;
  if (py::is_default_loop(previous_hook) || mode.passed == frame) {
    return py::run_in_default_loop(ts, frame, throwflag);
  }
  py::Frame* outer = std::exchange(mode.passed, frame);
  PyObject* result = previous_hook(ts, frame, throwflag);
  mode.passed = outer;
  return result;
}

// A frame that a finaliser of an abandoned object asks for: a generator is closed as if its body did not mind, a function
// returns at once.
PyObject* discard(int throwflag) { return throwflag ? nullptr : Py_NewRef(Py_None); }

PyObject* run(py::ThreadState* ts, py::Frame* frame, int throwflag) {
  ThreadMode& mode = thread_mode;
  if (py::is_borrowed(frame)) {
    return py::run_in_default_loop(ts, frame, throwflag);
  }
  if (mode.observer != nullptr && mode.observer->discards()) {
    return discard(throwflag);
  }
  StackState* restoring = nullptr;
  if (mode.restoring != nullptr && !throwflag && is_outermost_of(*mode.restoring, frame)) {
    // Comes first: such a frame has dummies for arguments and must not run anywhere else.
    restoring = std::exchange(mode.restoring, nullptr);
  } else if (mode.restoring != nullptr) {
    // The garbage collector or a signal handler came in between: no part of the run that is about to begin.
    Unobserved native;
    return pass_on(ts, frame, throwflag);
  } else if (py::is_traced(ts) || py::makes_generator(frame)) {
    return pass_on(ts, frame, throwflag);
  }
  ++frames_interpreted;
  if (mode.observer != nullptr) {
    return evaluate_observed(ts, frame, throwflag, mode.observer, restoring);
  }
  return evaluate(ts, frame, throwflag, restoring);
}

PyObject* enter(py::ThreadState* ts, py::Frame* frame, int throwflag, bool taken) noexcept {
  try {
    return taken ? std::exchange(thread_mode.taker, nullptr)->take(ts, frame) : run(ts, frame, throwflag);
  } catch (...) {
    die_of_exception("left the evaluation loop");
  }
}

}  // namespace

PyObject* hook(py::ThreadState* ts, py::Frame* frame, int throwflag) {
  ThreadMode& mode = thread_mode;
  bool taken = mode.taker != nullptr && !throwflag && mode.taker->wants(frame) && !py::is_traced(ts);
  if (!taken && mode.interpreting == 0 && !whole_process) {
    return pass_on(ts, frame, throwflag);
  }
  return enter(ts, frame, throwflag, taken);
}

void acquire_hook() {
  if (hook_users++ > 0) {
    return;
  }
  py::ThreadState* ts = py::current_thread();
  if (!hook_is_topmost(ts) && !buried) {  // on top once more, each of the two would call the other
    previous_hook = py::current_hook(ts);
    py::set_hook(ts, &hook);
  }
  buried = false;
}

void release_hook() {
  if (--hook_users > 0) {
    return;
  }
  // If somebody put a hook on top of ours, it will call us; we then call on. Taking it away would take theirs.
  py::ThreadState* ts = py::current_thread();
  buried = !hook_is_topmost(ts);
  if (!buried) {
    py::set_hook(ts, previous_hook);
  }
}

void interpret_process() {
  if (!whole_process) {
    acquire_hook();
    whole_process = true;
  }
}

bool is_interpreting() { return whole_process || thread_mode.interpreting > 0; }

Interpreting::Interpreting(Observer* observer) : outer_observer_(thread_mode.observer) {
  acquire_hook();
  thread_mode.interpreting++;
  thread_mode.observer = observer;
}

Interpreting::~Interpreting() {
  thread_mode.observer = outer_observer_;
  thread_mode.interpreting--;
  release_hook();
}

}  // namespace alternator::interp
