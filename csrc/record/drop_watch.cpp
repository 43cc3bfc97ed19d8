#include "record/drop_watch.h"

#include <algorithm>
#include <exception>
#include <unordered_map>

#include "py/finaliser.h"
#include "source/value.h"

namespace alternator::record {
namespace {

// Objects that are looked at, at most. Programs hold large structures elsewhere than in the variables of running functions.
constexpr size_t kMaximumOwned = 20000;

Py_ssize_t count_references(PyObject* object, const ReadGraph& graph, const journal::Journal& journal) {
  return graph.count_references(object) + journal.count_references(object);
}

// Finds what is owned, holders first.
class Owned {
 public:
  struct One {
    PyObject* object;
    Py_ssize_t ours;
    std::vector<size_t> holders;
  };

  // `count` references of the program's frames, and `ours` besides.
  void add_root(PyObject* object, Py_ssize_t count, Py_ssize_t ours) {
    Met& met = met_[object];
    met.found += count;
    met.ours += ours;
    consider(object, met);
  }
  const std::vector<One>& find() {
    for (at_ = 0; at_ < owned_.size() && owned_.size() < kMaximumOwned; ++at_) {
      PyObject* object = owned_[at_].object;
      if (PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse != nullptr && !PyGen_CheckExact(object)) {
        Py_TYPE(object)->tp_traverse(object, visit, this);
      }
    }
    return owned_;
  }

 private:
  struct Met {
    Py_ssize_t found = 0;
    Py_ssize_t ours = 0;
    std::vector<size_t> holders;
  };
  void consider(PyObject* object, Met& met) {
    if (met.found + met.ours == Py_REFCNT(object)) {
      owned_.push_back({object, met.ours, std::move(met.holders)});
    }
  }
  void look_at(PyObject* object) {
    if (source::sort_of(object) == source::Sort::Primitive) {
      return;
    }
    Met& met = met_[object];
    ++met.found;
    met.holders.push_back(at_);
    consider(object, met);
  }
  static int visit(PyObject* object, void* self) noexcept {
    try {
      static_cast<Owned*>(self)->look_at(object);
      return 0;
    } catch (const std::exception&) {  // no memory
      return 1;
    }
  }

  std::unordered_map<PyObject*, Met> met_;
  std::vector<One> owned_;
  size_t at_ = 0;
};

std::unordered_map<PyObject*, Py_ssize_t> count_in_slots(const Start& start) {
  std::unordered_map<PyObject*, Py_ssize_t> slots;
  for (size_t i = 0; i < start.active_frames(); ++i) {
    const FrameSlots& frame = start.frames()[i];
    for (int slot = frame.locals; slot < frame.end; ++slot) {
      PyObject* object = start.at(slot);
      if (object != nullptr && source::sort_of(object) != source::Sort::Primitive) {
        ++slots[object];
      }
    }
  }
  return slots;
}

// Those of the tracer cannot be counted; so what holds a tensor is looked for.
bool is_in_frames(PyObject* object, const interp::Position& position) {
  PyObject** end = position.stack_top;
  for (py::Frame* frame = position.frame;; frame = frame->previous) {
    if (std::find(frame->localsplus, end, object) != end) {
      return true;
    }
    if (frame == position.entry) {
      return false;
    }
    end = frame->previous->localsplus + frame->previous->stacktop;
  }
}

}  // namespace

void DropWatch::begin(const Start& start, const ReadGraph& graph, const journal::Journal& journal) {
  // The state that the trace starts from holds what the trace's own frames hold; so does the frame of a function that has not
  // begun.
  const Py_ssize_t copies = start.frames()[0].offset == 0 ? 2 : 1;
  Owned search;
  for (const auto& [object, count] : count_in_slots(start)) {
    search.add_root(object, count,
                    count * copies + start.count_kept(object) + count_references(object, graph, journal));
  }
  const std::vector<Owned::One>& owned = search.find();
  std::vector<bool> leads(owned.size());
  for (size_t i = owned.size(); i-- > 0;) {
    leads[i] = leads[i] || py::is_finalised(owned[i].object);
    for (size_t holder : owned[i].holders) {
      leads[holder] = leads[holder] || leads[i];
    }
  }
  std::vector<size_t> places(owned.size());
  for (size_t i = 0; i < owned.size(); ++i) {
    if (!leads[i]) {
      continue;
    }
    places[i] = watched_.size();
    Watched& one = watched_.emplace_back(Watched{owned[i].object, owned[i].ours});
    one.ours -= count_references(one.object, graph, journal);
    one.runs_code = py::is_finalised(one.object);
    for (size_t holder : owned[i].holders) {
      one.holders.push_back(places[holder]);
    }
  }
}

bool DropWatch::is_dead(const Watched& one, const interp::Position& position, const ReadGraph& graph,
                        const journal::Journal& journal) const {
  Py_ssize_t held = 0, gone = 0;
  for (size_t holder : one.holders) {
    ++(watched_[holder].is_dead ? gone : held);
  }
  if (source::is_tensor(one.object)) {
    return held == 0 && !is_in_frames(one.object, position);
  }
  return Py_REFCNT(one.object) - count_references(one.object, graph, journal) - gone <= one.ours;
}

PyObject* DropWatch::find_dropped(const interp::Position& position, const ReadGraph& graph,
                                  const journal::Journal& journal) {
  for (Watched& one : watched_) {
    one.is_dead = is_dead(one, position, graph, journal);
    if (one.is_dead && one.runs_code) {
      return one.object;
    }
  }
  return nullptr;
}

bool minds_being_replaced(PyObject* value, const ReadGraph& graph) {
  return value != nullptr && (py::is_finalised(value) || (Py_REFCNT(value) - graph.count_references(value) == 1 &&
                                                          py::runs_code_when_dropped(value)));
}

}  // namespace alternator::record
