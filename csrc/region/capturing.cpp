// Captures: a trace from a state, or several until one will do, and the region that is made of it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/phase.h"
#include "base/shortage.h"
#include "interp/watch.h"
#include "py/generator.h"
#include "py/lock.h"
#include "record/fault.h"
#include "record/session.h"
#include "region/region.h"

namespace alternator::region {
namespace {

constexpr int kMaximumRestarts = 64;
constexpr int kMaximumEmptyTraces = 3;
constexpr int kMaximumMisses = 2;

// The program raises an exception, now that its instruction runs for real.
bool is_of_program(const Abort& abort) {
  return abort.reason == AbortReason::UserException || abort.reason == AbortReason::TorchException;
}

// Something cannot be rebuilt at the exit of a trace. It was made by some instruction: looks for a place where the exit
// can be written in front of an instruction and not behind it. There the region ends, and the instruction runs for real.
class ExitSearch {
 public:
  // Where to stop the next trace; empty if the last one, which ended at instruction `end`, will do.
  std::optional<record::Recorder::Stop> next(const record::Session& session, int64_t end) {
    if (session.is_unwritable()) {
      reason_ = session.aborted();
      unwritable_ = end;
    } else {
      writable_ = end;
    }
    if (!reason_ || (writable_ == end && unwritable_ - writable_ <= 1)) {
      return std::nullopt;
    }
    return record::Recorder::Stop{std::midpoint(writable_, unwritable_), *reason_};
  }

 private:
  std::optional<Abort> reason_;
  int64_t writable_ = 0;
  int64_t unwritable_ = 0;
};

// The class was defined in a function that has a frame here: in this very call, most likely.
bool is_made_here(PyTypeObject* type, const std::vector<std::string>& functions) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    return false;
  }
  const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  forget_error();
  return name != nullptr && std::any_of(functions.begin(), functions.end(), [&](const std::string& function) {
           return std::string_view(name).starts_with(function);
         });
}

// The values that are not worth another region: numbers that vary, and classes that each call makes anew, with what is of such
// a class. At the start of a function every value is worth one: it may be one of a few.
std::vector<int> varying_slots(const Point& point, const record::Start& start, const interp::StackState& state) {
  std::vector<int> slots;
  std::vector<std::string> functions;
  for (const interp::FrameState& frame : state.frames) {
    const char* name = PyUnicode_AsUTF8(frame.code->co_qualname);
    forget_error();
    functions.push_back(std::string(name != nullptr ? name : "?") + ".<locals>.");
  }
  for (int slot = 0; state.frames.back().offset != 0 && slot < static_cast<int>(start.size()); ++slot) {
    PyObject* value = start.at(slot);
    bool made_here =
        value != nullptr && (is_made_here(Py_TYPE(value), functions) ||
                             (PyType_Check(value) && is_made_here(reinterpret_cast<PyTypeObject*>(value), functions)));
    if (made_here) {
      slots.push_back(slot);
    }
  }
  for (const auto& [slot, count] : point.misses) {
    if (count >= kMaximumMisses && state.frames.back().offset != 0) {
      slots.push_back(slot);
    }
  }
  return slots;
}

// What the trace did to the generators whose frames it ran in is of no interest: the state has their frames.
void empty_generators(const interp::StackState& state) {
  for (const interp::FrameState& frame : state.frames) {
    if (frame.generator) {
      py::empty_generator(frame.generator.get());
    }
  }
}

