// Runs programs, from region to region.
#include <utility>

#include "base/shortage.h"
#include "interp/watch.h"
#include "py/bound_arguments.h"
#include "record/session.h"
#include "region/attempt.h"
#include "region/call.h"
#include "region/call_objects.h"
#include "region/callees.h"
#include "region/stepper.h"

namespace alternator::region {
namespace {

// The state of a function that has not begun.
interp::StackState state_of_entry(py::ThreadState* ts, py::Frame* frame) {
  interp::FrameState entry;
  entry.function = Ref<PyFunctionObject>::share(frame->f_func);
  entry.code = Ref<PyCodeObject>::share(frame->f_code);
  for (int i = 0; i < frame->f_code->co_nlocalsplus; ++i) {
    entry.locals.push_back(share(frame->localsplus[i]));
  }
  interp::StackState state;
  state.frames.push_back(std::move(entry));
  state.handled = share(py::handled_exception(ts));
  return state;
}

// Runs a region whose guards hold, right after they were checked: its result, or the frames that go on. Null with an
// exception set. Null without one: the graph or the exit failed and did no harm; the program is to run for real from the
// region's start, where it does what it does before the exception, and raises it in its own lines.
ALTERNATOR_WARM Ref<> run_region(const Region& region, PyObject* const* slots, interp::StackState* next) {
  CallObjects objects(region);
  if (!objects.are_made()) {
    forget_error();
    return nullptr;
  }
  Ref<> outputs;
  Attempt attempt(region, objects);
  if (region.graph) {
    if (!attempt.begin()) {
      return nullptr;
    }
    outputs = objects.pass_inputs(region, region.graph.get());
    if (!outputs) {
      attempt.forgive();
      return nullptr;
    }
    region.has_run = true;
  }
  if (region.changes_state) {
    region.state_after.restore();
  }
  bool harmless;
  Ref<> result = exits::run_exit(region.exit, {objects.of_exit(region), slots, outputs.get()}, next, &harmless);
  if (!result && harmless) {
    attempt.forgive();
  }
  if (region.path && result) {
    interp::show_path(region.path.get());
  }
  return result;
}

}  // namespace

ALTERNATOR_WARM bool Captured::answer(Call* call, const py::BoundArguments& bound, Ref<>* result) {
  interp::Unobserved native;
  py::ThreadState* ts = py::current_thread();
  EntrySlots slots(ts, bound.function(), bound.locals(), bound.count());
  const std::shared_ptr<Point>& point = entry_point(bound.function());
  if (point->regions.empty() || py::is_traced(ts) || tensor::has_modes()) {
    return false;
  }
  // A region that needs a frame needs the objects that are made for the frame.
  if (bound.are_made() && !point->regions.back()->exit.frames.empty()) {
    return false;
  }
  std::shared_ptr<Region> region = find(*point, slots.data());
  if (region == nullptr || !region->exit.frames.empty()) {
    call->looked = region == nullptr || !bound.are_made();
    call->found = call->looked ? std::move(region) : nullptr;
    return false;
  }
  *result = run_region(*region, slots.data(), nullptr);
  if (!*result && !PyErr_Occurred()) {
    call->failed = true;
    return false;
  }
  return true;
}

ALTERNATOR_WARM PyObject* Captured::take(Call* call, py::ThreadState* ts, py::Frame* frame) {
  interp::Unobserved native;
  if (tensor::has_modes()) {
    return py::run_in_default_loop(ts, frame, 0);  // the user's own modes see every call
  }
  std::shared_ptr<Point> shared = entry_point(frame->f_func);
  Point& point = *shared;
  std::shared_ptr<Region> region = std::move(call->found);
  if (point.conduct == Conduct::Native && point.regions.empty() && call->inspecting == Inspection::No) {
    return run_natively(ts, frame);
  }
  EntrySlots slots(ts, frame->f_func, frame->localsplus, frame->f_code->co_nlocalsplus);
  if (call->inspecting != Inspection::No) {
    return inspect_point(point, slots.data(), call->inspecting == Inspection::Rows).release();
  }
  if (!call->looked) {
    region = find(point, slots.data());
  }
  if (region != nullptr && region->exit.frames.empty()) {
    Ref<> result = run_region(*region, slots.data(), nullptr);
    return result || PyErr_Occurred() ? result.release() : py::run_in_default_loop(ts, frame, 0);
  }
  interp::StackState state = state_of_entry(ts, frame);
  if (region == nullptr && point.conduct == Conduct::Capture) {
    region = capture(point, state);
    if (region == nullptr && PyErr_Occurred()) {
      return nullptr;
    }
  }
  if (region == nullptr && point.conduct != Conduct::Step && point.conduct != Conduct::Dull) {
    PyObject* result = run_natively(ts, frame);
    point.settle_doubt(result != nullptr);
    return result;
  }
  if (region != nullptr) {
    interp::StackState next;
    Ref<> result = run_region(*region, slots.data(), &next);
    if (!result && !PyErr_Occurred()) {
      return py::run_in_default_loop(ts, frame, 0);
    }
    if (!result || next.frames.empty()) {
      return result.release();
    }
    state = std::move(next);
  }
  bool dull = region == nullptr && point.conduct == Conduct::Dull;
  for (int i = 0; i < frame->stacktop; ++i) {
    Py_CLEAR(frame->localsplus[i]);  // arguments live as long as the program holds them, and no longer
  }
  return drive(std::move(state), true, dull).release();
}

Ref<> Captured::drive(interp::StackState state, bool at_break, bool dull) {
  while (true) {
    if (at_break) {
      mention_step(state);
      Callees skipped(this, Callees::Which::Skipped);
      Stepper stepper(dull, &skipped);
      Ref<> result = stepper.run(std::move(state));
      if (!stepper.stopped()) {
        return result;
      }
      state = std::move(*stepper.stopped());
    }
    at_break = true;
    if (py::is_traced(py::current_thread())) {  // from here on: it is to see the program run
      interp::Interpreting interpreting;
      return interp::recreate(std::move(state));
    }
    std::shared_ptr<Point> shared = point_of(state);
    Point& point = *shared;
    std::vector<PyObject*> slots = record::flatten(state);
    std::shared_ptr<Region> region = find(point, slots.data());
    if (region == nullptr && point.conduct == Conduct::Capture) {
      region = capture(point, state);
      if (region == nullptr && PyErr_Occurred()) {
        return nullptr;
      }
    }
    if (region == nullptr) {
      if (point.conduct == Conduct::Native || point.conduct == Conduct::Capture) {
        interp::Interpreting interpreting;
        Ref<> result = interp::recreate(std::move(state));
        point.settle_doubt(static_cast<bool>(result));
        return result;
      }
      dull = point.conduct == Conduct::Dull;
      continue;
    }
    dull = false;
    interp::StackState next;
    Ref<> result = run_region(*region, slots.data(), &next);
    if (!result && !PyErr_Occurred()) {
      interp::Interpreting interpreting;
      return interp::recreate(std::move(state));
    }
    if (!result || next.frames.empty()) {
      return result;
    }
    ALTERNATOR_CHECK(region->exit.kept_frames <= next.frames.size(), "frames that are kept are there");
    for (size_t i = 0; i < region->exit.kept_frames; ++i) {
      next.frames[i].object = std::move(state.frames[i].object);
    }
    state = std::move(next);
  }
}

}  // namespace alternator::region
