#include "region/region.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/phase.h"
#include "py/bound_arguments.h"
#include "py/generator.h"
#include "py/instance.h"
#include "record/fault.h"
#include "record/session.h"
#include "region/call.h"
#include "region/call_objects.h"
#include "region/callees.h"
#include "region/stepper.h"

namespace alternator::region {
namespace {

constexpr int kMaximumRestarts = 64;
constexpr int kMaximumEmptyTraces = 3;
constexpr int kMaximumMisses = 2;
constexpr int kMaximumMistakes = 8;

std::vector<int> group_inputs(const Region& region) {
  const std::vector<PyObject*>& nodes = region.checker.slots();
  std::vector<PyObject*> inputs;
  for (int node : region.inputs) {
    inputs.push_back(nodes[node]);
  }
  return tensor::group_by_storage(inputs);
}

bool fits_storages(const Region& region) { return region.storages.empty() || group_inputs(region) == region.storages; }

// What relates several of the objects that the guards have found.
bool fits_relations(const Region& region) {
  return fits_storages(region) &&
         (region.conditions.is_empty() || region.conditions.find_failed(region.checker.slots()) < 0);
}

std::string explain_storages(const Region& region) {
  std::vector<int> now = group_inputs(region);
  size_t at = std::mismatch(now.begin(), now.end(), region.storages.begin()).first - now.begin();
  bool shared = region.storages[at] != static_cast<int>(at);
  auto name = [&](int input) { return "`" + guard::spoken(region.guards.names[region.inputs[input]]) + "`"; };
  return name(shared ? region.storages[at] : now[at]) + " and " + name(static_cast<int>(at)) +
         (shared ? " shared memory, do not any more" : " did not share memory, do so now");
}

std::string explain(const Region& region, Py_ssize_t failed, PyObject* const* slots) {
  return guard::explain(region.guards, failed, slots, region.checker.slots());
}

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

}  // namespace

void Point::settle_doubt(bool returned) {
  if (std::exchange(in_doubt, false) && returned) {
    mistakes = kMaximumMistakes;
  }
}

namespace {

PyObject* code_of(PyObject* function) {
  if (PyMethod_Check(function)) {
    function = PyMethod_GET_FUNCTION(function);
  }
  return PyFunction_Check(function) ? PyFunction_GET_CODE(function) : nullptr;
}

// Numbers that the guards compare were others, or sizes.
void note_misses(Point* point, const Region& region, PyObject* const* slots) {
  guard::visit_moved(region.guards, slots, [&](const guard::Guard& guard, PyObject* object) {
    if (guard.kind == guard::Kind::TensorFacts) {
      std::vector<int> changed = guard.facts->changed_sizes(object);
      point->moving_sizes[region.guards.names[guard.parent]].insert(changed.begin(), changed.end());
      return;
    }
    point->moving.insert(guard::describe(region.guards, guard));
    if (guard.kind == guard::Kind::Local) {
      ++point->misses[static_cast<int>(guard.index)];
    }
  });
}

// Why a region did not fit. `failed`: the guard, -1 if they hold or were not looked at.
__attribute__((noinline)) std::string explain_miss(Point* point, const Region& region, Py_ssize_t failed,
                                                   PyObject* const* slots) {
  if (failed >= 0) {
    note_misses(point, region, slots);
    return explain(region, failed, slots);
  }
  if (!region.state.is_current()) {
    return region.state.difference();
  }
  if (!fits_storages(region)) {
    return explain_storages(region);
  }
  int condition = region.conditions.find_failed(region.checker.slots());
  return "`" + region.conditions.text(std::max(condition, 0)) + "` does not hold any more";
}

// The numbers that are not worth another region. At the start of a function every value is: it may be one of a few.
std::vector<int> varying_slots(const Point& point, const interp::StackState& state) {
  std::vector<int> slots;
  for (const auto& [slot, count] : point.misses) {
    if (count >= kMaximumMisses && state.frames.back().offset != 0) {
      slots.push_back(slot);
    }
  }
  return slots;
}

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

// What the trace did to the generators whose frames it ran in is of no interest: the state has their frames.
void empty_generators(const interp::StackState& state) {
  for (const interp::FrameState& frame : state.frames) {
    if (frame.generator) {
      py::empty_generator(frame.generator.get());
    }
  }
}

// Captured functions, of all threads. Guarded by the GIL; kept for good.
std::unordered_set<Captured*>& all_captured() {
  static auto* all = new std::unordered_set<Captured*>;
  return *all;
}

bool drop_is_due = false;

// Regions go when nothing of ours is in the middle of looking at them; what goes with them may run anybody's code.
int drop_dead_regions(void*) {
  drop_is_due = false;
  std::vector<std::shared_ptr<Region>> dropped;
  for (Captured* captured : all_captured()) {
    captured->drop_dead(&dropped);
  }
  return 0;
}

void announce_death() {
  if (!drop_is_due) {
    drop_is_due = Py_AddPendingCall(drop_dead_regions, nullptr) == 0;
  }
}

}  // namespace

bool Captured::all_native = false;
int Captured::variant = 0;
long long Captured::regions_without_graph = 0;

int Region::traverse(visitproc visit, void* arg) const {
  Py_VISIT(graph.get());
  for (const guard::Constant& constant : guards.constants) {
    if (int stop = constant.pin.traverse(visit, arg); stop != 0) {
      return stop;
    }
  }
  for (const guard::Guard& guard : guards.guards) {
    for (const source::Pin* pin : {&guard.key, &guard.pin}) {
      if (int stop = pin->traverse(visit, arg); stop != 0) {
        return stop;
      }
    }
  }
  return 0;
}

Captured::Captured(Frontend frontend, bool fullgraph) : frontend_(std::move(frontend)), fullgraph_(fullgraph) {
  guard::Checker::on_death = announce_death;
  all_captured().insert(this);
}

Captured::~Captured() { all_captured().erase(this); }

ALTERNATOR_WARM PyObject* Captured::call(PyObject* function, PyObject* const* arguments, size_t nargsf,
                                         PyObject* kwnames) {
  PyObject* code = code_of(function);
  if (code == nullptr || all_native || (reinterpret_cast<PyCodeObject*>(code)->co_flags & py::kGeneratorFlags) ||
      record::Session::current() != nullptr || !frontend_.begin) {
    return PyObject_Vectorcall(function, arguments, nargsf, kwnames);
  }
  Call call(this, Inspection::No, code);
  {
    Ref<> result;
    py::BoundArguments bound(function, arguments, nargsf, kwnames);
    if (bound.are_known() && answer(&call, bound, &result)) {
      return result.release();
    }
  }
  if (call.failed) {
    return PyObject_Vectorcall(function, arguments, nargsf, kwnames);
  }
  return make(&call, function, arguments, nargsf, kwnames);
}

PyObject* Captured::make(Call* call, PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames) {
  interp::acquire_hook();
  interp::FrameTaker* outer = std::exchange(interp::thread_mode.taker, call);
  PyObject* result = PyObject_Vectorcall(function, arguments, nargsf, kwnames);
  interp::thread_mode.taker = outer;
  interp::release_hook();
  return result;
}

PyObject* Captured::inspect(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames,
                            bool rows) {
  PyObject* code = code_of(function);
  if (code == nullptr) {
    PyErr_SetString(PyExc_TypeError, "alternator: this is no Python function");
    return nullptr;
  }
  Call call(this, rows ? Inspection::Rows : Inspection::Check, code);
  return make(&call, function, arguments, nargsf, kwnames);
}

Ref<> Captured::inspect_point(const Point& point, PyObject* const* slots, bool rows) {
  Ref<> answer = steal(PyList_New(0));
  std::vector<std::shared_ptr<Region>> regions = point.regions;
  for (const std::shared_ptr<Region>& region : regions) {
    Py_ssize_t failed = region->checker.check(region->guards, slots);
    Ref<> row = failed >= 0 ? steal(PyLong_FromSsize_t(failed)) : share(Py_None);
    if (rows && row) {
      std::vector<PyObject*> nodes;
      guard::check(region->guards, slots, &nodes);
      Ref<> described = describe_guards(region->guards, &nodes);
      row = described ? steal(PyTuple_Pack(2, row.get(), described.get())) : nullptr;
    }
    if (!answer || !row || PyList_Append(answer.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return answer;
}

int Captured::traverse(visitproc visit, void* arg) const {
  for (const Ref<>* part : {&frontend_.begin, &frontend_.finish, &frontend_.report, &frontend_.admit}) {
    Py_VISIT(part->get());
  }
  for (const auto& [key, point] : points_) {
    for (const std::shared_ptr<Region>& region : point->regions) {
      if (int stop = region->traverse(visit, arg); stop != 0) {
        return stop;
      }
    }
  }
  return 0;
}

void Captured::close() {
  Frontend frontend = std::move(frontend_);
  clear();
}

void Captured::clear() {
  entry_ = nullptr;
  auto points = std::move(points_);
  points_.clear();
  skipped_.clear();
  auto codes = std::move(codes_);
  codes_.clear();
}

void Captured::drop_dead(std::vector<std::shared_ptr<Region>>* dropped) {
  for (const auto& [key, point] : points_) {
    auto& regions = point->regions;
    auto dead = std::stable_partition(regions.begin(), regions.end(),
                                      [](const auto& region) { return !region->checker.is_dead(); });
    std::move(dead, regions.end(), std::back_inserter(*dropped));
    regions.erase(dead, regions.end());
  }
}

std::vector<std::shared_ptr<Region>> Captured::regions() const {
  std::vector<std::shared_ptr<Region>> all;
  for (const auto& [key, point] : points_) {
    all.insert(all.end(), point->regions.begin(), point->regions.end());
  }
  return all;
}

// ---- Points --------------------------------------------------------------------------------------------------------

namespace {

const void* key_of_variant() { return reinterpret_cast<const void*>(static_cast<intptr_t>(Captured::variant)); }

}  // namespace

ALTERNATOR_WARM const std::shared_ptr<Point>& Captured::entry_point(PyFunctionObject* function) {
  const void* code = function->func_code;
  if (entry_ == nullptr || entry_code_ != code || entry_globals_ != function->func_globals ||
      entry_variant_ != variant) {
    auto [found, is_new] = points_.try_emplace(Key{key_of_variant(), code, nullptr, function->func_globals});
    if (is_new) {
      found->second = std::make_shared<Point>();
      codes_.push_back(Ref<PyCodeObject>::share(reinterpret_cast<PyCodeObject*>(function->func_code)));
    }
    entry_ = found->second;
    entry_code_ = code;
    entry_globals_ = function->func_globals;
    entry_variant_ = variant;
  }
  return entry_;
}

std::shared_ptr<Point> Captured::point_of(const interp::StackState& state) {
  Key key{key_of_variant()};
  for (const interp::FrameState& frame : state.frames) {
    key.push_back(frame.code.get());
    key.push_back(reinterpret_cast<const void*>(static_cast<intptr_t>(frame.offset)));
    key.push_back(frame.function->func_globals);
  }
  for (PyGenObject* generator : record::hanging_generators(state)) {
    key.push_back(generator->gi_code);
    key.push_back(reinterpret_cast<const void*>(static_cast<intptr_t>(py::generator_state(generator).offset)));
  }
  auto [found, is_new] = points_.try_emplace(std::move(key));
  if (is_new) {
    found->second = std::make_shared<Point>();
    for (const interp::FrameState& frame : state.frames) {
      codes_.push_back(frame.code.clone());
    }
    for (PyGenObject* generator : record::hanging_generators(state)) {
      codes_.push_back(Ref<PyCodeObject>::share(reinterpret_cast<PyCodeObject*>(generator->gi_code)));
    }
  }
  return found->second;
}

ALTERNATOR_WARM std::shared_ptr<Region> Captured::find(Point& point, PyObject* const* slots) {
  for (size_t i = point.regions.size(); i-- > 0;) {
    const std::shared_ptr<Region>& region = point.regions[i];
    bool newest = i + 1 == point.regions.size();
    Py_ssize_t failed = -1;
    if (region->state.is_current() && (failed = region->checker.check(region->guards, slots)) < 0 &&
        fits_relations(*region)) {
      if (newest) {
        return region;
      }
      // The most recent first.
      std::rotate(point.regions.begin() + static_cast<Py_ssize_t>(i),
                  point.regions.begin() + static_cast<Py_ssize_t>(i) + 1, point.regions.end());
      return point.regions.back();
    }
    if (newest) {  // only its reason is of interest; the explanation is not free
      last_miss_ = explain_miss(&point, *region, failed, slots);
    }
  }
  return nullptr;
}

// ---- Capturing -----------------------------------------------------------------------------------------------------

std::shared_ptr<Region> Captured::capture(Point& point, const interp::StackState& state) {
  drop_dead_regions(nullptr);
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
    bool fits = region->state.is_current() && region->checker.check(region->guards, slots.data()) < 0 &&
                fits_relations(*region);
    return fits ? region : nullptr;
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
    Py_ssize_t failed = region->checker.check(region->guards, slots.data());
    if (failed >= 0) {
      last_miss_ = explain(*region, failed, slots.data());
    } else if (fits_relations(*region)) {
      // Another thread may have been quicker. One region is enough, also for the limit.
      bool alone = point.regions.empty() || point.regions.back() == newest;
      if (std::shared_ptr<Region> other = alone ? nullptr : find(point, slots.data())) {
        return other;
      }
      point.regions.push_back(region);
      regions_without_graph += !region->graph;
      return region;
    }
  }
  point.conduct = Conduct::Native;
  tell("eager", Abort{AbortReason::ChangedMeanwhile, "?", last_miss_});
  return nullptr;
}

std::shared_ptr<Region> Captured::trace(Point& point, const interp::StackState& state) {
  std::optional<record::Recorder::Stop> stop;
  ExitSearch search;
  for (int restart = 0; restart < kMaximumRestarts; ++restart) {
    record::TraceWatch watch;
    auto region = std::make_shared<Region>();
    region->state = tensor::GlobalState::capture();
    record::Session session(frontend_.begin.get(), state, stop);
    session.recorder().set_varying(varying_slots(point, state));
    session.recorder().set_moving(&point.moving);
    session.set_moving_sizes(&point.moving_sizes);
    session.set_static(point.is_static);
    session.recorder().set_skipped(&skipped_);
    session.recorder().show(interest == Interest::Full, spy().get());
    bool began = session.run();
    region->state_after = tensor::GlobalState::capture();
    region->changes_state = !region->state.is_current();
    region->state.restore();
    empty_generators(state);
    if (!began) {
      return nullptr;
    }
    if (session.aborted() && session.aborted()->reason == AbortReason::OutOfResources) {
      mention_idle(*session.aborted());
      return nullptr;  // another time
    }
    if (session.aborted() && session.aborted()->reason == AbortReason::TorchException &&
        point.mistakes++ < kMaximumMistakes) {
      mention_idle(*session.aborted());
      point.in_doubt = true;
      return nullptr;  // most likely the program's own mistake: eager execution raises the genuine exception
    }
    if (PyCodeObject* code = session.recorder().asks_to_be_skipped(); code != nullptr && !fullgraph_) {
      bool outermost = code == state.frames[0].code.get();
      if (!outermost || state.frames[0].offset == 0) {
        codes_.push_back(Ref<PyCodeObject>::share(code));
        skipped_.insert(code);
      }
      if (outermost) {  // or, behind a break, the rest of it
        mention_idle(*session.aborted());
        point.conduct = Conduct::Native;
        return nullptr;
      }
      stop.reset();
      continue;
    }
    if (session.aborted() && session.aborted()->reason == AbortReason::StaticShapes) {
      ALTERNATOR_CHECK(!point.is_static, "a trace without symbols does not give them up");
      point.is_static = true;
      stop.reset();
      search = ExitSearch();
      continue;
    }
    int64_t end = stop ? stop->number : session.recorder().number();
    stop = session.again();
    if (!stop && !fullgraph_) {
      stop = search.next(session, end);
    }
    if (!stop) {
      bool again = false;
      std::shared_ptr<Region> finished = finish_trace(point, session, std::move(region), &again);
      if (!again) {
        return finished;
      }
      search = ExitSearch();
      continue;
    }
    if (stop->number == 0) {
      break;  // the very first instruction
    }
  }
  point.conduct = Conduct::Step;
  if (stop && fullgraph_ && !is_of_program(stop->reason)) {
    tell("error", stop->reason);
  }
  return nullptr;
}

std::shared_ptr<Region> Captured::finish_trace(Point& point, record::Session& session, std::shared_ptr<Region> region,
                                               bool* again) {
  const std::optional<Abort>& abort = session.aborted();
  bool breaks = abort.has_value();
  if (breaks && fullgraph_ && !is_of_program(*abort)) {
    tell("error", *abort);
    return nullptr;
  }
  if (breaks && session.recorder().number() <= 1 && session.recorder().stopped()) {
    point.conduct = Conduct::Step;  // the very first instruction
    tell("break", *abort);
    return nullptr;
  }
  std::optional<exits::ExitProgram> exit = session.take_exit();
  if (!exit) {
    point.conduct = Conduct::Native;
    tell("eager", abort ? *abort : Abort{AbortReason::Internal, "?", ""});
    return nullptr;
  }
  bool empty = !session.has_operations() && !region->changes_state;
  if (empty) {
    if (++point.empty_traces >= (breaks ? 1 : kMaximumEmptyTraces)) {
      point.conduct = breaks ? Conduct::Dull : Conduct::Native;
    }
    if (breaks) {
      mention_idle(*abort);
      return nullptr;
    }
  }
  if (breaks && !tell("break", *abort)) {
    return nullptr;
  }
  region->exit = std::move(*exit);
  region->exit_nodes = exits::number_nodes(&region->exit);
  region->inputs = session.inputs();
  region->storages = session.storages();
  region->repeatable = session.is_repeatable();
  region->written = session.written();
  region->draws = session.draws();
  {
    Phased guards(Phase::Guards);
    region->guards = session.take_guards();
  }
  mention_region(*region, session);
  if (session.has_operations()) {
    region->graph = session.finish(frontend_.finish.get());
    region->state.restore();               // a backend may run the graph's nodes when it compiles
    if (region->graph.get() == Py_None) {  // it refused the graph, and now it is known where to split it
      *again = true;
      return nullptr;
    }
    if (region->graph.get() == Py_False) {  // what torch assumed of its sizes cannot be checked here
      point.is_static = true;
      *again = true;
      return nullptr;
    }
    if (region->graph && PyExceptionInstance_Check(region->graph.get())) {
      forgive_failure(point, region->graph.get());
      return nullptr;
    }
    if (region->graph && !session.read_symbols(&region->arguments, &region->conditions)) {
      return nullptr;
    }
    if (region->graph && PyUnicode_Check(region->graph.get())) {
      const char* text = PyUnicode_AsUTF8(region->graph.get());
      point.conduct = fullgraph_ ? point.conduct : Conduct::Native;
      tell(fullgraph_ ? "error" : "eager", Abort{AbortReason::BackendFailed, "?", text ? text : ""});
      return nullptr;
    }
    return region->graph ? region : nullptr;
  }
  Ref<> concluded = session.conclude();
  *again = concluded.get() == Py_False;
  point.is_static = point.is_static || *again;
  bool told = concluded && !*again && session.read_symbols(&region->arguments, &region->conditions);
  return told ? region : nullptr;
}

// ---- Running -------------------------------------------------------------------------------------------------------

namespace {

// Runs a region whose guards hold, right after they were checked: its result, or the frames that go on. Null with an
// exception set. Null without one: the graph failed and did no harm; the program is to run for real from the region's
// start, where it does what it does before the exception, and raises it in its own lines.
ALTERNATOR_WARM Ref<> run_region(const Region& region, PyObject* const* slots, interp::StackState* next) {
  CallObjects objects(region);
  Ref<> outputs;
  std::optional<tensor::RandomState> random;
  if (region.draws && region.repeatable) {
    random.emplace();
  }
  std::vector<uint32_t> versions;
  if (region.repeatable && !region.written.empty()) {
    versions = objects.versions(region);
  }
  if (region.graph) {
    outputs = objects.pass_inputs(region, region.graph.get());
    if (!outputs) {
      // A graph that fails in the middle leaves scopes of torch's state open, which `with` would have closed.
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      region.state.restore();
      PyErr_Restore(type, value, traceback);
      if (region.repeatable && PyErr_ExceptionMatches(PyExc_Exception) &&
          (region.written.empty() || versions == objects.versions(region))) {
        PyErr_Clear();
        if (random) {
          random->restore();
        }
      }
      return nullptr;
    }
  }
  if (region.changes_state) {
    region.state_after.restore();
  }
  return exits::run_exit(region.exit, {objects.of_exit(region), slots, outputs.get()}, next);
}

}  // namespace

Ref<> describe_guards(const guard::GuardList& list, const std::vector<PyObject*>* slots) {
  // Making the rows may run a garbage collection: what the slots point to is held first.
  std::vector<Ref<>> parents;
  for (int node = 0; node < list.nodes; ++node) {
    PyObject* object = slots != nullptr ? (*slots)[node] : nullptr;
    parents.push_back(share(object != nullptr ? object : Py_None));
  }
  Ref<> rows = steal(PyList_New(0));
  for (const guard::Guard& guard : list.guards) {
    PyObject* key = guard.key.get();
    Ref<> row = steal(Py_BuildValue("(ssOOns)", guard::kind_name(guard.kind), guard::expect_name(guard.expect),
                                    guard.parent >= 0 ? parents[guard.parent].get() : Py_None, key ? key : Py_None,
                                    guard.index, guard::describe(list, guard).c_str()));
    if (!rows || !row || PyList_Append(rows.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return rows;
}

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