// I6: what a weak reference can watch is not held. (A method of a context variable is made for the call.)
void check_pins([[maybe_unused]] const Region& region) {
#if defined(ALTERNATOR_CHECKS)
  auto is_free = [](const source::Pin& pin) {
    PyObject* object = pin.is_weak() ? nullptr : pin.get();
    return object == nullptr || PyCFunction_Check(object) || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
  };
  for (const guard::Constant& constant : region.guards.constants) {
    ALTERNATOR_CHECK(is_free(constant.pin), "I6: a region's constants do not keep what they watch");
  }
  for (const guard::Guard& guard : region.guards.guards) {
    bool setting = guard.kind == guard::Kind::Setting;  // the getter is torch's or Python's own
    ALTERNATOR_CHECK((setting || is_free(guard.key)) && is_free(guard.pin),
                     "I6: a region's guards do not keep what they watch");
  }
  for (const exits::Step& step : region.exit.steps) {
    PyObject* object = step.kind == exits::StepKind::Constant ? step.object.get() : nullptr;
    ALTERNATOR_CHECK(object == nullptr || (!PyFunction_Check(object) && !PyModule_Check(object)),
                     "I6: a region's exit does not keep functions or modules");
  }
#endif
}

// Which slots have values that are gone behind the region: neither the frames nor the exit have them. What a function is called
// with is held by its caller.
void note_drops(const record::Session& session, Region* region) {
  const record::Start& start = session.start();
  if (start.frames()[0].offset == 0) {
    return;
  }
  region->slots = static_cast<int>(start.size());
  for (int slot : session.recorder().dropped_slots()) {
    const int node = start.at(slot) != nullptr ? session.recorder().graph().node_of(start.at(slot)) : -1;
    const std::vector<int>& used = region->exit_nodes;
    const bool is_given_on =
        (node >= 0 && std::find(used.begin(), used.end(), node) != used.end()) ||
        std::any_of(region->exit.steps.begin(), region->exit.steps.end(),
                    [&](const exits::Step& step) { return step.kind == exits::StepKind::Slot && step.index == slot; });
    if (!is_given_on) {
      region->drops.push_back(slot);
    }
  }
}

}  // namespace

std::shared_ptr<Region> Captured::capture(Point& point, const interp::StackState& state) {
  const std::shared_ptr<Region> newest = point.regions.empty() ? nullptr : point.regions.back();
  py::Hold hold(turn().get(), waits_for_turn);
  if (!hold.is_held() || point.conduct != Conduct::Capture) {
    return nullptr;
  }
  if (!point.regions.empty() && point.regions.back() != newest) {  // another thread had its turn
    std::vector<PyObject*> slots = record::flatten(state);
    if (std::shared_ptr<Region> region = find(point, slots.data())) {
      return region;
    }
  }
  drop_all_dead();
  if (point.captures > 0) {
    Ref<> admitted = steal(
        PyObject_CallFunction(frontend_.admit.get(), "nis", point.regions.size(), point.captures, last_miss_.c_str()));
    if (admitted.get() != Py_True) {
      point.conduct = admitted ? Conduct::Native : point.conduct;
      forgive_shortage();
      return nullptr;
    }
  }
  ++point.captures;
  mention_start(state);
  std::shared_ptr<Region> region = try_capture(point, state);
  if (region == nullptr) {
    forgive_shortage();
  }
  bool listened = interest != Interest::None;
  mention_end(point, region.get());
  if (region != nullptr && listened) {
    // Listeners may have changed what the guards found.
    std::vector<PyObject*> slots = record::flatten(state);
    Py_ssize_t failed;
    return region->fits(slots.data(), &failed) ? region : nullptr;
  }
  return region;
}

