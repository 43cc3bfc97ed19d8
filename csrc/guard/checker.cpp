#include "guard/checker.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/shortage.h"
#include "py/collector.h"

namespace alternator::guard {
namespace {

constexpr size_t kMaxLists = 16;  // a layer class is called with each of its instances in turn

// What a list decided is what the walk decides, down to the objects.
[[maybe_unused]] bool agrees_with_walk(const GuardList& list, PyObject* const* locals, const WordList& words,
                                       const WordList::Outcome& outcome) {
  std::vector<PyObject*> slots;
  bool held = guard::check(list, locals, &slots) < 0;
  return outcome.verdict == WordList::Outcome::Holds ? held && slots == words.slots() : !held;
}

}  // namespace

bool Checker::prepare(const GuardList& list) {
  const uint64_t shortages = count_shortages();
  index_ = GuardIndex(list);
  moves_.assign(list.nodes, 0);
  std::unordered_set<PyObject*> seen;
  auto watch = [&](const source::Pin& pin) {
    PyObject* object = pin.is_weak() ? pin.get() : nullptr;
    if (object != nullptr && seen.insert(object).second) {
      watch_.add(object);
    }
  };
  for (const Constant& constant : list.constants) {
    watch(constant.pin);
    watch(constant.type.pin());
  }
  for (const Guard& guard : list.guards) {
    watch(guard.key);
    watch(guard.pin);
    watch(guard.type.pin());
  }
  prepared_ = count_shortages() == shortages;
  return prepared_;
}

// The list for these arguments, moved to the front. Lists whose roots died are dropped on the way.
ALTERNATOR_WARM WordList* Checker::find(PyObject* const* locals) {
  for (size_t i = 0; i < lists_.size(); ++i) {
    if (lists_[i]->is_alive() && lists_[i]->has_roots(locals)) {
      std::rotate(lists_.begin(), lists_.begin() + static_cast<Py_ssize_t>(i),
                  lists_.begin() + static_cast<Py_ssize_t>(i) + 1);
      return lists_[0].get();
    }
  }
  return nullptr;
}

// There is no list for these arguments: which of them are made for each call?
void Checker::note_moves(PyObject* const* locals) {
  bool full = lists_.size() >= kMaxLists;
  auto move = [&](int node, bool often) {
    moves_[node] = often ? kMovesOfVolatile : std::min<uint8_t>(moves_[node] + 1, kMovesOfVolatile);
  };
  for (const auto& list : lists_) {
    for (size_t i = 0; i < list->roots().size(); ++i) {
      const WordList::Root& root = list->roots()[i];
      if (!list->is_root_alive(i)) {
        move(root.node, false);
      } else if (full && root.local >= 0 && locals[root.local] != root.object) {
        move(root.node, true);
      }
    }
  }
  std::erase_if(lists_, [&](const auto& list) { return full || !list->is_alive(); });
}

// Objects that change with every call are found out after a few lists. If lists still do not last, they only cost.
bool Checker::is_worth_a_list() const { return walks_ < 64 || hits_ > walks_; }

ALTERNATOR_WARM Py_ssize_t Checker::check(const GuardList& list, PyObject* const* locals) {
  if (!prepared_) {
    if (forced_ >= 0) {
      prepared_ = true;
      slots_ = &walked_slots_;
      Py_ssize_t failed = guard::check(list, locals, &walked_slots_);
      Py_ssize_t forced = std::exchange(forced_, -1);
      return failed >= 0 ? std::min(failed, forced) : forced;
    }
    py::CollectorPause pause;
    if (!prepare(list)) {
      return static_cast<Py_ssize_t>(list.guards.size());  // the end of what is not watched would not be noticed
    }
  }
  if (is_dead()) {
    return static_cast<Py_ssize_t>(list.guards.size());
  }
  WordList* words = find(locals);
  if (words != nullptr) {
    WordList::Outcome outcome = words->check(locals);
    if (outcome.verdict != WordList::Outcome::Unknown) {
      ALTERNATOR_CHECK(agrees_with_walk(list, locals, *words, outcome), "a list of words says what the walk says");
      ++hits_;
      slots_ = &words->slots();
      return outcome.verdict == WordList::Outcome::Holds ? -1 : outcome.guard;
    }
    if (outcome.moved >= 0 && moves_[outcome.moved] < kMovesOfVolatile) {
      ++moves_[outcome.moved];
    }
  }
  return walk(list, locals, words != nullptr);
}

// Looks at all guards and writes a list anew, instead of the first one if there was one for these arguments.
__attribute__((noinline)) Py_ssize_t Checker::walk(const GuardList& list, PyObject* const* locals, bool has_list) {
  // Nothing runs between the walk and the writing of the list: what is written is what was walked.
  py::CollectorPause pause;
  slots_ = &walked_slots_;
  ++walks_;
  Py_ssize_t failed = guard::check(list, locals, &walked_slots_);
  if (failed >= 0) {
    return failed;
  }
  if (has_list) {
    lists_.erase(lists_.begin());  // find() moved it there
  } else {
    note_moves(locals);
  }
  if (is_worth_a_list()) {
    lists_.insert(lists_.begin(), std::make_unique<WordList>(list, index_, moves_, locals, walked_slots_));
    slots_ = &lists_[0]->slots();
  }
  return -1;
}

Checker::Counts Checker::counts() const {
  Counts counts{lists_.size(), 0, 0, hits_, walks_};
  if (!lists_.empty()) {
    counts.words = lists_[0]->size();
    counts.walked = lists_[0]->walked();
  }
  return counts;
}

}  // namespace alternator::guard
