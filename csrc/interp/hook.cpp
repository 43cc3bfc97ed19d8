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
py::EvalFunction previous_hook = nullptr;  // was there before ours
py::EvalFunction burying_hook =
    nullptr;  // somebody else's that was left on top of ours, TorchDynamo's for one; it calls ours

// Lets the next hook have a frame: the one that buried ours, and when it gives the frame back to us, the one that was there
// before. A hook that is on top has had the frame already, be it for the second time in the chain (TorchDynamo's, when it
// goes to work under a call of ours).
PyObject* pass_on(py::ThreadState* ts, py::Frame* frame, int throwflag) {
  ThreadMode& mode = thread_mode;
  const bool comes_back = mode.passed == frame;
  const py::EvalFunction topmost = py::current_hook(ts);
  const bool to_burying = burying_hook != nullptr && burying_hook != topmost && !comes_back;
  const py::EvalFunction next = to_burying ? burying_hook : previous_hook;
  const bool had_it = next == topmost || (comes_back && (burying_hook == nullptr || burying_hook == next));
  if (py::is_default_loop(next) || had_it) {
    return py::run_in_default_loop(ts, frame, throwflag);
  }
  py::Frame* outer = std::exchange(mode.passed, frame);
  PyObject* result = next(ts, frame, throwflag);
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
  if (hook_is_topmost(ts)) {
    burying_hook = nullptr;  // it went away
  } else if (burying_hook == nullptr || py::is_default_loop(py::current_hook(ts))) {
    burying_hook = nullptr;
    previous_hook = py::current_hook(ts);
    py::set_hook(ts, &hook);
  } else if (burying_hook == py::current_hook(ts)) {
    py::set_hook(ts, &hook);  // on top once more
  }
}

void release_hook() {
  if (--hook_users > 0) {
    return;
  }
  py::ThreadState* ts = py::current_thread();
  if (hook_is_topmost(ts)) {
    py::set_hook(ts, burying_hook != nullptr ? burying_hook : previous_hook);
  } else if (burying_hook == nullptr) {
    burying_hook = py::current_hook(ts);  // it will call us, and we call on: taking ours away would take theirs
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
