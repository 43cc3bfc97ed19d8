// Exceptions from outside that the trace raises: a break in a handler, and the exception goes on behind it. Raising one
// writes to it: where it came through, and what was handled at the time.
#include "py/code.h"
#include "py/generator.h"
#include "py/instance.h"
#include "py/names.h"
#include "record/recorder.h"

namespace alternator::record {

using journal::PlaceKind;
using py::Op;

void Recorder::note_traceback(PyObject* exception) {
  PyObject* const name = py::names.__traceback__;
  record_write(PlaceKind::Slot, exception, name, offsetof(PyBaseExceptionObject, traceback));
}

void Recorder::note_context(PyObject* exception) {
  PyObject* const name = py::names.__context__;
  record_write(PlaceKind::Slot, exception, name, offsetof(PyBaseExceptionObject, context));
}

void Recorder::record_raise(Op op, int oparg) {
  PyObject* handled = py::topmost_handled_exception(position_.ts);
  bool again = op == Op::kRERAISE || oparg == 0;
  PyObject* exception = op == Op::kRERAISE ? peek(1) : oparg == 0 ? handled : peek(oparg);
  if (again && exception != nullptr && exception == raised_) {
    trail_ = raised_trail_;
    place_ = raised_place_;
  }
  keep_place();  // the frame may be left without further notice
  record_unwinding(position_);
  if (exception == nullptr || !PyExceptionInstance_Check(exception) || !graph_.is_outside(exception)) {
    return;  // the trace's own, or none: what is raised then is fresh
  }
  if (!again && oparg == 2 && peek(1) != Py_None && !PyExceptionInstance_Check(peek(1)) &&
      !PyExceptionClass_Check(peek(1))) {
    return;  // a TypeError, instead of it
  }
  note_traceback(exception);
  if (again || ended_) {
    return;
  }
  if (oparg == 2) {
    return abort(AbortReason::WriteOutside, "the cause of an exception");
  }
  note_context(exception);
  // One that is handled already, further out, is taken out of that chain.
  for (PyObject* outer = handled; outer != nullptr && outer != Py_None && outer != exception && !ended_;
       outer = reinterpret_cast<PyBaseExceptionObject*>(outer)->context) {
    note_context(outer);
  }
}

bool Recorder::minds_being_dropped(PyObject* value) const {
  if (value == nullptr || !is_hanging(value)) {
    return false;
  }
  auto* generator = reinterpret_cast<PyGenObject*>(value);
  if (!py::is_resumable(generator) || py::is_just_created(generator)) {
    return false;
  }
  py::GeneratorState state = py::generator_state(generator);
  py::Handler handler;
  return py::find_handler(reinterpret_cast<PyCodeObject*>(state.code), state.offset - 1, &handler);
}

std::vector<int> Recorder::dropped_slots() const {
  std::vector<int> slots;
  for (size_t i = 0; i < start_->active_frames(); ++i) {
    const FrameSlots& frame = start_->frames()[i];
    for (int slot = frame.locals; slot < frame.end; ++slot) {
      const bool is_kept = slot < frame.stack ? !written_slots_[slot] : slot - frame.stack < lowest_[i];
      if (i >= kept_frames_ || !is_kept) {
        slots.push_back(slot);
      }
    }
  }
  return slots;
}

bool Recorder::meet_dropped() {
  PyObject* dropped = drops_.find_dropped(position_, graph_, journal_);
  if (dropped == nullptr) {
    return false;
  }
  --number_;
  deciding_ = false;
  abort(PyGen_CheckExact(dropped) ? AbortReason::GeneratorEnd : AbortReason::Finaliser, Py_TYPE(dropped)->tp_name);
  return true;
}

// A frame without a handler for it drops its whole stack; its caller is asked when the exception comes there.
void Recorder::record_unwinding(const interp::Position& position) {
  py::Handler handler;
  PyCodeObject* code = position.frame->f_code;
  int offset = static_cast<int>(position.instruction - py::first_instruction(code));
  PyObject** value = py::stack_base(position.frame);
  if (py::find_handler(code, offset, &handler)) {
    value += handler.depth;
  }
  for (; value < position.stack_top && !ended_; ++value) {
    visit_hanging(*value, [&](PyGenObject* generator) {
      if (minds_being_dropped(reinterpret_cast<PyObject*>(generator))) {
        abort(AbortReason::GeneratorEnd, "");
      }
    });
  }
}

// C code raised it, or passed it on.
void Recorder::record_raised(const interp::Position& position) {
  record_unwinding(position);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (value != nullptr && PyExceptionInstance_Check(value) && graph_.is_outside(value)) {
    note_traceback(value);
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace alternator::record
