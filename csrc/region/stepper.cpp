#include "region/stepper.h"

#include "interp/hook.h"
#include "interp/watch.h"
#include "record/operands.h"
#include "record/purity.h"
#include "source/value.h"
#include "torch/facts.h"

namespace alternator::region {
namespace {

using py::Op;

bool is_for_torch(PyObject* value) {
  return value != nullptr && (source::is_tensor(value) || record::purity_of(value) == record::Purity::Torch);
}

// Whether an instruction may be worth the start of a region.
bool touches_tensors(const interp::Position& position) {
  const py::CodeUnit* at = position.instruction;
  int oparg = py::oparg_of(*at);
  while (py::canonical(*at) == Op::kEXTENDED_ARG) {
    oparg = oparg << 8 | py::oparg_of(*++at);
  }
  Op op = py::canonical(*at);
  if (op == Op::kKW_NAMES) {
    oparg = py::oparg_of(at[1]);
  }
  bool call = op == Op::kCALL || op == Op::kKW_NAMES || op == Op::kCALL_FUNCTION_EX;
  if (record::only_moves(op) && !call) {
    return false;
  }
  int count = record::count_touched(op, oparg);
  Py_ssize_t depth = position.stack_top - py::stack_base(position.frame);
  for (int i = 1; i <= count && i <= depth; ++i) {
    if (is_for_torch(position.stack_top[-i])) {
      return true;
    }
  }
  return false;
}

// A function that has a break inside and works with addresses: no region can begin in the middle of it.
bool calls_by_address(const interp::Position& position) {
  auto [at, oparg, op] = py::Instruction(position.instruction);
  if (op == Op::kKW_NAMES) {
    oparg = py::oparg_of(at[1]);
  } else if (op != Op::kCALL) {
    return false;
  }
  PyObject** arguments = position.stack_top - oparg;
  PyObject* callable = arguments[arguments[-2] != nullptr ? -2 : -1];
  return callable != nullptr && record::purity_of(callable) == record::Purity::Keyed;
}

// A region has guards and slots for each frame that it stands on, and each depth of a recursion is a point of its own: a
// recursion that breaks at each level would need their square. Deeper calls are left to run for real.
constexpr int kMaximumFrames = 200;

bool is_too_deep(const interp::Position& position) {
  const py::Frame* frame = position.frame;
  for (int depth = 1; frame != position.entry; frame = frame->previous) {
    if (++depth > kMaximumFrames) {
      return true;
    }
  }
  return false;
}

}  // namespace

Ref<> Stepper::run(interp::StackState state) {
  code_ = state.frames.front().code.get();
  interp::UnwatchedCalls unwatched;
  interp::Interpreting interpreting(this);
  Ref<> result = interp::recreate(std::move(state));
  if (stopped_) {
    PyErr_Clear();  // the mark of the abandoned run
  }
  return result;
}

interp::Verdict Stepper::before_instruction(const interp::Position& position) {
  if (depth_ != 1 || foreign_ > 0 || over_) {
    return interp::Verdict::Go;
  }
  interp::Verdict verdict = decide(position);
  if (verdict != interp::Verdict::Abandon) {
    interp::show_instruction(position, 1);
  }
  return verdict;
}

interp::Verdict Stepper::decide(const interp::Position& position) {
  if (!begun_) {
    begun_ = true;
    return dull_ && !calls_by_address(position) ? interp::Verdict::Go : interp::Verdict::Opaque;
  }
  if (is_too_deep(position)) {
    return interp::Verdict::Opaque;
  }
  if (tensor::has_modes() || (dull_ && !touches_tensors(position))) {
    // A mode sees every call, until it is switched off.
    return calls_by_address(position) ? interp::Verdict::Opaque : interp::Verdict::Go;
  }
  stopped_ = interp::take_snapshot(position);
  return interp::Verdict::Abandon;
}

}  // namespace alternator::region
