// Where a region starts: a stack of frames, seen as one row of slots that guards and exits can point to.
//
//   frame 0: locals, stack   frame 1: locals, stack   ..   frame 0: function, generator, its exception   frame 1: ..
//   the exception that is handled outside
//   generators that hang on the frames (hanging_generators()), each: locals, stack, function,
//   generator, its exception
//
// For a function that has not begun, the slots are its locals first, as the frame has them.
#pragma once

#include <unordered_map>
#include <vector>

#include "interp/snapshot.h"
#include "py/generator.h"
#include "py/members.h"

namespace alternator::record {

std::vector<PyObject*> flatten(const interp::StackState& state);

// The generators that a value on a frame's stack keeps in mid-course: a loop goes over it, or `with` keeps the __exit__
// of an object that holds it, as contextlib's managers do.
template <class Visit>
void visit_hanging(PyObject* value, Visit visit) {
  auto look_at = [&](PyObject* held) {
    if (held != nullptr && PyGen_CheckExact(held) && py::is_resumable(reinterpret_cast<PyGenObject*>(held))) {
      visit(reinterpret_cast<PyGenObject*>(held));
    }
  };
  look_at(value);
  if (value != nullptr && PyMethod_Check(value)) {
    py::visit_attributes(PyMethod_GET_SELF(value), look_at);
  }
}

// The generators that hang on the frames, on stacks or as locals, in the order of their slots; borrowed.
std::vector<PyGenObject*> hanging_generators(const interp::StackState& state);

// Another state with the same values.
interp::StackState clone_state(const interp::StackState& state);

struct FrameSlots {
  PyCodeObject* code;
  int offset;
  int locals, stack, end;  // slots [locals, stack) and [stack, end)
  int function;            // this slot and the two behind it
};

class Start {
 public:
  explicit Start(const interp::StackState& state);

  // The frames of the stack, then those of the hanging generators.
  const std::vector<FrameSlots>& frames() const { return frames_; }
  size_t active_frames() const { return state_.frames.size(); }
  PyGenObject* generator_of(size_t frame) const {
    return reinterpret_cast<PyGenObject*>(slots_[frames_[frame].function + 1]);
  }
  // The frame of a generator; -1: it is none of the start.
  int frame_of(PyObject* generator) const;
  PyObject* at(int slot) const { return slots_[slot]; }
  size_t size() const { return slots_.size(); }
  int handled() const { return handled_; }
  // The user's name of a slot.
  std::string name_of(int slot) const;

  // A state for the trace, in which primitives are replaced by copies that are no other object. What a trace does with
  // such a copy but move it needs a guard; where a copy turns up in the end, the slot's value belongs.
  interp::StackState make_trace_state();
  // Puts the hanging generators back into the state that they had.
  void restore_generators();
  // The slot of a copy; -1: it is none.
  int slot_of_copy(PyObject* value) const;
  bool has_copy(int slot) const { return copied_[slot]; }
  const std::vector<std::pair<Ref<>, int>>& copies() const { return copies_; }
  // The only slot that holds an object; -1: none or several.
  int only_slot_of(PyObject* object) const;
  // How often an object is among what the hanging generators hold.
  Py_ssize_t count_kept(PyObject* object) const;

 private:
  std::vector<PyObject*> slots_;  // borrowed from the state
  const interp::StackState& state_;
  std::vector<FrameSlots> frames_;
  std::vector<std::pair<Ref<>, int>> copies_;
  std::unordered_map<PyObject*, int> copy_slots_;
  std::vector<bool> copied_;
  int handled_ = 0;
  std::vector<bool> created_;  // of the hanging generators: the body has not begun
  std::vector<Ref<>> kept_;    // what the hanging generators hold
};

}  // namespace alternator::record
