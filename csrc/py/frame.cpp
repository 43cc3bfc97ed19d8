#include "py/frame.h"

#include "base/shortage.h"

#include <cstdio>
#include <cstring>

namespace alternator::py {
namespace {

// The frame object outlives its frame: it takes the contents over, and is linked to the frame objects above.
void give_to_frame_object(PyFrameObject* object, Frame* frame) {
  // Needs the link through `previous`, so before the copy. Makes the caller's frame object if there is none yet; if
  // memory is short, the chain ends here. An exception may be on its way through this frame: it must survive.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyFrameObject* back = PyFrame_GetBack(object);
  PyErr_Restore(type, value, traceback);
  size_t size = reinterpret_cast<char*>(&frame->localsplus[frame->stacktop]) - reinterpret_cast<char*>(frame);
  auto* owned = reinterpret_cast<Frame*>(object->_f_frame_data);
  std::memcpy(static_cast<void*>(owned), frame, size);
  object->f_frame = owned;
  owned->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  if (is_incomplete(owned)) {
    // It is dead anyway: pretend that its first RESUME ran, so that it can be looked at.
    owned->prev_instr = first_instruction(owned->f_code) + owned->f_code->_co_firsttraceable;
  }
  owned->previous = nullptr;
  object->f_back = back;
  if (!_PyObject_GC_IS_TRACKED(reinterpret_cast<PyObject*>(object))) {
    PyObject_GC_Track(object);
  }
}

}  // namespace

bool push_chunk(ThreadState* ts, size_t size) {
  // As CPython: 16 KiB, or doubled until the frame fits. The memory comes from and goes back to the arena allocator,
  // because CPython may free our chunks and we its chunks.
  size_t bytes = 16 * 1024;
  while (bytes < sizeof(PyObject*) * (size + 1000)) {
    bytes *= 2;
  }
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  auto* chunk = static_cast<_PyStackChunk*>(arena.alloc(arena.ctx, bytes));
  if (chunk == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  chunk->previous = ts->datastack_chunk;
  chunk->size = bytes;
  chunk->top = 0;
  if (chunk->previous != nullptr) {
    chunk->previous->top = ts->datastack_top - &chunk->previous->data[0];
  }
  ts->datastack_chunk = chunk;
  ts->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(chunk) + bytes);
  // A frame at the very start of a chunk takes the chunk with it; the thread's first chunk must stay.
  ts->datastack_top = &chunk->data[chunk->previous == nullptr ? 1 : 0];
  return true;
}

void pop_chunk(ThreadState* ts) {
  _PyStackChunk* chunk = ts->datastack_chunk;
  _PyStackChunk* previous = chunk->previous;
  ts->datastack_top = &previous->data[previous->top];
  ts->datastack_chunk = previous;
  ts->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
}

void clear_frame(Frame* frame) {
  if (frame->frame_obj != nullptr) {
    PyFrameObject* object = frame->frame_obj;
    if (Py_REFCNT(object) > 1) {
      frame->frame_obj = nullptr;
      give_to_frame_object(object, frame);
      Py_DECREF(object);
      return;
    }
    frame->frame_obj = nullptr;
    Py_DECREF(object);
  }
  for (int i = 0; i < frame->stacktop; ++i) {
    Py_XDECREF(frame->localsplus[i]);
  }
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_func);
  Py_DECREF(frame->f_code);
}

void add_traceback(ThreadState* ts) {
  PyFrameObject* object = PyThreadState_GetFrame(ts);
  if (object != nullptr) {
    PyTraceBack_Here(object);
    Py_DECREF(object);
  }
}

int line_of(Frame* frame) {
  return PyCode_Addr2Line(frame->f_code, _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(CodeUnit)));
}

const char* describe_place(Frame* frame, char* buffer, size_t size) {
  const char* file = PyUnicode_AsUTF8(frame->f_code->co_filename);
  const char* name = PyUnicode_AsUTF8(frame->f_code->co_qualname);
  if (file == nullptr || name == nullptr) {
    forget_error();
  }
  std::snprintf(buffer, size, "%s:%d in %s", file ? file : "?", line_of(frame), name ? name : "?");
  return buffer;
}

bool revive_generator(PyGenObject* generator, PyFunctionObject* function, PyCodeObject* code) {
  if (generator->gi_frame_state == FRAME_EXECUTING) {
    return false;
  }
  Frame* frame = frame_of(generator);
  if (generator->gi_frame_state < FRAME_CLEARED) {
    generator->gi_frame_state = FRAME_CLEARED;
    clear_frame(frame);
  }
  Py_INCREF(function);
  initialise_frame(frame, function, code, nullptr);
  frame->owner = FRAME_OWNED_BY_GENERATOR;
  frame->previous = nullptr;
  generator->gi_frame_state = FRAME_SUSPENDED;
  return true;
}

void attach_frame_object(Frame* frame, PyFrameObject* object) {
  Frame* copy = object->f_frame;
  object->f_frame = frame;
  Py_CLEAR(object->f_back);
  frame->frame_obj = object;
  copy->frame_obj = nullptr;
  clear_frame(copy);
  copy->stacktop = 0;
}

void change_function(Frame* frame, PyFunctionObject* function) {
  PyFunctionObject* old = frame->f_func;
  Py_INCREF(function);
  frame->f_func = function;
  frame->f_builtins = function->func_builtins;
  frame->f_globals = function->func_globals;
  Py_DECREF(old);
}

FreshStack::FreshStack(ThreadState* ts) : ts_(ts) {
  link_.use_tracing = ts->cframe->use_tracing;
  link_.previous = ts->cframe;
  link_.current_frame = nullptr;
  ts->cframe = &link_;
  used_recursion_ = ts->recursion_limit - ts->recursion_remaining;
  ts->recursion_remaining = ts->recursion_limit;
}

FreshStack::~FreshStack() {
  ts_->cframe = link_.previous;
  ts_->cframe->use_tracing = link_.use_tracing;
  ts_->recursion_remaining = ts_->recursion_limit - used_recursion_;
}

}  // namespace alternator::py
