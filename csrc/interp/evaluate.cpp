// The loop: dispatch, frame changes, unwinding. What the instructions do is in op_*.h.
//
//            ┌────────────── Next ──────────────┐
//            ▼                                  │
//   hook ─> dispatch ─> handler ─> Flow ────────┤
//            ▲                      ├─ Enter ───┤ callee's frame on top
//            │                      ├─ Return, Yield ─> caller's frame completes its instruction; entry: back to C
//            └── handler found ─────┼─ Error, Unwind ─> exception table; none: as for Return, with no value
//                                   └─ HandOver ─> CPython's loop finishes this frame
#include "interp/evaluate.h"

#include <optional>
#include <utility>

#include "interp/hook.h"
#include "interp/machine.h"
#include "interp/op_build.h"
#include "interp/op_call.h"
#include "interp/op_control.h"
#include "interp/op_exception.h"
#include "interp/op_generator.h"
#include "interp/op_match.h"
#include "interp/op_name.h"
#include "interp/op_number.h"
#include "interp/op_stack.h"
#include "interp/snapshot.h"
#include "py/code.h"
#include "py/pending.h"
#include "py/trace.h"

namespace alternator::interp {

uint64_t frames_handed_over = 0;

namespace {

// Reads the registers from a frame.
template <bool kObserved>
ALTERNATOR_INLINE void load(Machine& m, py::Frame* frame) {
  PyCodeObject* code = frame->f_code;
  m.frame = frame;
  m.names = code->co_names;
  m.consts = code->co_consts;
  m.first = py::first_instruction(code);
  m.next = frame->prev_instr + 1;
  m.locals = frame->localsplus;
  m.sp = frame->localsplus + frame->stacktop;
  m.caches = kObserved ? nullptr : caches_of(code);
  m.kwnames = nullptr;
  frame->stacktop = -1;  // the collector must not look at the stack of a running frame
}

ALTERNATOR_INLINE void save_stack(Machine& m) { m.frame->stacktop = static_cast<int>(m.sp - m.locals); }

ALTERNATOR_INLINE void drop_stack_to(Machine& m, PyObject** limit) {
  while (m.sp > limit) {
    Py_XDECREF(m.pop());
  }
}

// A callee ended with `value`: completes the caller's instruction, which is in progress. `exit` tells of a generator.
ALTERNATOR_INLINE void complete(Machine& m, std::optional<py::GeneratorExit> exit, PyObject* value) {
  if (!exit.has_value()) {
    if (py::is_instruction(m.code(), m.next - 1, Op::kCALL_FUNCTION_EX)) {
      drop_star_arguments(m, py::oparg_of(m.next[-1]));
    }
    m.push(value);
    return;
  }
  if (*exit == py::GeneratorExit::Yielded) {
    m.push(value);
    return;
  }
  // A generator is at its end: FOR_ITER drops it and the value, SEND replaces it by the value; both jump.
  int offset = static_cast<int>(m.next - 1 - m.first);
  if (py::canonical(m.first[offset]) == Op::kFOR_ITER) {
    Py_DECREF(value);
    m.drop();
  } else {
    Py_DECREF(m.top());
    m.top() = value;
  }
  m.jump_by(py::full_oparg(m.code(), offset));
}

// Puts the exception that is set onto the stack of its handler and goes there. False if there is no handler.
ALTERNATOR_INLINE bool enter_handler(Machine& m) {
  py::Handler handler;
  PyObject* offset = nullptr;
  do {
    // Not by prev_instr: RERAISE may have set it back for the traceback's sake.
    if (!py::find_handler(m.code(), static_cast<int>(m.next - m.first) - 1, &handler)) {
      return false;
    }
    drop_stack_to(m, py::stack_base(m.frame) + handler.depth);
    if (handler.push_lasti) {
      // Out of memory: that is the exception now, and the same handler gets it.
      offset = PyLong_FromLong(static_cast<long>(m.frame->prev_instr - m.first));
    }
  } while (handler.push_lasti && offset == nullptr);
  if (handler.push_lasti) {
    m.push(offset);
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_XDECREF(type);
  m.push(value);
  m.next = m.first + handler.target;
  return true;
}

#define DISPATCH_UNOBSERVED()                                       \
  do {                                                              \
    m.frame->prev_instr = m.next;                                   \
    py::CodeUnit unit = *m.next++;                                  \
    m.oparg = py::oparg_of(unit);                                   \
    goto* targets[py::raw_opcode(unit) | activation.use_tracing()]; \
  } while (0)

#define DISPATCH()           \
  do {                       \
    if constexpr (kObserved) \
      goto observe;          \
    else                     \
      DISPATCH_UNOBSERVED(); \
  } while (0)

// After a handler. Most handlers return a constant, and the switch is folded away.
#define FOLLOW(flow)                                                     \
  switch (flow) {                                                        \
    case Flow::Next: DISPATCH();                                         \
    case Flow::Pending:                                                  \
      if (ALTERNATOR_UNLIKELY(py::has_pending_work(m.ts))) goto pending; \
      DISPATCH();                                                        \
    case Flow::Error: goto error;                                        \
    case Flow::Unwind: goto unwind;                                      \
    case Flow::Enter: goto enter;                                        \
    case Flow::Return:                                                   \
    case Flow::Yield: goto leave_with_value;                             \
    case Flow::HandOver: goto hand_over;                                 \
    case Flow::Prefix: goto prefix;                                      \
  }                                                                      \
  __builtin_unreachable()

template <bool kObserved>
__attribute__((noinline)) PyObject* run(py::ThreadState* ts, py::Frame* entry, int throwflag,
                                        [[maybe_unused]] Observer* observer, StackState* restoring) {
  // By CPython's opcode byte, whatever its specialisation. Filled on the first run, under the GIL.
  static const void* targets[256];
  if (ALTERNATOR_UNLIKELY(targets[0] == nullptr)) {
    static const void* const by_op[] = {
        &&target_unknown,
#define OP(name, ...) &&target_##name,
#include "py/opcode.def"
#undef OP
    };
    for (int i = 255; i >= 0; --i) {
      targets[i] = by_op[static_cast<int>(py::canonical_table[i])];
    }
    targets[py::kTracedOpcode] = &&hand_over;
  }

  py::Activation activation(ts, entry);
  Machine m;
  m.ts = ts;
  m.callee = nullptr;
  m.value = nullptr;
  m.oparg = 0;
  m.observed = kObserved;
  m.opaque = false;
  [[maybe_unused]] ThreadMode mode_around_opaque;
  if (ALTERNATOR_UNLIKELY(!py::enter_recursion(ts))) {
    m.frame = entry;
    goto leave;
  }
  if (ALTERNATOR_UNLIKELY(restoring != nullptr)) {
    restore_entry(ts, restoring, entry);
    py::Frame* innermost = entry;
    for (size_t i = 1; i < restoring->frames.size(); ++i) {
      py::Frame* callee = restore_callee(ts, restoring, i, innermost);
      if (callee == nullptr) {
        // Out of memory: the frames that are there already are left by that exception.
        *restoring = StackState();
        load<kObserved>(m, innermost);
        goto error;
      }
      ts->recursion_remaining--;
      activation.set_current(callee);
      innermost = callee;
    }
    *restoring = StackState();  // it must keep nothing alive
    load<kObserved>(m, innermost);
    DISPATCH();
  }
  load<kObserved>(m, entry);
  if (throwflag) {
    goto error;
  }
  DISPATCH();

observe:
  __attribute__((unused));
  if constexpr (kObserved) {
    // KW_NAMES, PRECALL and CALL are one step: the names are no part of the frame.
    if (m.kwnames == nullptr) {
      if (m.opaque) {
        m.opaque = false;
        thread_mode = mode_around_opaque;
      }
      ALTERNATOR_CHECK(
          m.sp - py::stack_base(m.frame) == stack_shape(m.code(), static_cast<int>(m.next - m.first)).depth,
          "the value stack has the depth that the stack effects of opcode.def give");
      Position position{ts, m.frame, entry, m.next, m.sp};
      Verdict verdict = observer->before_instruction(position);
      if (verdict == Verdict::Abandon) {
        goto abandon;
      }
      if (verdict == Verdict::Raise) {
        m.frame->prev_instr = m.next++;
        goto error;
      }
      if (verdict == Verdict::Opaque) {
        m.opaque = true;
        mode_around_opaque = std::exchange(thread_mode, ThreadMode());
        thread_mode.taker = observer->taker_of_opaque();
      }
    }
    DISPATCH_UNOBSERVED();
  }

#define OP(name, ...) target_##name : FOLLOW(op_##name(m));
#include "py/opcode.def"
#undef OP

prefix:
  {  // EXTENDED_ARG: the instruction behind it has a longer oparg
    py::CodeUnit unit = *m.next;
    m.oparg = m.oparg << 8 | py::oparg_of(unit);
    m.frame->prev_instr = m.next++;
    goto* targets[py::raw_opcode(unit)];
  }

target_unknown:
  PyErr_SetString(PyExc_SystemError, "unknown opcode");
  goto error;

pending:
  if ((kObserved && observer->defers_pending_work()) || py::do_pending_work(ts)) {
    DISPATCH();
  }
  goto error;

enter:
  save_stack(m);
  m.callee->previous = m.frame;
  m.callee->is_entry = false;
  activation.set_current(m.callee);
  if (ALTERNATOR_UNLIKELY(!py::enter_recursion(ts))) {
    m.frame = m.callee;
    goto leave;
  }
  load<kObserved>(m, m.callee);
  DISPATCH();

error:
  if constexpr (kObserved) {
    if (m.opaque) {
      m.opaque = false;
      thread_mode = mode_around_opaque;
    }
  }
  m.kwnames = nullptr;
  if (ALTERNATOR_UNLIKELY(!PyErr_Occurred())) {
    PyErr_SetString(PyExc_SystemError, "error return without exception set");
  }
  if constexpr (kObserved) {
    if (observer->on_exception({ts, m.frame, entry, m.next - 1, m.sp}) == Verdict::Abandon) {
      --m.next;  // it stands in its instruction
      goto abandon;
    }
  }
  if (!py::is_incomplete(m.frame)) {
    py::add_traceback(ts);
  }
  py::trace_exception(ts);

unwind:
  if (enter_handler(m)) {
    DISPATCH();
  }
  drop_stack_to(m, py::stack_base(m.frame));
  save_stack(m);
  if (activation.use_tracing()) {
    py::trace_unwinding(ts);
  }
  m.value = nullptr;
  goto leave;

leave_with_value:
  save_stack(m);

leave:  // the frame is done with `value`, null for an exception
  py::leave_recursion(ts);
  if (m.frame->is_entry) {
    if constexpr (kObserved) {
      if (m.opaque) {  // a return that was one step
        thread_mode = mode_around_opaque;
      }
    }
    activation.leave();
    return m.value;
  }

left:
  {  // .. and is not the entry
    py::Frame* done = m.frame;
    py::Frame* caller = done->previous;
    PyObject* value = std::exchange(m.value, nullptr);
    // Unlinked first: finalisers that run now must not see it.
    activation.set_current(caller);
    std::optional<py::GeneratorExit> exit;
    if (py::is_generator_frame(done)) {
      exit = py::leave_generator(ts, done, value);
    } else {
      py::clear_and_pop_frame(ts, done);
    }
    load<kObserved>(m, caller);
    if (ALTERNATOR_UNLIKELY(value == nullptr)) {
      goto error;
    }
    complete(m, exit, value);
    DISPATCH();
  }

hand_over:
  {  // CPython's loop goes on, at the instruction that was just fetched
    ++frames_handed_over;
    py::Frame* frame = m.frame;
    int start = py::instruction_start(m.code(), static_cast<int>(m.next - 1 - m.first));
    frame->prev_instr = m.first + start - 1;
    save_stack(m);
    py::leave_recursion(ts);
    if (frame->is_entry) {
      activation.leave();
      return py::run_in_default_loop(ts, frame, 0);
    }
    activation.set_current(frame->previous);
    m.value = py::run_in_default_loop(ts, frame, 0);
    frame->is_entry = false;
    goto left;
  }

abandon:
  __attribute__((unused));
  {                 // no handlers, no tracebacks: the frames are gone as if they had never been
    Ref<> ambient;  // the exception that was current before the frames' handlers
    while (true) {
      find_ambient_exception(m.frame, static_cast<int>(m.next - m.first), &ambient);
      drop_stack_to(m, py::stack_base(m.frame));
      save_stack(m);
      py::leave_recursion(ts);
      if (m.frame->is_entry) {
        break;
      }
      py::Frame* done = m.frame;
      py::Frame* caller = done->previous;
      activation.set_current(caller);
      if (py::is_generator_frame(done)) {
        abandon_generator(ts, done);
      } else {
        py::clear_and_pop_frame(ts, done);
      }
      load<kObserved>(m, caller);
      --m.next;  // the caller stands in its instruction, not behind it
    }
    if (ambient) {
      Py_XDECREF(py::swap_handled_exception(ts, ambient.release()));
    }
    activation.leave();
    PyErr_SetString(PyExc_SystemError, "alternator: a run was abandoned");
    return nullptr;
  }
}

}  // namespace

PyObject* evaluate(py::ThreadState* ts, py::Frame* entry, int throwflag, StackState* restoring) {
  return run<false>(ts, entry, throwflag, nullptr, restoring);
}

PyObject* evaluate_observed(py::ThreadState* ts, py::Frame* entry, int throwflag, Observer* observer,
                            StackState* restoring) {
  observer->enter(entry);
  PyObject* result = run<true>(ts, entry, throwflag, observer, restoring);
  observer->leave();
  return result;
}

}  // namespace alternator::interp
