// Where a region starts: a stack of frames, seen as one row of slots that guards and exits can point to.
//
//   frame 0: locals, stack   frame 1: locals, stack   ..   frame 0: function, generator, its exception   frame 1: ..
//   the exception that is handled outside
//
// For a function that has not begun, the slots are its locals first, as the frame has them.
#pragma once

#include <unordered_map>
#include <vector>

#include "interp/snapshot.h"

namespace alternator::record {

std::vector<PyObject*> flatten(const interp::StackState& state);

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

  const std::vector<FrameSlots>& frames() const { return frames_; }
  PyObject* at(int slot) const { return slots_[slot]; }
  size_t size() const { return slots_.size(); }
  int handled() const { return static_cast<int>(slots_.size()) - 1; }
  // The user's name of a slot.
  std::string name_of(int slot) const;

  // A state for the trace, in which primitives are replaced by copies that are no other object. What a trace does with
  // such a copy but move it needs a guard; where a copy turns up in the end, the slot's value belongs.
  interp::StackState make_trace_state();
  // The slot of a copy; -1: it is none.
  int slot_of_copy(PyObject* value) const;
  bool has_copy(int slot) const { return copied_[slot]; }
  const std::vector<std::pair<Ref<>, int>>& copies() const { return copies_; }
  // The only slot that holds an object; -1: none or several.
  int only_slot_of(PyObject* object) const;

 private:
  std::vector<PyObject*> slots_;  // borrowed from the state
  const interp::StackState& state_;
  std::vector<FrameSlots> frames_;
  std::vector<std::pair<Ref<>, int>> copies_;
  std::unordered_map<PyObject*, int> copy_slots_;
  std::vector<bool> copied_;
};

}  // namespace alternator::record