std::shared_ptr<Region> Captured::try_capture(Point& point, const interp::StackState& state) {
  Phased capturing(Phase::Other);
  std::vector<PyObject*> slots = record::flatten(state);
  const std::shared_ptr<Region> newest = point.regions.empty() ? nullptr : point.regions.back();
  // A backend that is used for the first time may import and patch things that the trace read: then again.
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::shared_ptr<Region> region = trace(point, state);
    if (region == nullptr) {
      return nullptr;
    }
    Phased checking(Phase::Guards);
    if (frontend_.filter && !region->filter_guards(frontend_.filter.get(), slots.data())) {
      return nullptr;
    }
    Py_ssize_t failed;
    if (!region->fits(slots.data(), &failed)) {
      last_miss_ = region->explain_miss(slots.data(), failed);
      continue;
    }
    // A backend or a listener may have made the same call. One region is enough, also for the limit.
    bool alone = point.regions.empty() || point.regions.back() == newest;
    if (std::shared_ptr<Region> other = alone ? nullptr : find(point, slots.data())) {
      return other;
    }
    point.regions.push_back(region);
    regions_without_graph += !region->graph;
    return region;
  }
  point.conduct = Conduct::Native;
  tell("eager", Abort{AbortReason::ChangedMeanwhile, "?", last_miss_});
  return nullptr;
}

std::shared_ptr<Region> Captured::trace(Point& point, const interp::StackState& state) {
  std::optional<record::Recorder::Stop> stop;
  ExitSearch search;
  for (int restart = 0; restart < kMaximumRestarts; ++restart) {
    const uint64_t shortages = count_shortages();
    record::TraceWatch watch;
    interp::begin_path();
    auto region = std::make_shared<Region>();
    region->state = tensor::GlobalState::capture();
    record::Session session(frontend_.begin.get(), state, stop);
    session.recorder().set_varying(varying_slots(point, session.start(), state));
    session.recorder().set_moving(&point.moving);
    session.set_moving_sizes(&point.moving_sizes);
    session.set_static(point.is_static, point.has_fixed_floats);
    session.recorder().set_skipped(&skipped_);
    session.recorder().show(interest == Interest::Full, spy().get());
    bool began = session.run();
    region->state_after = tensor::GlobalState::capture();
    region->changes_state = !region->state.is_current();
    region->state.restore();
    empty_generators(state);
    Verdict verdict = began ? judge(point, session, state.frames[0]) : Verdict::GiveUp;
    if (verdict == Verdict::Finish) {
      int64_t end = stop ? stop->number : session.recorder().number();
      stop = session.again();
      if (!stop && !fullgraph_) {
        stop = search.next(session, end);
      }
      if (stop && stop->number == 0) {
        break;  // the very first instruction
      }
      if (stop) {
        continue;
      }
      verdict = finish_trace(point, session, region.get());
    }
    if (count_shortages() != shortages) {
      return nullptr;  // another time
    }
    if (verdict != Verdict::Again) {
      return verdict == Verdict::Finish ? region : nullptr;
    }
    stop.reset();
    search = ExitSearch();
  }
  point.conduct = Conduct::Step;
  if (stop && fullgraph_ && !is_of_program(stop->reason)) {
    tell("error", stop->reason);
  }
  return nullptr;
}

Captured::Verdict Captured::judge(Point& point, const record::Session& session, const interp::FrameState& outermost) {
  const std::optional<Abort>& abort = session.aborted();
  if (!abort) {
    return Verdict::Finish;
  }
  if (abort->reason == AbortReason::OutOfResources) {
    mention_idle(*abort);
    return Verdict::GiveUp;  // another time
  }
  if (abort->reason == AbortReason::TorchException && point.mistakes++ < Point::kMaximumMistakes) {
    mention_idle(*abort);
    point.in_doubt = true;
    return Verdict::GiveUp;  // most likely the program's own mistake: eager execution raises the genuine exception
  }
  if (PyCodeObject* code = session.recorder().asks_to_be_skipped(); code != nullptr && !fullgraph_) {
    bool is_outermost = code == outermost.code.get();
    if (!is_outermost || outermost.offset == 0) {
      codes_.push_back(Ref<PyCodeObject>::share(code));
      skipped_.insert(code);
    }
    if (!is_outermost) {
      return Verdict::Again;
    }
    mention_idle(*abort);
    point.conduct = Conduct::Native;  // behind a break: the rest of it
    return Verdict::GiveUp;
  }
  if (abort->reason == AbortReason::StaticShapes) {
    ALTERNATOR_CHECK(!point.is_static, "a trace without symbols does not give them up");
    point.give_up_symbols(session.has_floats());
    return Verdict::Again;
  }
  return Verdict::Finish;
}

