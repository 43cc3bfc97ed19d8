#include "guard/words.h"

#include <algorithm>

#include "base/error.h"
#include "py/ordered_dict.h"

namespace alternator::guard {
namespace {

constexpr size_t kPrefetched = 12;  // words ahead: about as long as a line takes to come from the second-level cache

bool supports_weakrefs(PyObject* object) { return PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)); }

// A deque keeps its items in blocks.
bool has_item_words(PyObject* sequence) { return PyList_Check(sequence) || PyTuple_Check(sequence); }

}  // namespace

GuardIndex::GuardIndex(const GuardList& list)
    : source(list.nodes, -1), types(list.nodes, nullptr), begin(list.nodes + 1, 0) {
  for (const Constant& constant : list.constants) {
    types[constant.node] = constant.type.type();
  }
  for (const Guard& guard : list.guards) {
    if (guard.parent >= 0) {
      ++begin[guard.parent + 1];
    }
  }
  for (int node = 0; node < list.nodes; ++node) {
    begin[node + 1] += begin[node];
  }
  guards.resize(begin[list.nodes]);
  std::vector<int> next(begin.begin(), begin.end() - 1);
  for (int i = 0; i < static_cast<int>(list.guards.size()); ++i) {
    const Guard& guard = list.guards[i];
    if (guard.parent >= 0) {
      guards[next[guard.parent]++] = i;
    }
    if (guard.expect == Expect::NewNode) {
      source[guard.child] = i;
      types[guard.child] = guard.type.type();
    }
  }
}

WordList::WordList(const GuardList& list, const GuardIndex& index, const Moves& moves, PyObject* const* locals,
                   std::vector<PyObject*> slots)
    : list_(list),
      index_(index),
      states_(list.nodes, State::Stable),
      walks_(list.guards.size(), false),
      fixed_(list.nodes, false),
      slots_(std::move(slots)) {
  sort_guards(moves, locals);
  write_all();
}

// ---- Which guards have words ---------------------------------------------------------------------------------------

// Where the object of a guard that fills a slot belongs.
WordList::State WordList::place_child(const Guard& guard, const Moves& moves, PyObject* const* locals) {
  bool moves_often = moves[guard.child] >= kMovesOfVolatile;
  if (guard.kind == Kind::Local) {
    bool root = !moves_often && add_root(guard, locals[guard.index], static_cast<int>(guard.index));
    return root ? State::Stable : State::Early;
  }
  State parent = states_[guard.parent];
  if (guard.kind == Kind::KeyedItem && (parent != State::Stable || states_[guard.index] != State::Stable)) {
    return parent == State::Early && states_[guard.index] != State::Late ? State::Early : State::Late;
  }
  if (parent == State::Early && !moves_often && add_root(guard, slots_[guard.child], -1)) {
    return State::Stable;
  }
  bool written = has_words(guard.kind) && (guard.kind != Kind::SequenceItem || has_item_words(slots_[guard.parent]));
  return parent == State::Stable && (moves_often || !written) ? State::Late : parent;
}

bool WordList::add_root(const Guard& guard, PyObject* object, int local) {
  // Tensors that are arguments are others at each call; those that are found (the parameters of an optimizer) are often not.
  if ((local >= 0 && source::is_tensor(object)) || !supports_weakrefs(object) || !watch_.add(object)) {
    return false;
  }
  roots_.push_back({local, guard.child, object});
  return true;
}

// Whether a guard reads from its parent what its parent will always have.
bool WordList::is_fixed_link(const Guard& guard) const {
  if (guard.parent < 0 || !fixed_[guard.parent]) {
    return false;
  }
  PyObject* parent = slots_[guard.parent];
  switch (guard.kind) {
    case Kind::Slot: return py::is_fixed_field(parent, guard.index);
    case Kind::SequenceItem:
    case Kind::Length: return PyTuple_Check(parent);
    case Kind::MethodPart: return true;
    case Kind::InstanceDict: return PyModule_Check(parent);
    default: return false;
  }
}

