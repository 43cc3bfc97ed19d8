// Frames as CPython lays them out, and what may be done to them: pushing, clearing, unlinking.
//
//   thread state ──> cframe (one a loop activation) ──> current frame ──previous──> ... ──> entry frame of the activation
//
// The functions that CPython does not export (_PyFrame_Clear, _PyThreadState_PopFrame, ...) are written again here.
#pragma once

#include "py/opcode.h"

namespace alternator::py {

using Frame = _PyInterpreterFrame;
using ThreadState = PyThreadState;

inline CodeUnit* first_instruction(const PyCodeObject* code) { return _PyCode_CODE(const_cast<PyCodeObject*>(code)); }
inline Py_ssize_t instruction_count(const PyCodeObject* code) { return Py_SIZE(code); }
inline PyObject** stack_base(Frame* frame) { return _PyFrame_Stackbase(frame); }
inline bool is_generator_frame(const Frame* frame) { return frame->owner == FRAME_OWNED_BY_GENERATOR; }
inline bool is_incomplete(Frame* frame) { return _PyFrame_IsIncomplete(frame); }
inline PyGenObject* generator_of(Frame* frame) { return _PyFrame_GetGenerator(frame); }
inline Frame* frame_of(PyGenObject* generator) { return reinterpret_cast<Frame*>(generator->gi_iframe); }

constexpr int kTracedOpcode = 255;
constexpr int kGeneratorFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

// The frame has yet to become a generator's: its code is a generator's, and RETURN_GENERATOR did not run.
inline bool makes_generator(const Frame* frame) {
  return frame->owner != FRAME_OWNED_BY_GENERATOR && (frame->f_code->co_flags & kGeneratorFlags);
}

// Fills in all of a frame but its locals and its link. Takes over the reference to `function`. The code is that of the
// function, or was when the frame first ran.
inline void initialise_frame(Frame* frame, PyFunctionObject* function, PyCodeObject* code, PyObject* name_space) {
  frame->f_func = function;
  frame->f_code = reinterpret_cast<PyCodeObject*>(Py_NewRef(code));
  frame->f_builtins = function->func_builtins;
  frame->f_globals = function->func_globals;
  frame->f_locals = Py_XNewRef(name_space);
  frame->stacktop = code->co_nlocalsplus;
  frame->frame_obj = nullptr;
  frame->prev_instr = first_instruction(code) - 1;
  frame->is_entry = false;
  frame->owner = FRAME_OWNED_BY_THREAD;
}

// A new chunk of the thread's frame stack with room for `size` words, and back. False with MemoryError set.
bool push_chunk(ThreadState* ts, size_t size);
void pop_chunk(ThreadState* ts);

// Pushes a frame; the caller fills in the locals. Takes over the reference to `function` unless it fails (null, with
// MemoryError set).
inline Frame* push_frame(ThreadState* ts, PyFunctionObject* function, PyCodeObject* code, PyObject* name_space) {
  size_t size = code->co_nlocalsplus + code->co_stacksize + FRAME_SPECIALS_SIZE;
  if (!_PyThreadState_HasStackSpace(ts, size) && !push_chunk(ts, size)) {
    return nullptr;
  }
  Frame* frame = reinterpret_cast<Frame*>(ts->datastack_top);
  ts->datastack_top += size;
  initialise_frame(frame, function, code, name_space);
  return frame;
}

// Drops everything that the frame holds; a frame object that outlives it takes the frame's contents over.
// The frame must not be the current one any more.
void clear_frame(Frame* frame);

// Clears the frame that push_frame() made last, and gives its memory back.
inline void clear_and_pop_frame(ThreadState* ts, Frame* frame) {
  ts->recursion_remaining--;  // finalisers run one level deeper, as in CPython's loop
  clear_frame(frame);
  ts->recursion_remaining++;
  PyObject** base = reinterpret_cast<PyObject**>(frame);
  if (base == &ts->datastack_chunk->data[0]) {
    pop_chunk(ts);
  } else {
    ts->datastack_top = base;
  }
}

// Adds the current frame to the traceback of the exception that is set.
void add_traceback(ThreadState* ts);

// The user's place, for messages: file:line in function.
const char* describe_place(Frame* frame, char* buffer, size_t size);
int line_of(Frame* frame);

// Makes a finished or running generator a suspended one again, its frame empty: the caller fills in locals and stack.
// `function` and `code` are those of the generator's body. Fails (false) if the generator runs.
bool revive_generator(PyGenObject* generator, PyFunctionObject* function, PyCodeObject* code);

// Gives a frame object back to a frame that is being re-created: it was left with a copy of the frame's contents, which
// it drops. Takes over the reference.
void attach_frame_object(Frame* frame, PyFrameObject* object);

// Makes a frame that was pushed for another function one of `function`.
void change_function(Frame* frame, PyFunctionObject* function);

// What a loop activation puts between the thread state and its frames.
class Activation {
 public:
  Activation(ThreadState* ts, Frame* entry) : ts_(ts) {
    _PyCFrame* outer = ts->cframe;
    link_.use_tracing = outer->use_tracing;
    link_.previous = outer;
    entry->is_entry = true;
    entry->previous = outer->current_frame;
    link_.current_frame = entry;
    ts->cframe = &link_;
  }
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

  void set_current(Frame* frame) { link_.current_frame = frame; }
  // 0, or 255 while tracing is on: or-ed to an opcode byte, it leads to kTracedOpcode.
  uint8_t use_tracing() const { return link_.use_tracing; }
  // Must be called exactly once, on every way out of the loop.
  void leave() {
    ts_->cframe = link_.previous;
    ts_->cframe->use_tracing = link_.use_tracing;
  }

 private:
  ThreadState* ts_;
  _PyCFrame link_;
};

// Starts the stack of frames anew, as at the start of a thread: what runs below sees no frame above itself.
class FreshStack {
 public:
  explicit FreshStack(ThreadState* ts);
  ~FreshStack();
  FreshStack(const FreshStack&) = delete;
  FreshStack& operator=(const FreshStack&) = delete;

 private:
  ThreadState* ts_;
  _PyCFrame link_;
  int used_recursion_;
};

inline bool enter_recursion(ThreadState* ts) {
  if (ts->recursion_remaining-- <= 0 && _Py_CheckRecursiveCall(ts, "") != 0) {
    ts->recursion_remaining--;  // balances the leave_recursion() of the unwinding frame
    return false;
  }
  return true;
}
inline void leave_recursion(ThreadState* ts) { ts->recursion_remaining++; }

// The frame-evaluation hook of the interpreter (PEP 523).
using EvalFunction = _PyFrameEvalFunction;
inline PyObject* run_in_default_loop(ThreadState* ts, Frame* frame, int throwflag) {
  return _PyEval_EvalFrameDefault(ts, frame, throwflag);
}
inline bool is_default_loop(EvalFunction hook) { return hook == &_PyEval_EvalFrameDefault; }
inline EvalFunction current_hook(ThreadState* ts) {
  EvalFunction hook = ts->interp->eval_frame;
  return hook ? hook : _PyEval_EvalFrameDefault;
}
inline void set_hook(ThreadState* ts, EvalFunction hook) { _PyInterpreterState_SetEvalFrameFunc(ts->interp, hook); }
// sys.settrace or sys.setprofile is on: frames run in CPython's own loop, which gives the events.
inline bool is_traced(ThreadState* ts) { return ts->cframe->use_tracing != 0; }
inline Frame* current_frame(ThreadState* ts) { return ts->cframe->current_frame; }
inline ThreadState* current_thread() { return _PyThreadState_GET(); }

}  // namespace alternator::py
