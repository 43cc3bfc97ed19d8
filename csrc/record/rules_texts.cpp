// Texts that are made of numbers which may be others next time, the sizes of a tensor, say: what the text is made of is
// relied on where somebody looks at the text. A message that nobody gets to see costs no guard.
//
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

// Numbers and texts, and sequences of them, whose text C code makes of them alone.
bool is_plainly_shown(PyObject* value, int depth = 0) {
  constexpr int kDeepest = 8;  // a list may hold itself
  if (!source::is_plain_sequence(value)) {
    return source::is_number(value) || PyUnicode_CheckExact(value);
  }
  for (Py_ssize_t i = 0; i < Py_SIZE(value); ++i) {
    PyObject* item = PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i);
    if (depth == kDeepest || !is_plainly_shown(item, depth + 1)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool Recorder::make_text(Op op, int oparg) {
  if (op == Op::kFORMAT_VALUE) {
    return oparg & 4 ? follow_text({peek(2), peek(1)}) : follow_text({peek(1)});
  }
  if (op == Op::kBINARY_OP && PyUnicode_CheckExact(peek(2)) &&
      (oparg == NB_REMAINDER || (oparg == NB_ADD && PyUnicode_CheckExact(peek(1))))) {
    return follow_text({peek(2), peek(1)});
  }
  if (op != Op::kBUILD_STRING) {
    return false;
  }
  Ref<> parts = steal(PyTuple_New(oparg));
  for (int i = 0; parts && i < oparg; ++i) {
    PyTuple_SET_ITEM(parts.get(), i, Py_NewRef(peek(oparg - i)));
  }
  PyErr_Clear();
  return parts && follow_text({parts.get()});
}

bool Recorder::follow_text(std::initializer_list<PyObject*> values) {
  if (!follows_anything()) {
    return false;
  }
  Followed text;
  for (PyObject* value : values) {
    if (!is_plainly_shown(value) || graph_.is_outside(value)) {
      return false;
    }
    visit_deep(value, [&](PyObject* object) {
      if (is_followed(object)) text.parts.push_back(share(object));
    });
  }
  for (const Ref<>& part : text.parts) {
    auto found = followed_.find(part.get());
    int slot = start_->slot_of_copy(part.get());
    bool varies = slot >= 0 && !varying_.empty() && varying_[slot];
    bool unknown = found != followed_.end() && (found->second.is_address || found->second.is_item());
    if (varies || unknown ||
        (found != followed_.end() && found->second.symbol && !has_value(found->second.symbol.get()))) {
      return false;
    }
  }
  if (text.is_text()) {
    await(std::move(text), nullptr);
    return true;
  }
  return false;
}

bool Recorder::has_value(PyObject* symbol) {
  interp::Unobserved native;
  Ref<> answer = steal(PyObject_CallMethod(tracer_, "has_value", "O", symbol));
  PyErr_Clear();
  return answer.get() == Py_True;
}

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
