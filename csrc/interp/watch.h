// Looking at frames, for tests: what stands in the locals and on the stacks where a program goes on after a break, and the
// same for a run that is only interpreted.
//
//   compiled     region's path ─> frames are put back ─> at_instruction ─> the instruction runs eagerly ─> ..
//   interpreted  at_instruction before every instruction
//
// A region stands for a straight line of instructions: its path. So the instructions that a compiled call stands for are
// known one by one, and can be found again in the interpreted run.
#pragma once

#include "base/ref.h"
#include "interp/observer.h"

namespace alternator::interp {

struct Watch {
  // at_instruction(code, offset, depth): frames stand before an instruction that runs eagerly. `depth` counts the frames
  // of the activation. True in an interpreted run: what the instruction calls is not looked at.
  Ref<> at_instruction;
  Ref<> at_region;  // at_region(path): a region has run; its path is a list of (code, offset, depth)
  Ref<> path;       // of the trace in progress
  int nested = 0;   // runs of compiled functions inside an instruction that runs eagerly: they are not looked at
};

// Null except in tests.
extern thread_local constinit Watch* current_watch;

// While it lives, compiled functions that this thread calls are not looked at.
class UnwatchedCalls {
 public:
  UnwatchedCalls() { count(1); }
  ~UnwatchedCalls() { count(-1); }
  UnwatchedCalls(const UnwatchedCalls&) = delete;
  UnwatchedCalls& operator=(const UnwatchedCalls&) = delete;

 private:
  static void count(int change) {
    if (current_watch != nullptr) {
      current_watch->nested += change;
    }
  }
};

// Tells the watch of an instruction that is about to run. `nested`: what current_watch->nested is for the run that is looked
// at. The answer: whether the callback said True.
bool show_instruction(const Position& position, int nested);
// A trace begins; is about to execute an instruction; became a region.
void begin_path();
void add_to_path(const Position& position);
Ref<> take_path();
void show_path(PyObject* path);

// What stands in the frames, inside of at_instruction: (exception that is handled outside, [(code, offset, locals, stack,
// function, generator, its handled exception), ..]), with `missing` where there is nothing. Null with an exception set.
Ref<> describe_frames(PyObject* missing);
// The same of one suspended generator: (code, offset, locals, stack, handled exception); None for others.
Ref<> describe_generator(PyObject* generator, PyObject* missing);

// Calls `callable` in our loop and tells the watch of each instruction of the function's own activation.
Ref<> run_watched(PyObject* callable, PyObject* args, PyObject* kwargs);

}  // namespace alternator::interp
