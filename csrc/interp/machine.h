// The registers of the loop and what a handler may say about how to go on.
//
// Handlers are small inline functions `Flow op_NAME(Machine&)`, by family in op_*.h. They are all inlined into the loop
// (evaluate.cpp), where the compiler keeps the registers in machine registers: so a handler must never pass the
// Machine itself to a function that is not inlined.
#pragma once

#include "base/error.h"
#include "interp/cache.h"
#include "py/frame.h"
#include "py/names.h"
#include "py/opcode.h"

#define ALTERNATOR_INLINE inline __attribute__((always_inline))
#define ALTERNATOR_COLD __attribute__((noinline, cold))
#define ALTERNATOR_LIKELY(x) __builtin_expect(!!(x), 1)
#define ALTERNATOR_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace alternator::interp {

using py::Op;

enum class Flow {
  Next,      // go on at `next`
  Pending,   // the same, after serving signals and other threads
  Error,     // an exception was raised here: add to its traceback, find a handler
  Unwind,    // an exception goes on: find a handler
  Enter,     // run `callee`, then complete this instruction with its result
  Return,    // the frame ends with `value`
  Yield,     // the frame is suspended with `value`
  Prefix,    // the next instruction's oparg is longer
  HandOver,  // CPython's loop goes on with this frame, at this instruction
};

struct Machine {
  py::ThreadState* ts;
  py::Frame* frame;
  py::CodeUnit* next;  // behind the instruction that runs
  PyObject** sp;       // first free slot of the value stack
  PyObject** locals;
  PyObject* names;
  PyObject* consts;
  py::CodeUnit* first;
  CodeCaches* caches;  // null in observed runs
  PyObject* kwnames;   // between KW_NAMES and CALL, borrowed
  py::Frame* callee;   // with Flow::Enter
  PyObject* value;     // with Flow::Return and Flow::Yield, owned
  int oparg;
  bool observed;
  bool opaque;  // the call that runs is opaque to the observer: no frame is entered here

  ALTERNATOR_INLINE void push(PyObject* object) { *sp++ = object; }
  ALTERNATOR_INLINE void push_shared(PyObject* object) {
    Py_INCREF(object);
    *sp++ = object;
  }
  ALTERNATOR_INLINE PyObject* pop() { return *--sp; }
  ALTERNATOR_INLINE void drop() { Py_DECREF(*--sp); }
  ALTERNATOR_INLINE PyObject*& peek(int depth) { return sp[-depth]; }
  ALTERNATOR_INLINE PyObject*& top() { return sp[-1]; }
  ALTERNATOR_INLINE PyObject* name(int index) const { return PyTuple_GET_ITEM(names, index); }
  ALTERNATOR_INLINE void set_local(int index, PyObject* object) {
    PyObject* old = locals[index];
    locals[index] = object;
    Py_XDECREF(old);
  }
  ALTERNATOR_INLINE void jump_by(int units) { next += units; }
  ALTERNATOR_INLINE void skip_caches(Op op) { next += py::cache_units(op); }
  // The cache line of the instruction that runs, or null.
  ALTERNATOR_INLINE CacheLine* cache_line() const {
    return caches ? &caches->lines[caches->line_of[next - 1 - first]] : nullptr;
  }
  ALTERNATOR_INLINE PyCodeObject* code() const { return frame->f_code; }

  // Replaces the top by a result, or raises if there is none.
  ALTERNATOR_INLINE Flow set_top_or_error(PyObject* result) {
    top() = result;
    if (ALTERNATOR_UNLIKELY(result == nullptr)) {
      --sp;
      return Flow::Error;
    }
    return Flow::Next;
  }
  ALTERNATOR_INLINE Flow push_or_error(PyObject* result) {
    if (ALTERNATOR_UNLIKELY(result == nullptr)) {
      return Flow::Error;
    }
    push(result);
    return Flow::Next;
  }
};

}  // namespace alternator::interp
