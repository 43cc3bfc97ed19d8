// Snapshots: the state of a stack of frames as a plain structure, and its re-creation in a new call.
//
//   StackState
//     frames[0]    the outermost function          in the middle of a call ─┐ its callee's result completes
//     frames[1]    its callee                      in the middle of a call ─┤ the instruction
//     ...                                                                   │
//     frames[n-1]  the innermost                   before an instruction  <─┘
//
// Only frames of one activation of the loop can be taken: between them there is no C code (call.h). A generator's
// frame is put back into the same generator object, so whoever holds the generator sees it go on.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/ref.h"
#include "interp/observer.h"
#include "py/code.h"

namespace alternator::interp {

struct FrameState {
  Ref<PyFunctionObject> function;
  Ref<PyCodeObject> code;
  Ref<> name_space;                   // f_locals of class and module bodies, or null
  Ref<PyFrameObject> object;          // what sys._getframe() gave, if anybody asked: it stays the same object
  Ref<PyGenObject> generator;         // null for a function's frame
  Ref<> handled;                      // a generator's own current exception, or null
  int offset = 0;                     // outer frames: the instruction in progress; innermost: the one to run next
  std::vector<Ref<>> locals;          // null where unbound
  std::vector<Ref<>> stack;           // with nulls where the stack has them
  std::vector<int> outer_exceptions;  // slots with the exception that was current outside this frame's handlers
};

struct StackState {
  std::vector<FrameState> frames;
  Ref<> handled;  // what sys.exc_info() shows in frames[0]

  // The function that is called for the sake of its frame when the frames are put back, and the names of its keyword arguments.
  Ref<PyFunctionObject> carrier;
  Ref<> carrier_names;
};

// Takes a snapshot of the activation. The frames go on as if nothing had happened.
StackState take_snapshot(const Position& position);

// The name of the C function that an instruction is about to call, or of the instruction. It stays valid: nothing that the
// program could drop is looked at later.
const char* name_c_callee(const Position& position);

// Says why the frames cannot be taken as a whole. `caller` names the C code in between; null if it is not known (a finaliser
// after the run, a callable that is no function).
Abort refuse_snapshot(const Position& position, const char* caller);

// Makes what recreate() needs memory for: where the frames have to be put back, it is too late to find out that there is none.
// False with an exception set.
bool prepare_recreation(StackState* state, PyCodeObject* code, PyFunctionObject* function);

// Makes a call and puts the frames back; runs them to the end. The state is used up.
Ref<> recreate(StackState state);

// Calls a function with the right number of arguments, whatever they are, for the sake of the frame or the generator.
Ref<> call_with_dummies(PyFunctionObject* function);

// For the hook and the loop.
bool is_outermost_of(const StackState& state, const py::Frame* frame);
void restore_entry(py::ThreadState* ts, StackState* state, py::Frame* entry);
// Makes a frame for state->frames[index] on top of `parent`, ready to be loaded; null with an exception set.
py::Frame* restore_callee(py::ThreadState* ts, StackState* state, size_t index, py::Frame* parent);

// Looks for the exception that was current before the handlers of a frame, which is about to be abandoned at `offset`.
// To be asked from the innermost frame outwards; what is in `ambient` in the end belongs to the outermost.
void find_ambient_exception(py::Frame* frame, int offset, Ref<>* ambient);

// Drops a generator's frame in mid-body, as an abandoned run does.
void abandon_generator(py::ThreadState* ts, py::Frame* frame);

bool prepare_snapshots();

// The shape of the value stack before an instruction; computed once for each code object.
const py::StackShape& stack_shape(PyCodeObject* code, int offset);

}  // namespace alternator::interp