Captured::Verdict Captured::finish_trace(Point& point, record::Session& session, Region* region) {
  const std::optional<Abort>& abort = session.aborted();
  bool breaks = abort.has_value();
  if (breaks && fullgraph_ && !is_of_program(*abort)) {
    tell("error", *abort);
    return Verdict::GiveUp;
  }
  if (breaks && session.recorder().number() <= 1 && session.recorder().stopped()) {
    point.conduct = Conduct::Step;  // the very first instruction
    tell("break", *abort);
    return Verdict::GiveUp;
  }
  std::optional<exits::ExitProgram> exit = session.take_exit();
  if (!exit) {
    point.conduct = Conduct::Native;
    tell("eager", abort ? *abort : Abort{AbortReason::Internal, "?", ""});
    return Verdict::GiveUp;
  }
  bool empty = !session.has_operations() && !region->changes_state;
  if (empty) {
    if (++point.empty_traces >= (breaks ? 1 : kMaximumEmptyTraces)) {
      point.conduct = breaks ? Conduct::Dull : Conduct::Native;
    }
    if (breaks) {
      mention_idle(*abort);
      return Verdict::GiveUp;
    }
  }
  if (breaks && !tell("break", *abort)) {
    return Verdict::GiveUp;
  }
  region->exit = std::move(*exit);
  region->exit_nodes = exits::number_nodes(&region->exit);
  region->inputs = session.inputs();
  region->storages = session.storages();
  region->repeatable = session.is_repeatable();
  region->draws = session.draws();
  region->path = interp::take_path();
  note_drops(session, region);
  {
    Phased guards(Phase::Guards);
    region->guards = session.take_guards();
  }
  check_pins(*region);
  mention_region(*region, session);
  return compile_graph(point, session, region);
}

static Recovery plan_recovery(const record::Session& session, tensor::Risks risks) {
  Recovery recovery{session.undoing(risks, session.keeps_order()), session.written()};
  std::erase_if(recovery.written, [&](int input) {
    const std::vector<int>& kept = recovery.undoing.tensors;
    return std::find(kept.begin(), kept.end(), input) != kept.end();
  });
  return recovery;
}

Captured::Verdict Captured::compile_graph(Point& point, record::Session& session, Region* region) {
  bool computes = session.has_operations();
  Ref<> answer = computes ? session.finish(frontend_.finish.get()) : session.conclude();
  if (computes) {
    region->state.restore();  // a backend may run the graph's nodes when it compiles
  }
  if (!answer) {
    return Verdict::GiveUp;
  }
  if (answer.get() == Py_False) {  // what torch assumed of its sizes cannot be checked here
    point.give_up_symbols(session.has_floats());
    return Verdict::Again;
  }
  if (computes && answer.get() == Py_None) {  // the backend refused the graph, and now it is known where to split it
    return Verdict::Again;
  }
  if (PyExceptionInstance_Check(answer.get())) {
    forgive_failure(point, answer.get());
    return Verdict::GiveUp;
  }
  if (PyUnicode_Check(answer.get())) {
    const char* text = PyUnicode_AsUTF8(answer.get());
    point.conduct = fullgraph_ ? point.conduct : Conduct::Native;
    tell(fullgraph_ ? "error" : "eager", Abort{AbortReason::BackendFailed, "?", text ? text : ""});
    return Verdict::GiveUp;
  }
  if (computes) {
    region->graph = std::move(answer);
  }
  region->first = plan_recovery(session, tensor::Risks::All);
  region->later = plan_recovery(session, tensor::Risks::OfValues);
  return session.read_symbols(&region->arguments, &region->conditions) ? Verdict::Finish : Verdict::GiveUp;
}

}  // namespace alternator::region
