// Filters of guards: options={"guard_filter_fn": ..} of torch.compile. The program says which guards it does without.
//
// A guard also finds the object that later ones, the graph and the exit look at. One that is needed for that stays,
// whatever the filter says, and so does what keeps memory from being read or written where it is not: the geometry of
// inputs whose sizes are read or whose bytes are copied, the length of containers that the exit writes to. What relates two
// objects (Distinct, AllDistinct, the same object again) is not up for choice, as with TorchDynamo.
#include <algorithm>

#include "region/region.h"

namespace alternator::region {
namespace {

using guard::Expect;
using guard::Guard;
using guard::Kind;

bool relates_objects(const Guard& guard) {
  return guard.kind == Kind::Distinct || guard.kind == Kind::AllDistinct || guard.expect == Expect::SameNode;
}

// What a guard found, or looks at.
PyObject* value_of(const Guard& guard, const std::vector<PyObject*>& nodes) {
  switch (guard.expect) {
    case Expect::Value: return guard.value.get();
    case Expect::Pinned: return guard.pin.get();
    case Expect::NewNode: return nodes[guard.child];
    case Expect::Absent: return nullptr;
    default: return guard.parent >= 0 ? nodes[guard.parent] : nullptr;
  }
}

// ([(kind, expectation, node that it reads from, name, value)], [object of a node]); Ellipsis for what is not there.
Ref<> make_rows(const guard::GuardList& list, const std::vector<PyObject*>& nodes) {
  Ref<> objects = steal(PyList_New(0));
  Ref<> rows = steal(PyList_New(0));
  for (PyObject* object : nodes) {
    if (!objects || PyList_Append(objects.get(), object != nullptr ? object : Py_Ellipsis) < 0) {
      return nullptr;
    }
  }
  for (const Guard& guard : list.guards) {
    PyObject* value = value_of(guard, nodes);
    int node = guard.expect == Expect::NewNode ? guard.child : guard.expect == Expect::Nothing ? guard.parent : -1;
    std::string name = node >= 0 ? list.names[node] : guard::describe(list, guard);
    Ref<> row = steal(Py_BuildValue("(ssisO)", guard::kind_name(guard.kind), guard::expect_name(guard.expect),
                                    guard.parent, name.c_str(), value != nullptr ? value : Py_Ellipsis));
    if (!rows || !row || PyList_Append(rows.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return objects && rows ? steal(PyTuple_Pack(2, rows.get(), objects.get())) : nullptr;
}

// The nodes that something looks at which is no guard, and those of them whose facts have to stay.
struct Needs {
  explicit Needs(const Region& region) : nodes(region.guards.nodes), geometry(nodes.size()), written(nodes.size()) {
    const tensor::Undoing& first = region.first.undoing;  // has all that the later one has
    bool copies = !first.ranges.empty() || !first.checks.empty();
    for (int node : region.inputs) {
      nodes[node] = true;
      geometry[node] = copies;
    }
    for (const guard::Quantity& quantity : region.arguments) {
      nodes[quantity.node] = geometry[quantity.node] = true;
    }
    for (int node : region.conditions.nodes()) {
      nodes[node] = geometry[node] = true;
    }
    for (int node : region.exit_nodes) {
      nodes[node] = written[node] = true;
    }
  }

  bool keeps(const Guard& guard) const {
    if (relates_objects(guard) || (guard.expect == Expect::NewNode && nodes[guard.child])) {
      return true;
    }
    bool facts = guard.kind == Kind::TensorFacts;
    if (guard.parent < 0 || (facts ? !geometry[guard.parent] : !written[guard.parent])) {
      return false;
    }
    return facts || (guard.expect == Expect::Nothing && guard.kind != Kind::TypeVersion);
  }
  void add(const Guard& guard) {
    auto need = [&](int node) {
      if (node >= 0) {
        nodes[node] = true;
      }
    };
    need(guard.parent);
    need(guard.child);
    if (guard.kind == Kind::KeyedItem) {
      need(static_cast<int>(guard.index));
    }
    std::for_each(guard.nodes.begin(), guard.nodes.end(), need);
  }

  std::vector<bool> nodes;
  std::vector<bool> geometry;
  std::vector<bool> written;
};

}  // namespace

bool Region::filter_guards(PyObject* filter, PyObject* const* slots) {
  std::vector<PyObject*> nodes;
  if (guard::check(guards, slots, &nodes) >= 0) {
    return true;  // there is no call that it would fit
  }
  Ref<> rows = make_rows(guards, nodes);
  Ref<> answer = rows ? steal(PyObject_CallOneArg(filter, rows.get())) : nullptr;
  PyObject* kept;
  int keeps_state, keeps_conditions;
  if (!answer || !PyArg_ParseTuple(answer.get(), "O!pp", &PyList_Type, &kept, &keeps_state, &keeps_conditions)) {
    return false;
  }
  ALTERNATOR_CHECK(PyList_GET_SIZE(kept) == static_cast<Py_ssize_t>(guards.guards.size()),
                   "a filter says of each guard");
  any_state = !keeps_state && !changes_state;
  if (!keeps_conditions) {
    conditions = guard::Conditions();
  }
  Needs needs(*this);
  std::vector<guard::Guard> rest;
  for (size_t i = guards.guards.size(); i-- > 0;) {
    guard::Guard& guard = guards.guards[i];
    if (PyList_GET_ITEM(kept, i) == Py_True || needs.keeps(guard)) {
      needs.add(guard);
      rest.push_back(std::move(guard));
    }
  }
  std::reverse(rest.begin(), rest.end());
  guards.guards = std::move(rest);
  return true;
}

}  // namespace alternator::region