void WordList::sort_guards(const Moves& moves, PyObject* const* locals) {
  for (const Constant& constant : list_.constants) {
    fixed_[constant.node] = true;
  }
  for (int i = 0; i < static_cast<int>(list_.guards.size()); ++i) {
    const Guard& guard = list_.guards[i];
    State state = guard.kind == Kind::Local ? State::Early : guard.parent >= 0 ? states_[guard.parent] : State::Late;
    bool waits = guard.kind == Kind::KeyedItem && states_[guard.index] != State::Stable;  // its key is found late
    // What is there and no more has no word of its own: it is written by the region, time and again.
    bool words = has_words(guard.kind) && guard.expect != Expect::Present;
    if ((state == State::Stable && !words) || waits) {
      state = State::Late;
    }
    if (guard.expect == Expect::NewNode) {
      bool early = guard.parent >= 0 && states_[guard.parent] == State::Early;
      states_[guard.child] = place_child(guard, moves, locals);
      state = early && states_[guard.child] == State::Stable ? State::Early : states_[guard.child];  // a root is found
      fixed_[guard.child] = is_fixed_link(guard);
    } else if (guard.expect == Expect::SameNode || guard.kind == Kind::Distinct) {
      // Early, the address that a stable child has in the list is good enough: the words prove it later.
      State child = states_[guard.child];
      bool comparable = state == State::Stable ? child == State::Stable : child != State::Late;
      state = comparable ? state : State::Late;
    }
    if (state != State::Stable) {
      walks_[i] = true;
      walk(i, state == State::Early ? &early_ : &late_);
    }
  }
}

void WordList::walk(int guard, std::vector<Walked>* order) const {
  const Guard& from = list_.guards[guard];
  Walked walked{guard};
  if (from.expect == Expect::NewNode && states_[from.child] == State::Stable) {
    walked.root = slots_[from.child];
  }
  if (from.kind == Kind::Local && from.expect == Expect::NewNode) {
    walked.local = static_cast<int>(from.index);
    walked.node = from.child;
    walked.type = from.type.type();
  } else if (from.kind == Kind::TensorFacts) {
    walked.node = from.parent;
    walked.facts = from.facts;
  }
  order->push_back(walked);
}

// ---- Writing the words ---------------------------------------------------------------------------------------------

void WordList::Draft::add(const py::Word* at, bool hold) {
  entries.push_back({at, *at});
  held.push_back(hold ? share(reinterpret_cast<PyObject*>(*at)) : nullptr);
}

void WordList::Draft::add_once(const py::Word* at) {
  for (const Entry& entry : entries) {
    if (entry.at == at) {
      return;
    }
  }
  add(at, false);
}

void WordList::write_all() {
  Draft draft;
  for (int node = 0; node < list_.nodes; ++node) {
    if (states_[node] != State::Stable) {
      continue;
    }
    draft = Draft();
    write_node(node, &draft);
    for (int guard : draft.unwritten) {
      ALTERNATOR_CHECK(list_.guards[guard].expect != Expect::NewNode, "a guard that fills a slot has words");
      walks_[guard] = true;
      walk(guard, &late_);
    }
    if (!draft.entries.empty()) {
      blocks_.push_back({static_cast<uint32_t>(words_.size()), node});
      words_.insert(words_.end(), draft.entries.begin(), draft.entries.end());
      std::move(draft.held.begin(), draft.held.end(), std::back_inserter(held_));
    }
  }
  std::sort(late_.begin(), late_.end(), [](const Walked& a, const Walked& b) { return a.guard < b.guard; });
}

// The words of one node, from its present state. Its guards have to hold.
void WordList::write_node(int node, Draft* draft) const {
  PyObject* object = slots_[node];
  if (needs_type_word(node)) {
    draft->add(py::type_word(object), false);
  }
  for (int at = index_.begin[node]; at < index_.begin[node + 1]; ++at) {
    int guard = index_.guards[at];
    if (!walks_[guard] && !write_guard(list_.guards[guard], object, draft)) {
      draft->unwritten.push_back(guard);
    }
  }
}

