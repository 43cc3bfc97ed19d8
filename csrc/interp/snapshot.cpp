#include "interp/snapshot.h"

#include <algorithm>

#include "interp/hook.h"
#include "py/call_site.h"
#include "py/generator.h"

namespace alternator::interp {
namespace {

py::CodeAttachment stack_maps;

void free_stack_map(void* map) { delete static_cast<py::StackMap*>(map); }

FrameState save_frame(py::Frame* frame, const py::CodeUnit* instruction, PyObject** stack_top) {
  FrameState state;
  state.function = Ref<PyFunctionObject>::share(frame->f_func);
  state.code = Ref<PyCodeObject>::share(frame->f_code);
  state.name_space = share(frame->f_locals);
  state.object = Ref<PyFrameObject>::share(frame->frame_obj);
  state.offset = static_cast<int>(instruction - py::first_instruction(frame->f_code));
  for (PyObject** at = frame->localsplus; at < py::stack_base(frame); ++at) {
    state.locals.push_back(share(*at));
  }
  for (PyObject** at = py::stack_base(frame); at < stack_top; ++at) {
    state.stack.push_back(share(*at));
  }
  if (py::is_generator_frame(frame)) {
    state.generator = Ref<PyGenObject>::share(py::generator_of(frame));
    state.handled = share(state.generator->gi_exc_state.exc_value);
  }
  for (const py::StackShape::Saved& saved : stack_shape(frame->f_code, state.offset).saved_exceptions) {
    if (saved.level == 0) {
      state.outer_exceptions.push_back(saved.slot);
    }
  }
  return state;
}

// Moves locals and stack into a frame whose slots hold nothing that has to be dropped.
void fill_frame(py::Frame* frame, FrameState* state, bool innermost) {
  PyObject** at = frame->localsplus;
  for (Ref<>& local : state->locals) {
    *at++ = local.release();
  }
  for (Ref<>& value : state->stack) {
    *at++ = value.release();
  }
  frame->stacktop = static_cast<int>(at - frame->localsplus);
  frame->prev_instr = py::first_instruction(frame->f_code) + state->offset - (innermost ? 1 : 0);
  if (state->object && state->object->f_frame != frame) {
    py::attach_frame_object(frame, state->object.release());
  }
}

}  // namespace

namespace {

// Of the arguments that can be given by name only. Null with an exception set.
Ref<> list_keyword_names(const PyCodeObject* code) {
  Ref<> names = steal(PyTuple_New(code->co_kwonlyargcount));
  for (int i = 0; names && i < code->co_kwonlyargcount; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, code->co_argcount + i);
    PyTuple_SET_ITEM(names.get(), i, Py_NewRef(name));
  }
  return names;
}

Ref<> call_with_dummies(PyFunctionObject* function, PyObject* names) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  int total = code->co_argcount + code->co_kwonlyargcount;
  std::vector<PyObject*> arguments(total + 1, Py_None);
  return steal(PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), arguments.data(), code->co_argcount, names));
}

}  // namespace

Ref<> call_with_dummies(PyFunctionObject* function) {
  Ref<> names = list_keyword_names(reinterpret_cast<PyCodeObject*>(function->func_code));
  return names ? call_with_dummies(function, names.get()) : nullptr;
}

bool prepare_snapshots() { return stack_maps.request(free_stack_map); }

const py::StackShape& stack_shape(PyCodeObject* code, int offset) {
  static const py::StackShape unknown;
  auto* map = static_cast<py::StackMap*>(stack_maps.get(code));
  if (map == nullptr) {
    map = new py::StackMap(code);
    if (!stack_maps.set(code, map)) {
      delete map;
      return unknown;
    }
  }
  return map->at(offset);
}

StackState take_snapshot(const Position& position) {
  StackState state;
  state.frames.push_back(save_frame(position.frame, position.instruction, position.stack_top));
  for (py::Frame* frame = position.frame; frame != position.entry;) {
    frame = frame->previous;
    state.frames.push_back(save_frame(frame, frame->prev_instr, frame->localsplus + frame->stacktop));
  }
  std::reverse(state.frames.begin(), state.frames.end());
  // Generators' exception states lie on top of the one that the outermost frame uses.
  auto* item = position.ts->exc_info;
  for (const FrameState& frame : state.frames) {
    if (frame.generator) {
      item = item->previous_item;
    }
  }
  state.handled = share(item->exc_value);
  return state;
}

const char* name_c_callee(const Position& position) {
  auto site = py::CallSite::at(position.instruction, position.frame->f_code, position.stack_top);
  PyObject* callable = site ? *site->callable : nullptr;
  if (callable != nullptr && PyCFunction_Check(callable)) {
    return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  }
  if (callable != nullptr && Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
  }
  if (callable != nullptr && PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? "a class" : type->tp_name;
  }
  return py::op_row(py::Step(position.instruction).op).name;
}

