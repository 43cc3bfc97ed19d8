#include "region/region.h"

#include <algorithm>
#include <utility>

#include "py/finaliser.h"

namespace alternator::region {
namespace {

std::vector<int> group_inputs(const Region& region) {
  const std::vector<PyObject*>& nodes = region.checker.slots();
  std::vector<PyObject*> inputs;
  for (int node : region.inputs) {
    inputs.push_back(nodes[node]);
  }
  return tensor::group_by_storage(inputs);
}

bool fits_storages(const Region& region) { return region.storages.empty() || group_inputs(region) == region.storages; }

// The slot of an object that would die inside the region, and run code then: it has to do so at its instruction. -1: none.
int find_finalised(const Region& region, PyObject* const* slots) {
  for (int slot : region.drops) {
    PyObject* object = slots[slot];
    if (object != nullptr && py::is_finalised(object) &&
        Py_REFCNT(object) <= std::count(slots, slots + region.slots, object)) {
      return slot;
    }
  }
  return -1;
}

bool fits_conditions(const Region& region) {
  return region.conditions.is_empty() || region.conditions.find_failed(region.checker.slots()) < 0;
}

std::string explain_storages(const Region& region) {
  std::vector<int> now = group_inputs(region);
  size_t at = std::mismatch(now.begin(), now.end(), region.storages.begin()).first - now.begin();
  bool shared = region.storages[at] != static_cast<int>(at);
  auto name = [&](int input) { return "`" + guard::spoken(region.guards.names[region.inputs[input]]) + "`"; };
  return name(shared ? region.storages[at] : now[at]) + " and " + name(static_cast<int>(at)) +
         (shared ? " shared memory, do not any more" : " did not share memory, do so now");
}

}  // namespace

ALTERNATOR_WARM bool Region::fits(PyObject* const* slots, Py_ssize_t* failed) {
  *failed = -1;
  return (any_state || state.is_current()) && (*failed = checker.check(guards, slots)) < 0 && fits_storages(*this) &&
         fits_conditions(*this) && (drops.empty() || find_finalised(*this, slots) < 0);
}

std::string Region::explain_miss(PyObject* const* slots, Py_ssize_t failed) const {
  if (failed >= 0) {
    return guard::explain(guards, failed, slots, checker.slots());
  }
  if (!any_state && !state.is_current()) {
    return state.difference();
  }
  if (!fits_storages(*this)) {
    return explain_storages(*this);
  }
  if (fits_conditions(*this)) {
    int slot = find_finalised(*this, slots);
    return slot < 0 ? "nothing" : std::string("an object of type ") + Py_TYPE(slots[slot])->tp_name + " dies inside";
  }
  int condition = conditions.find_failed(checker.slots());
  return "`" + guard::spoken(conditions.text(std::max(condition, 0))) + "` does not hold any more";
}

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

void Point::settle_doubt(bool returned) {
  if (std::exchange(in_doubt, false) && returned) {
    mistakes = kMaximumMistakes;
  }
}

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
}  // namespace alternator::region