// Not for an object that cannot change its class and comes out of a dict: see the head of words.h.
bool WordList::needs_type_word(int node) const {
  if (index_.types[node] == nullptr || !py::keeps_its_class(slots_[node])) {
    return index_.types[node] != nullptr;
  }
  const Guard& source = list_.guards[index_.source[node]];
  if (fixed_[node] || source.kind == Kind::ClassAttribute) {
    return false;
  }
  return source.kind != Kind::DictItem && !(source.kind == Kind::OwnAttribute && py::has_dict(slots_[source.parent]));
}

bool WordList::write_guard(const Guard& guard, PyObject* parent, Draft* draft) const {
  auto put = [&](const py::Word* at) { draft->add_once(at); };
  // A field that is what the guard is about: a primitive there must not become another one at the same address.
  auto put_value = [&](const py::Word* at) { draft->add(at, guard.expect == Expect::Value); };
  if (is_fixed_link(guard)) {
    return true;
  }
  bool list = PyList_Check(parent);
  switch (guard.kind) {
    case Kind::DictItem: put(py::dict_version_word(parent)); return true;
    case Kind::DictKeys:
      put(py::dict_version_word(parent));
      if (PyODict_Check(parent)) {
        put(py::order_word(parent));
      }
      return true;
    case Kind::OwnAttribute:
      py::visit_attribute_words(parent, guard.key.get(),
                                [&](const py::Word* at, bool value) { value ? put_value(at) : put(at); });
      return true;
    case Kind::InstanceDict: {
      PyObject** values;
      return py::visit_dict_words(parent, &values, put) != nullptr;
    }
    case Kind::SequenceItem:
      if (!has_item_words(parent)) {
        return false;
      }
      put(py::size_word(parent));
      if (list) {
        put(py::list_items_word(parent));
      }
      if (guard.index < Py_SIZE(parent)) {
        put_value(list ? py::list_item_word(parent, guard.index) : py::tuple_item_word(parent, guard.index));
      }
      return true;
    case Kind::Length:
      put(PyDict_Check(parent)     ? py::dict_size_word(parent)
          : PyAnySet_Check(parent) ? py::set_size_word(parent)
                                   : py::size_word(parent));
      return true;
    case Kind::CellContents: put_value(py::cell_word(parent)); return true;
    case Kind::Slot: put_value(py::slot_word(parent, guard.index)); return true;
    case Kind::Word: put(py::slot_word(parent, guard.index)); return true;
    case Kind::MethodPart: put_value(py::method_part_word(parent, guard.index != 0)); return true;
    case Kind::KeyedItem: put(py::dict_version_word(parent)); return true;  // and the key is a stable node
    case Kind::Annotations: put(py::annotations_word(parent)); return true;
    case Kind::ClassAttribute:
    case Kind::TypeVersion: put(py::type_version_word(reinterpret_cast<PyTypeObject*>(parent))); return true;
    case Kind::TensorFacts: return guard.facts->visit_words(parent, [&](const void* at) { put(py::word_at(at)); });
    case Kind::Distinct: return true;  // of two addresses that do not change
    default: return false;
  }
}

// ---- Checking ------------------------------------------------------------------------------------------------------

ALTERNATOR_WARM bool WordList::still_holds(const Walked& walked, PyObject* const* locals) {
  if (walked.local >= 0) {
    PyObject* object = locals[walked.local];
    slots_[walked.node] = object;
    return object != nullptr && Py_TYPE(object) == walked.type;
  }
  if (walked.facts != nullptr) {
    return walked.facts->matches(slots_[walked.node]);
  }
  return holds(list_.guards[walked.guard], locals, &slots_);
}

// Another object than the root.
bool WordList::has_moved(const Walked& walked) const {
  return walked.root != nullptr && slots_[list_.guards[walked.guard].child] != walked.root;
}