Abort refuse_snapshot(const Position& position, const char* caller) {
  char place[512];
  bool generator = py::is_generator_frame(position.entry);
  return Abort{generator ? AbortReason::GeneratorInC : AbortReason::CallerInC,
               py::describe_place(position.frame, place, sizeof place), caller ? caller : ""};
}

bool is_outermost_of(const StackState& state, const py::Frame* frame) { return state.carrier.get() == frame->f_func; }

void restore_entry(py::ThreadState* ts, StackState* state, py::Frame* entry) {
  FrameState& outermost = state->frames.front();
  for (int i = 0; i < entry->stacktop; ++i) {
    Py_CLEAR(entry->localsplus[i]);
  }
  Py_XSETREF(entry->f_locals, outermost.name_space.release());
  py::change_function(entry, outermost.function.get());
  // The exception that is current out here takes the place of the one that was current when the snapshot was taken:
  // it is what the outermost handler puts back in the end.
  for (FrameState& frame : state->frames) {
    if (frame.generator) {
      break;  // from here on the generator's own exception state counts
    }
    if (!frame.outer_exceptions.empty()) {
      Ref<> ambient = steal(py::swap_handled_exception(ts, state->handled.release()));
      for (int slot : frame.outer_exceptions) {
        frame.stack[slot] = share(ambient ? ambient.get() : Py_None);
      }
      break;
    }
  }
  fill_frame(entry, &outermost, state->frames.size() == 1);
}

py::Frame* restore_callee(py::ThreadState* ts, StackState* state, size_t index, py::Frame* parent) {
  FrameState& saved = state->frames[index];
  py::Frame* frame;
  if (saved.generator) {
    PyGenObject* generator = saved.generator.get();
    if (!ALTERNATOR_ENSURE(py::revive_generator(generator, saved.function.get(), saved.code.get()),
                           "the generator is running")) {
      PyErr_SetString(PyExc_SystemError, "alternator: a generator that was taken away is running");
      return nullptr;
    }
    frame = py::frame_of(generator);
    Py_XSETREF(generator->gi_exc_state.exc_value, saved.handled.release());
    generator->gi_exc_state.previous_item = ts->exc_info;
    ts->exc_info = &generator->gi_exc_state;
    py::mark_executing(frame);
  } else {
    frame = py::push_frame(ts, saved.function.get(), saved.code.get(), saved.name_space.get());
    if (frame == nullptr) {
      return nullptr;
    }
    Py_INCREF(saved.function.get());
  }
  fill_frame(frame, &saved, index + 1 == state->frames.size());
  frame->previous = parent;
  frame->is_entry = false;
  return frame;
}

void find_ambient_exception(py::Frame* frame, int offset, Ref<>* ambient) {
  if (py::is_generator_frame(frame)) {
    ambient->reset();  // what was found is the generator's own
    return;
  }
  for (const py::StackShape::Saved& saved : stack_shape(frame->f_code, offset).saved_exceptions) {
    if (saved.level == 0) {
      *ambient = share(py::stack_base(frame)[saved.slot]);
    }
  }
}

void abandon_generator(py::ThreadState* ts, py::Frame* frame) {
  PyGenObject* generator = py::generator_of(frame);
  ts->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  frame->previous = nullptr;
  Py_CLEAR(generator->gi_exc_state.exc_value);
  py::mark_cleared(frame);
  py::clear_frame(frame);
}

bool prepare_recreation(StackState* state, PyCodeObject* code, PyFunctionObject* function) {
  if (!state->carrier || state->carrier->func_code != reinterpret_cast<PyObject*>(code)) {
    state->carrier = Ref<PyFunctionObject>::steal(
        reinterpret_cast<PyFunctionObject*>(PyFunction_New(reinterpret_cast<PyObject*>(code), function->func_globals)));
    state->carrier_names = state->carrier ? list_keyword_names(code) : nullptr;
  }
  return state->carrier && state->carrier_names;
}

Ref<> recreate(StackState state) {
  // Not the function itself: its code or its arguments may have changed since.
  const FrameState& outermost = state.frames.front();
  {
    Unobserved native;  // the garbage collector may run finalisers here: no part of the run
    if (!prepare_recreation(&state, outermost.code.get(), outermost.function.get())) {
      return nullptr;
    }
  }
  StackState* outer = std::exchange(thread_mode.restoring, &state);
  Ref<PyFunctionObject> carrier = state.carrier.clone();
  Ref<> names = state.carrier_names.clone();
  Ref<> result = call_with_dummies(carrier.get(), names.get());
  thread_mode.restoring = outer;
  return result;
}

}  // namespace alternator::interp
