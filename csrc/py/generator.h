// Resuming generators and coroutines without a C function in between: what gen_send_ex2() does around the loop.
#pragma once

#include "py/frame.h"

namespace alternator::py {

inline bool is_resumable(const PyGenObject* generator) { return generator->gi_frame_state < FRAME_EXECUTING; }
inline bool is_just_created(const PyGenObject* generator) { return generator->gi_frame_state == FRAME_CREATED; }
inline bool is_suspended(const PyGenObject* generator) { return generator->gi_frame_state == FRAME_SUSPENDED; }

// Puts the generator's exception state on top and the sent value on its stack. The frame is not linked yet.
inline Frame* enter_generator(ThreadState* ts, PyGenObject* generator, PyObject* sent) {
  Frame* frame = frame_of(generator);
  Py_INCREF(sent);
  _PyFrame_StackPush(frame, sent);
  generator->gi_exc_state.previous_item = ts->exc_info;
  ts->exc_info = &generator->gi_exc_state;
  generator->gi_frame_state = FRAME_EXECUTING;
  return frame;
}

enum class GeneratorExit { Yielded, Returned, Raised };

// Takes the exception state off again; if the body ended, ends the generator. `value` is null if it raised.
GeneratorExit leave_generator(ThreadState* ts, Frame* frame, PyObject* value);

inline void mark_executing(Frame* frame) { generator_of(frame)->gi_frame_state = FRAME_EXECUTING; }
inline void mark_cleared(Frame* frame) { generator_of(frame)->gi_frame_state = FRAME_CLEARED; }
inline void mark_suspended(Frame* frame) { generator_of(frame)->gi_frame_state = FRAME_SUSPENDED; }

// Drops what a suspended generator holds, as if its body had ended: nothing of it runs.
void empty_generator(PyGenObject* generator);

// The awaitable behind `await o`, and what it is waiting for. New references; null with an exception set.
PyObject* awaitable_iterator(PyObject* object);
bool is_awaited_already(PyObject* coroutine);

// The current exception of the thread or of the running generator: what sys.exc_info() shows. Borrowed or null.
inline PyObject* handled_exception(ThreadState* ts) { return ts->exc_info->exc_value; }
// Sets it and returns what was there: references are moved.
inline PyObject* swap_handled_exception(ThreadState* ts, PyObject* exception) {
  PyObject* old = ts->exc_info->exc_value;
  ts->exc_info->exc_value = exception;
  return old;
}
inline PyObject* topmost_handled_exception(ThreadState* ts) { return _PyErr_GetTopmostException(ts)->exc_value; }

}  // namespace alternator::py
