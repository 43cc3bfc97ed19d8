// Captured functions: calls, points, and the regions of a point.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/boundary.h"
#include "base/once.h"
#include "py/bound_arguments.h"
#include "py/instance.h"
#include "record/session.h"
#include "region/call.h"

namespace alternator::region {
namespace {

PyObject* code_of(PyObject* function) {
  if (PyMethod_Check(function)) {
    function = PyMethod_GET_FUNCTION(function);
  }
  return PyFunction_Check(function) ? PyFunction_GET_CODE(function) : nullptr;
}

// Numbers that the guards compare were others, or sizes.
__attribute__((noinline)) void note_misses(Point* point, const Region& region, PyObject* const* slots) {
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

// A region that did not fit, and the guard that failed; -1: the guards hold, and something that is looked at after them does
// not.
struct Miss {
  const Region* region = nullptr;
  Py_ssize_t failed = -1;

  // More of its guards hold. Of equals the newer one counts.
  bool is_nearer_than(const Miss& other) const { return other.failed >= 0 && (failed < 0 || failed > other.failed); }
};

// Captured functions, of all threads. Guarded by the GIL; kept for good.
std::unordered_set<Captured*>& all_captured() {
  static constinit Once<std::unordered_set<Captured*>*> all;
  return *all.get([] { return new std::unordered_set<Captured*>; });
}

bool drop_is_due = false;

// Regions go when nothing of ours is in the middle of looking at them; what goes with them may run anybody's code.
int drop_dead_regions(void*) {
  drop_is_due = false;
  Captured::drop_all_dead();
  return 0;
}

void announce_death() {
  if (!drop_is_due) {
    drop_is_due = Py_AddPendingCall(boundary<drop_dead_regions>, nullptr) == 0;
  }
}

}  // namespace

bool Captured::all_native = false;
int Captured::variant = 0;
bool Captured::waits_for_turn = true;
long long Captured::regions_without_graph = 0;

Ref<>& Captured::turn() {
  static constinit Once<Ref<>*> lock;
  return *lock.get([] { return new Ref<>; });
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
  for (const Ref<>* part :
       {&frontend_.begin, &frontend_.finish, &frontend_.report, &frontend_.admit, &frontend_.filter}) {
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

void Captured::drop_all_dead() {
  std::vector<std::shared_ptr<Region>> dropped;
  for (Captured* captured : all_captured()) {
    captured->drop_dead(&dropped);
  }
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
  Miss nearest;
  for (size_t i = point.regions.size(); i-- > 0;) {
    const std::shared_ptr<Region>& region = point.regions[i];
    bool newest = i + 1 == point.regions.size();
    Py_ssize_t failed;
    if (region->fits(slots, &failed)) {
      if (newest) {
        return region;
      }
      // The most recent first.
      std::rotate(point.regions.begin() + static_cast<Py_ssize_t>(i),
                  point.regions.begin() + static_cast<Py_ssize_t>(i) + 1, point.regions.end());
      return point.regions.back();
    }
    if (newest && failed >= 0) {
      note_misses(&point, *region, slots);
    }
    if (Miss miss{region.get(), failed}; newest || miss.is_nearer_than(nearest)) {
      nearest = miss;
    }
  }
  if (nearest.region != nullptr) {
    last_miss_ = nearest.region->explain_miss(slots, nearest.failed);
  }
  return nullptr;
}

}  // namespace alternator::region
