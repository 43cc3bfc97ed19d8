// The frame-evaluation hook (PEP 523): which frames run in our loop.
//
// The hook is installed while anybody needs it, and calls on whatever hook was there before for the frames that we do
// not take. A thread is in interpreting mode, or the whole process is; other threads' frames go straight on.
#pragma once

#include "interp/observer.h"
#include "py/frame.h"

namespace alternator::interp {

struct StackState;

// Not `noexcept` itself: for frames that are not ours it only calls on, and CPython's way of ending a daemon thread passes.
PyObject* hook(py::ThreadState* ts, py::Frame* frame, int throwflag);

// Nobody put another hook on top of ours, so frames that the loop enters itself are not missed by anybody.
inline bool hook_is_topmost(py::ThreadState* ts) { return py::current_hook(ts) == &hook; }

// Somebody who waits for the frame of a call that it makes, to answer the call itself.
class FrameTaker {
 public:
  virtual ~FrameTaker() = default;
  // The frame has its arguments bound and has not begun. Returns what the call returns.
  virtual bool wants(const py::Frame* frame) const = 0;
  virtual PyObject* take(py::ThreadState* ts, py::Frame* frame) = 0;
};

struct ThreadMode {
  int interpreting = 0;             // nested requests of this thread
  Observer* observer = nullptr;     // of the current run
  FrameTaker* taker = nullptr;      // waits for a frame
  py::Frame* passed = nullptr;      // was given to the hook that was there before ours
  StackState* restoring = nullptr;  // frames that the next call of their outermost function is to be given
};
extern thread_local constinit ThreadMode thread_mode;

// Keeps the hook installed.
void acquire_hook();
void release_hook();

// All threads' frames run in our loop from now on. There is no way back: it is for whole programs.
void interpret_process();
bool is_interpreting();

// Frames that the hook gave to our loop, since the process started.
extern uint64_t frames_interpreted;

// While it lives, the frames of this thread run in our loop, watched by the observer if there is one.
class Interpreting {
 public:
  explicit Interpreting(Observer* observer = nullptr);
  ~Interpreting();
  Interpreting(const Interpreting&) = delete;
  Interpreting& operator=(const Interpreting&) = delete;

 private:
  Observer* outer_observer_;
};

// While it lives, what this thread runs is neither interpreted nor observed.
class Unobserved {
 public:
  Unobserved() : saved_(thread_mode) { thread_mode = ThreadMode(); }
  ~Unobserved() { thread_mode = saved_; }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  ThreadMode saved_;
};

}  // namespace alternator::interp
