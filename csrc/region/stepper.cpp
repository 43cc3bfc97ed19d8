#include "region/stepper.h"

#include "interp/hook.h"
#include "interp/watch.h"
#include "py/call_site.h"
#include "record/contract.h"
#include "source/value.h"
#include "torch/facts.h"

namespace alternator::region {
namespace {

bool is_for_torch(PyObject* value) {
  return value != nullptr && (source::is_tensor(value) || record::recorder_of(value) == record::RecordedBy::Torch);
}

// Whether an instruction may be worth the start of a region.
bool touches_tensors(const interp::Position& position) {
  py::Step step(position.instruction);
  if (py::only_moves(step.op)) {
    return false;
  }
  int count = py::count_touched(step.op, step.oparg);
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
  auto site = py::CallSite::at(position.instruction, position.frame->f_code, position.stack_top);
  PyObject* callable = site && !site->is_star_call() ? *site->callable : nullptr;
  return callable != nullptr && record::recorder_of(callable) == record::RecordedBy::Keyed;
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
  if (!interp::prepare_recreation(&state, state.frames.front().code.get(), state.frames.front().function.get())) {
    return nullptr;
  }
  Ref<PyFunctionObject> carrier = state.carrier.clone();
  Ref<> carrier_names = state.carrier_names.clone();
  Ref<> result = interp::recreate(std::move(state));
  if (stopped_) {
    stopped_->carrier = std::move(carrier);  // for the next time
    stopped_->carrier_names = std::move(carrier_names);
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