ALTERNATOR_WARM WordList::Outcome WordList::check(PyObject* const* locals) {
  for (const Walked& walked : early_) {
    if (!still_holds(walked, locals)) {
      // Compared with the address of a stable node, which is not proved yet.
      const Guard& guard = list_.guards[walked.guard];
      bool known = guard.expect != Expect::SameNode && guard.kind != Kind::Distinct;
      return {known ? Outcome::Fails : Outcome::Unknown, walked.guard};
    }
    if (has_moved(walked)) {
      return {Outcome::Unknown, -1, list_.guards[walked.guard].child};
    }
  }
  if (Outcome outcome = compare_words(); outcome.verdict != Outcome::Holds) {
    return outcome;
  }
  for (const Walked& walked : late_) {
    if (!still_holds(walked, locals)) {
      return {Outcome::Fails, walked.guard};
    }
  }
  return {Outcome::Holds};
}

ALTERNATOR_WARM WordList::Outcome WordList::compare_words() {
  size_t count = words_.size();
  size_t repairs = 0;
  size_t i = 0;
  while (true) {
    const Entry* words = words_.data();
    size_t ahead = count > kPrefetched ? count - kPrefetched : 0;
    for (; i < ahead && *words[i].at == words[i].expected; ++i) {
      __builtin_prefetch(words[i + kPrefetched].at);
    }
    for (; i >= ahead && i < count && *words[i].at == words[i].expected; ++i) {
    }
    if (i == count) {
      return {Outcome::Holds};
    }
    // Other threads may write to tensors without the GIL: not for ever.
    if (++repairs > list_.guards.size()) {
      return {Outcome::Unknown};
    }
    if (Outcome outcome = repair(i); outcome.verdict != Outcome::Holds) {
      return outcome;
    }
    // The node's words are as its memory is, all of them.
  }
}

// A word is not equal any more: looks at the guards of its node and writes the node's words anew.
WordList::Outcome WordList::repair(size_t at) {
  auto behind = std::upper_bound(blocks_.begin(), blocks_.end(), at,
                                 [](size_t word, const Block& block) { return word < block.begin; });
  const Block& block = behind[-1];
  size_t end = behind == blocks_.end() ? words_.size() : behind->begin;
  Outcome outcome = look_again(block.node);
  if (outcome.verdict != Outcome::Holds) {
    return outcome;
  }
  Draft draft;
  write_node(block.node, &draft);
  if (draft.entries.size() != end - block.begin || !draft.unwritten.empty()) {
    return {Outcome::Unknown};  // kept in another way now
  }
  std::copy(draft.entries.begin(), draft.entries.end(), words_.begin() + block.begin);
  std::move(draft.held.begin(), draft.held.end(), held_.begin() + block.begin);
  return {Outcome::Holds};
}

// Whether the guards of a node hold, with the same objects in the slots.
WordList::Outcome WordList::look_again(int node) {
  if (index_.types[node] != nullptr && Py_TYPE(slots_[node]) != index_.types[node]) {
    int source = index_.source[node];
    return {Outcome::Fails, source >= 0 ? source : static_cast<int>(list_.guards.size())};
  }
  for (int at = index_.begin[node]; at < index_.begin[node + 1]; ++at) {
    int i = index_.guards[at];
    const Guard& guard = list_.guards[i];
    if (walks_[i]) {
      continue;
    }
    if (guard.kind == Kind::KeyedItem) {
      return {Outcome::Unknown};  // its key may come behind this node, and not be proved yet
    }
    bool fills = guard.expect == Expect::NewNode;
    PyObject* before = fills ? slots_[guard.child] : nullptr;
    bool held = holds(guard, nullptr, &slots_);
    PyObject* now = fills ? std::exchange(slots_[guard.child], before) : nullptr;
    if (!held) {
      return {guard.expect == Expect::SameNode ? Outcome::Unknown : Outcome::Fails, i};
    }
    if (now != before) {
      return {Outcome::Unknown, -1, guard.child};
    }
  }
  return {Outcome::Holds};
}

}  // namespace alternator::guard
