#include "record/start.h"

#include <algorithm>

#include "base/shortage.h"
#include "py/generator.h"
#include "py/instance.h"
#include "py/unique.h"

namespace alternator::record {
namespace {

interp::FrameState clone_frame(const interp::FrameState& frame) {
  interp::FrameState copy;
  copy.function = frame.function.clone();
  copy.code = frame.code.clone();
  copy.name_space = frame.name_space.clone();
  copy.object = frame.object.clone();
  copy.generator = frame.generator.clone();
  copy.handled = frame.handled.clone();
  copy.offset = frame.offset;
  for (const Ref<>& local : frame.locals) {
    copy.locals.push_back(local.clone());
  }
  for (const Ref<>& value : frame.stack) {
    copy.stack.push_back(value.clone());
  }
  copy.outer_exceptions = frame.outer_exceptions;
  return copy;
}

}  // namespace

std::vector<PyGenObject*> hanging_generators(const interp::StackState& state) {
  std::vector<PyGenObject*> found;
  auto look_at = [&](PyObject* value) {
    visit_hanging(value, [&](PyGenObject* generator) {
      if (std::find(found.begin(), found.end(), generator) == found.end()) {
        found.push_back(generator);
      }
    });
  };
  for (const interp::FrameState& frame : state.frames) {
    if (frame.offset == 0) {
      continue;  // what a function is called with is looked at as it is: nothing hangs on a frame that has not begun
    }
    for (const Ref<>& local : frame.locals) {
      if (local && PyGen_CheckExact(local.get())) {
        look_at(local.get());
      }
    }
    for (const Ref<>& value : frame.stack) {
      look_at(value.get());
    }
  }
  for (size_t i = 0; i < found.size(); ++i) {  // and those that hang on them
    for (PyObject* value : py::generator_state(found[i]).stack) {
      look_at(value);
    }
  }
  return found;
}

std::vector<PyObject*> flatten(const interp::StackState& state) {
  std::vector<PyObject*> slots;
  for (const interp::FrameState& frame : state.frames) {
    for (const Ref<>& local : frame.locals) {
      slots.push_back(local.get());
    }
    for (const Ref<>& value : frame.stack) {
      slots.push_back(value.get());
    }
  }
  for (const interp::FrameState& frame : state.frames) {
    slots.push_back(frame.function.object());
    slots.push_back(frame.generator.object());
    slots.push_back(frame.handled.get());
  }
  slots.push_back(state.handled.get());
  for (PyGenObject* generator : hanging_generators(state)) {
    py::GeneratorState held = py::generator_state(generator);
    slots.insert(slots.end(), held.locals.begin(), held.locals.end());
    slots.insert(slots.end(), held.stack.begin(), held.stack.end());
    slots.insert(slots.end(), {held.function, reinterpret_cast<PyObject*>(generator), held.handled});
  }
  return slots;
}

interp::StackState clone_state(const interp::StackState& state) {
  interp::StackState copy;
  for (const interp::FrameState& frame : state.frames) {
    copy.frames.push_back(clone_frame(frame));
  }
  copy.handled = state.handled.clone();
  return copy;
}

Start::Start(const interp::StackState& state) : slots_(flatten(state)), state_(state) {
  int slot = 0;
  for (const interp::FrameState& frame : state.frames) {
    int stack = slot + static_cast<int>(frame.locals.size());
    int end = stack + static_cast<int>(frame.stack.size());
    frames_.push_back({frame.code.get(), frame.offset, slot, stack, end, 0});
    slot = end;
  }
  for (FrameSlots& frame : frames_) {
    frame.function = slot;
    slot += 3;
  }
  handled_ = slot++;
  for (PyGenObject* generator : hanging_generators(state)) {
    py::GeneratorState held = py::generator_state(generator);
    int stack = slot + static_cast<int>(held.locals.size());
    int end = stack + static_cast<int>(held.stack.size());
    // A body that has not begun has an offset behind its first instruction, too.
    frames_.push_back({reinterpret_cast<PyCodeObject*>(held.code), held.offset, slot, stack, end, end});
    slot = end + 3;
  }
  for (size_t i = handled_; i < slots_.size(); ++i) {
    kept_.push_back(share(slots_[i]));
  }
}

int Start::frame_of(PyObject* generator) const {
  for (size_t i = 0; i < frames_.size(); ++i) {
    if (slots_[frames_[i].function + 1] == generator) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void Start::restore_generators() {
  for (size_t i = active_frames(); i < frames_.size(); ++i) {
    const FrameSlots& frame = frames_[i];
    py::GeneratorState state;
    state.code = reinterpret_cast<PyObject*>(frame.code);
    state.offset = frame.offset;
    state.created = created_[i - active_frames()];
    state.locals.assign(slots_.begin() + frame.locals, slots_.begin() + frame.stack);
    state.stack.assign(slots_.begin() + frame.stack, slots_.begin() + frame.end);
    state.function = slots_[frame.function];
    state.handled = slots_[frame.function + 2];
    py::restore_generator(generator_of(i), state);
  }
}

std::string Start::name_of(int slot) const {
  for (const FrameSlots& frame : frames_) {
    if (slot >= frame.locals && slot < frame.stack) {
      const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(frame.code->co_localsplusnames, slot - frame.locals));
      forget_error();
      return name ? name : "?";
    }
    if (slot >= frame.stack && slot < frame.end) {
      return "___stack" + std::to_string(slot - frame.stack);
    }
  }
  return "___frame";
}

interp::StackState Start::make_trace_state() {
  interp::StackState state = clone_state(state_);
  copied_.assign(slots_.size(), false);
  int slot = 0;
  auto replace = [&](Ref<>& value) {
    if (PyObject* copy = value ? py::unique_copy(value.get()) : nullptr) {
      value = steal(copy);
      copies_.emplace_back(value.clone(), slot);
      copy_slots_.emplace(copy, slot);
      copied_[slot] = true;
    }
    ++slot;
  };
  for (interp::FrameState& frame : state.frames) {
    for (Ref<>& local : frame.locals) {
      replace(local);
    }
    for (Ref<>& value : frame.stack) {
      replace(value);
    }
  }
  for (size_t i = active_frames(); i < frames_.size(); ++i) {
    slot = frames_[i].locals;
    created_.push_back(py::is_just_created(generator_of(i)));
    py::visit_generator_values(generator_of(i), [&](PyObject*& place) {
      Ref<> value = share(place);
      replace(value);
      Py_XSETREF(place, value.release());
    });
  }
  return state;
}

int Start::slot_of_copy(PyObject* value) const {
  auto found = copy_slots_.find(value);
  return found == copy_slots_.end() ? -1 : found->second;
}

Py_ssize_t Start::count_kept(PyObject* object) const {
  return std::count_if(kept_.begin(), kept_.end(), [&](const Ref<>& kept) { return kept.get() == object; });
}

int Start::only_slot_of(PyObject* object) const {
  int found = -1;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == object) {
      if (found >= 0) {
        return -1;
      }
      found = static_cast<int>(i);
    }
  }
  return found;
}

}  // namespace alternator::record
