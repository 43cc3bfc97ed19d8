// f"{tensor}" for a call that is put off until the graph has run (alternator/deferring.py). While tracing, a mark stands for
// the text. No code may look at it but that of the call, so it is only made if the instructions behind it, up to the call,
// leave it on the stack or put it into a longer text.
#include "base/shortage.h"
#include "interp/hook.h"
#include "record/recorder.h"

namespace alternator::record {

using py::Op;

namespace {

// The callable that gets a text, or what it becomes a part of, as an argument. `top` is the height of the stack when the
// text has just become its topmost value. Null if it goes elsewhere, or if that cannot be told.
PyObject* find_reader(const py::CodeUnit* at, PyObject* const* base, int top) {
  int text = top - 1, height = top;
  while (true) {
    py::Instruction instruction(at);
    const py::OpRow& row = py::op_row(instruction.op);
    if (row.jump != py::Jump::None || row.next != py::Next::Falls) {
      return nullptr;
    }
    bool taken = text >= height - py::count_touched(instruction.op, instruction.oparg);
    height += py::stack_effect(instruction.op, instruction.oparg, false);
    if (taken && instruction.op == Op::kCALL) {
      int function = base[height - 1] != nullptr ? height - 1 : height;  // a method's function, or behind a null
      return height >= 1 && text > height ? base[function] : nullptr;
    }
    if (taken && instruction.op != Op::kBUILD_STRING) {
      return nullptr;
    }
    text = taken ? height - 1 : text;
    at = instruction.at + 1 + py::cache_units(instruction.op);
  }
}

}  // namespace

bool Recorder::defer_text(int oparg) {
  bool has_spec = oparg & 4;
  PyObject** value = position_.stack_top - (has_spec ? 2 : 1);
  if (!source::is_tensor(*value) || (oparg & 3) > 1) {
    return false;
  }
  PyObject** base = py::stack_base(position_.frame);
  py::Instruction instruction(position_.instruction);
  PyObject* reader = find_reader(instruction.at + 1, base, static_cast<int>(value - base) + 1);
  if (reader == nullptr) {
    return false;
  }
  Ref<> spec = has_spec ? share(value[1]) : steal(PyUnicode_FromString(""));
  interp::Unobserved native;
  Ref<> mark = spec ? steal(PyObject_CallMethod(tracer_, "make_mark", "OOO", reader, *value, spec.get())) : nullptr;
  if (!mark || !PyUnicode_CheckExact(mark.get())) {
    forget_error();
    return ended_;
  }
  deferred_texts_ = true;
  opaque_ = false;
  Py_SETREF(*value, mark.release());
  if (has_spec) {
    Py_SETREF(value[1], PyUnicode_FromString(""));
  }
  return true;
}

}  // namespace alternator::record
