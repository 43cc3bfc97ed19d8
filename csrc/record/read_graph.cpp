#include "record/read_graph.h"

#include <algorithm>

#include "base/shortage.h"
#include "py/body.h"
#include "py/fields.h"
#include "py/instance.h"
#include "py/members.h"
#include "record/contract.h"

namespace alternator::record {

using guard::Expect;
using guard::Guard;
using guard::Kind;
using source::Sort;

namespace {

std::string text_of(PyObject* object) {
  // Null: there was no memory for the name of a slot, and a name is all that it is.
  bool is_text = object == nullptr || PyUnicode_Check(object);
  Ref<> text = steal(is_text ? Py_XNewRef(object) : PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  forget_error();
  return utf8 ? utf8 : "?";
}

// Names as TorchDynamo writes them, because placeholders are named after them.
std::string name_child(const std::string& parent, Kind kind, PyObject* key, Py_ssize_t index) {
  switch (kind) {
    case Kind::OwnAttribute:
    case Kind::ClassAttribute: return parent + "." + text_of(key);
    case Kind::Slot:
      return PyUnicode_CompareWithASCIIString(key, "__globals__") == 0 ? "G" : parent + "." + text_of(key);
    case Kind::DictItem:
      if (constexpr std::string_view dict = ".__dict__"; parent.ends_with(dict) && PyUnicode_Check(key)) {
        return parent.substr(0, parent.size() - dict.size()) + "." + text_of(key);
      }
      return parent + (PyUnicode_Check(key) ? "['" + text_of(key) + "']" : "[" + text_of(key) + "]");
    case Kind::IteratorItem:
    case Kind::SequenceItem: return parent + "[" + std::to_string(index) + "]";
    case Kind::CellContents: return parent;
    case Kind::Gradient: return parent + ".grad";
    case Kind::Referent: return parent + "()";
    case Kind::InstanceDict: return parent + ".__dict__";  // its items read as the instance's attributes
    default: return parent;
  }
}

// The first class among a class and its bases that has the name; null if none has.
PyTypeObject* holding_class(PyTypeObject* type, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (py::dict_item(base->tp_dict, name) != nullptr) {
      return base;
    }
  }
  return nullptr;
}

}  // namespace

bool ReadGraph::has_parts(PyObject* object) {
  if (py::bound_to(object) != nullptr) {
    return true;
  }
  return PyFunction_Check(object) && substitute_of(object) == nullptr &&  // a marker is of this very function
         (reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(object))->co_flags & CO_NESTED) != 0;
}

int ReadGraph::node_of(PyObject* object) const {
  auto found = nodes_.find(object);
  return found == nodes_.end() ? -1 : found->second;
}

Py_ssize_t ReadGraph::count_references(PyObject* object) const {
  auto holds = [&](const source::Pin& pin) { return !pin.is_weak() && pin.get() == object; };
  Py_ssize_t count = std::count_if(kept_.begin(), kept_.end(), [&](const Ref<>& kept) { return kept.get() == object; });
  for (const guard::Constant& constant : list_.constants) {
    count += holds(constant.pin);
  }
  for (const Guard& guard : list_.guards) {
    count += holds(guard.key) + holds(guard.pin) + (guard.value.get() == object);
  }
  return count;
}

int ReadGraph::add_node(PyObject* object, std::string name) {
  if (object != nullptr) {
    kept_.push_back(share(object));
    nodes_.emplace(object, list_.nodes);
  }
  list_.names.push_back(std::move(name));
  return list_.nodes++;
}

int ReadGraph::add_constant(PyObject* object, std::string name) {
  int node = node_of(object);
  if (node >= 0) {
    return node;
  }
  node = add_node(object, std::move(name));
  constants_.insert(node);
  list_.constants.push_back({node, source::Pin::to(object),
                             py::keeps_its_class(object) ? guard::TypePin() : guard::TypePin::to(Py_TYPE(object))});
  return node;
}

std::pair<uint64_t, uint64_t> ReadGraph::read_id(int parent, Kind kind, PyObject* key, Py_ssize_t index) {
  uint64_t what = key != nullptr ? reinterpret_cast<uint64_t>(key) : static_cast<uint64_t>(index) << 3 | 1;
  return {static_cast<uint64_t>(parent + 1) << 8 | static_cast<uint64_t>(kind), what};
}

bool ReadGraph::was_read(int parent, Kind kind, PyObject* key, Py_ssize_t index) const {
  auto id = read_id(parent, kind, key, index);
  auto number = numbers_.find(id);  // of which there may be a guard for its type alone
  return number != numbers_.end() ? number->second.has_value : seen_.count(id) != 0;
}

bool ReadGraph::is_new(int parent, Kind kind, PyObject* key, Py_ssize_t index) {
  return seen_.insert(read_id(parent, kind, key, index)).second;
}

void ReadGraph::read_local(Py_ssize_t index, PyObject* name, PyObject* value) {
  read(-1, Kind::Local, name, index, value);
}

std::string ReadGraph::name_of_read(int parent, Kind kind, PyObject* key, Py_ssize_t index) const {
  if (kind == Kind::Local) {
    return "L['" + text_of(key) + "']";
  }
  if (kind == Kind::KeyedItem) {
    return list_.names[parent] + "[" + list_.names[index] + "]";
  }
  return name_child(parent >= 0 ? list_.names[parent] : "", kind, key, index);
}

std::optional<Guard> ReadGraph::begin_read(int parent, Kind kind, PyObject* key, Py_ssize_t index) {
  // Locals of several frames may have one name, and then one object for it.
  if (!is_new(parent, kind, kind == Kind::Local ? nullptr : key, index)) {
    return std::nullopt;
  }
  Guard guard{kind};
  guard.parent = parent;
  guard.index = index;
  if (key != nullptr) {
    guard.key = source::Pin::to(key);
    kept_.push_back(share(key));  // is_new() compares addresses
  }
  return guard;
}

void ReadGraph::end_read_of_object(Guard guard, PyObject* key, PyObject* value) {
  if (int node = node_of(value); node >= 0) {
    guard.expect = Expect::SameNode;
    guard.child = node;
  } else {
    guard.expect = Expect::NewNode;
    guard.type = guard::TypePin::to(Py_TYPE(value));
    guard.child = add_node(value, name_of_read(guard.parent, guard.kind, key, guard.index));
    int child = guard.child;
    list_.guards.push_back(std::move(guard));
    return read_hidden(child, value);
  }
  list_.guards.push_back(std::move(guard));
}

// What C code finds in an object without any read that could be seen.
void ReadGraph::read_hidden(int node, PyObject* object) {
  if (Ref<> value = steal(py::base_value(object))) {
    Guard guard{Kind::BaseValue};
    guard.parent = node;
    guard.expect = Expect::Value;
    guard.value = std::move(value);
    list_.guards.push_back(std::move(guard));
  }
  if (py::body_kind(object) == py::BodyKind::Deque) {
    read_word(node, py::deque_limit_offset(), py::deque_limit(object));
  }
}

void ReadGraph::read_object(int parent, Kind kind, PyObject* key, Py_ssize_t index, PyObject* value) {
  if (std::optional<Guard> guard = begin_read(parent, kind, key, index)) {
    end_read_of_object(std::move(*guard), key, value);
  }
}

void ReadGraph::read(int parent, Kind kind, PyObject* key, Py_ssize_t index, PyObject* value) {
  std::optional<Guard> guard = begin_read(parent, kind, key, index);
  if (!guard) {
    auto number = numbers_.find(read_id(parent, kind, kind == Kind::Local ? nullptr : key, index));
    return number != numbers_.end() ? read_value_of_number(number->second.node, value) : void();
  }
  Sort sort = value != nullptr ? source::sort_of(value) : Sort::Primitive;
  if (value == nullptr) {
    guard->expect = Expect::Absent;
  } else if (sort == Sort::Primitive) {
    guard->expect = Expect::Value;
    guard->value = share(value);
    note_place(value);
  } else if (sort == Sort::Pinned && !(has_parts(value) && !is_constant(node_of(value)))) {
    guard->expect = Expect::Pinned;
    guard->pin = source::Pin::to(value);
    add_constant(value, name_of_read(parent, kind, key, index));
  } else {
    return end_read_of_object(std::move(*guard), key, value);
  }
  list_.guards.push_back(std::move(*guard));
}

int ReadGraph::read_number(int parent, Kind kind, PyObject* key, Py_ssize_t index, PyObject* value) {
  auto id = read_id(parent, kind, kind == Kind::Local ? nullptr : key, index);
  std::optional<Guard> guard = begin_read(parent, kind, key, index);
  if (!guard) {
    auto found = numbers_.find(id);
    return found != numbers_.end() ? found->second.node : -1;
  }
  guard->expect = Expect::NewNode;
  guard->type = guard::TypePin::to(Py_TYPE(value));
  guard->child = add_node(nullptr, name_of_read(parent, kind, key, index));
  numbers_.emplace(id, Number{guard->child, list_.guards.size()});
  list_.guards.push_back(std::move(*guard));
  return list_.guards.back().child;
}

void ReadGraph::read_value_of_number(int node, PyObject* value) {
  auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const auto& row) { return row.second.node == node; });
  if (std::exchange(found->second.has_value, true)) {
    return;
  }
  Guard guard = look_again(found->second.guard);
  guard.expect = Expect::Value;
  guard.value = share(value);
  note_place(value);
  list_.guards.push_back(std::move(guard));
}

Guard ReadGraph::look_again(size_t guard) const {
  const Guard& before = list_.guards[guard];
  Guard again{before.kind};
  again.parent = before.parent;
  again.index = before.index;
  if (PyObject* key = before.key.get()) {
    again.key = source::Pin::to(key);
  }
  return again;
}

void ReadGraph::note_place(PyObject* primitive) {
  if (!source::is_singleton(primitive)) {
    primitives_[primitive].push_back(list_.guards.size());
  }
}

int ReadGraph::identify(PyObject* primitive) {
  Identity& identity = identities_[primitive];
  auto found = primitives_.find(primitive);
  if (found == primitives_.end()) {
    if (identity.node < 0) {
      identity.node = add_node(nullptr, "constant");
      constants_.insert(identity.node);
      list_.constants.push_back({identity.node, source::Pin::holding(primitive), guard::TypePin()});
    }
    return identity.node;
  }
  for (; identity.places < found->second.size(); ++identity.places) {
    Guard guard = look_again(found->second[identity.places]);
    bool first = identity.node < 0;
    if (first) {
      identity.node = add_node(nullptr, name_of_read(guard.parent, guard.kind, guard.key.get(), guard.index));
      guard.type = guard::TypePin::to(Py_TYPE(primitive));
    }
    guard.expect = first ? Expect::NewNode : Expect::SameNode;
    guard.child = identity.node;
    list_.guards.push_back(std::move(guard));
  }
  return identity.node;
}

void ReadGraph::read_presence(int parent, Kind kind, PyObject* key, Py_ssize_t index, bool present) {
  if (std::optional<Guard> guard = begin_read(parent, kind, key, index)) {
    guard->expect = present ? Expect::Present : Expect::Absent;
    list_.guards.push_back(std::move(*guard));
  }
}

void ReadGraph::read_cache_entry(int results, PyObject* key, Py_ssize_t room, PyObject* value) {
  if (std::optional<Guard> guard = begin_read(results, Kind::CacheEntry, key, room)) {
    guard->expect = value ? Expect::Value : Expect::Absent;
    guard->value = share(value);
    list_.guards.push_back(std::move(*guard));
  }
}

void ReadGraph::read_length(int parent, Py_ssize_t length) {
  if (is_new(parent, Kind::Length, nullptr, 0)) {
    Guard guard{Kind::Length};
    guard.parent = parent;
    guard.index = length;
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_dict_keys(int parent, PyObject* holder) {
  if (is_new(parent, Kind::DictKeys, nullptr, 0)) {
    Guard guard{Kind::DictKeys};
    guard.parent = parent;
    Ref<> keys = steal(PySequence_Tuple(holder));
    for (Py_ssize_t i = 0; keys && i < PyTuple_GET_SIZE(keys.get()); ++i) {
      guard.items.push_back(source::Mark::of(PyTuple_GET_ITEM(keys.get(), i)));
    }
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_set_items(int parent, PyObject* holder) {
  if (is_new(parent, Kind::SetItems, nullptr, 0)) {
    Guard guard{Kind::SetItems};
    guard.parent = parent;
    Ref<> items = steal(PySequence_Tuple(holder));
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(items.get(), i);
      guard.items.push_back(source::Mark::of(item));
      if (source::sort_of(item) != Sort::Primitive) {
        add_constant(item, list_.names[parent]);
      }
    }
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_set_layout(int parent, PyObject* holder) {
  if (is_new(parent, Kind::SetLayout, nullptr, 0)) {
    Guard guard{Kind::SetLayout};
    guard.parent = parent;
    guard.value = steal(py::set_layout(holder));
    forget_error();
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_iterator(int parent, Py_ssize_t count, bool more) {
  Kind kind = more ? Kind::IteratorMore : Kind::IteratorEnd;
  if (is_new(parent, kind, nullptr, count)) {
    Guard guard{kind};
    guard.parent = parent;
    guard.index = count;
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_word(int parent, Py_ssize_t offset, Py_ssize_t value) {
  if (is_new(parent, Kind::Word, nullptr, offset)) {
    Guard guard{Kind::Word};
    guard.parent = parent;
    guard.index = offset;
    guard.value = steal(PyLong_FromSsize_t(value));
    list_.guards.push_back(std::move(guard));
  }
}

guard::TypeContents ReadGraph::contents_of(PyTypeObject* type) {
  guard::TypeContents contents;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* one = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    auto& known = classes_[one];
    if (!known) {
      known = std::make_shared<const guard::ClassContents>(one);
    }
    contents.mro.push_back(known);
  }
  return contents;
}

bool ReadGraph::read_type(PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
    return true;
  }
  if (is_fresh_class(reinterpret_cast<PyObject*>(type))) {
    bool all = true;
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      all = read_type(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))) && all;
    }
    return all;
  }
  int node = add_constant(reinterpret_cast<PyObject*>(type), type->tp_name);
  uint32_t version = py::current_type_version(type);
  if (is_new(node, Kind::TypeVersion, nullptr, 0)) {
    Guard guard{Kind::TypeVersion};
    guard.parent = node;
    guard.index = version;
    guard.contents = std::make_unique<guard::TypeContents>(contents_of(type));
    list_.guards.push_back(std::move(guard));
  }
  return version != 0;
}

void ReadGraph::note_class_value(PyTypeObject* type, PyObject* name, PyObject* value) {
  if (value == nullptr || source::sort_of(value) == Sort::Primitive) {
    return;
  }
  if (is_fresh_class(reinterpret_cast<PyObject*>(type))) {
    type = holding_class(type, name);
    if (type == nullptr || is_fresh_class(reinterpret_cast<PyObject*>(type))) {
      return;  // made by the trace as well
    }
  }
  // A watched class tells whether it still holds this very object, if the object can be weakly referenced.
  int parent = node_of(reinterpret_cast<PyObject*>(type));
  PyTypeObject* owner = py::descriptor_owner(value);
  bool immortal = owner != nullptr && (owner->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
  if (parent < 0 || immortal || PyType_SUPPORTS_WEAKREFS(Py_TYPE(value))) {
    add_constant(value, std::string(type->tp_name) + "." + text_of(name));
  } else {
    read_object(parent, Kind::ClassAttribute, name, 0, value);
  }
}

void ReadGraph::read_setting(PyObject* getter, PyObject* value) {
  kept_.push_back(share(getter));
  if (is_new(-1, Kind::Setting, getter, 0)) {
    Guard guard{Kind::Setting};
    guard.key = source::Pin::holding(getter);  // a method of a context variable is made for the call
    guard.value = share(value);
    list_.guards.push_back(std::move(guard));
  }
}

tensor::Facts* ReadGraph::read_tensor(int node, std::unique_ptr<tensor::Facts> facts) {
  if (!is_new(node, Kind::TensorFacts, nullptr, 0)) {
    return nullptr;
  }
  Guard guard{Kind::TensorFacts};
  guard.parent = node;
  guard.facts = facts.get();
  list_.facts.push_back(std::move(facts));
  list_.guards.push_back(std::move(guard));
  return list_.facts.back().get();
}

void ReadGraph::read_distinct_from_all(PyObject* object) {
  int node = node_of(object);
  std::vector<int> others;
  for (const auto& [other, index] : nodes_) {
    if (index != node && Py_TYPE(other) == Py_TYPE(object)) {
      others.push_back(index);
    }
  }
  for (int other : others) {
    read_distinct(node, other);
  }
}

void ReadGraph::read_distinct_tensors(std::vector<int> changed, const std::vector<int>& compared) {
  std::unordered_set<int> skipped(compared.begin(), compared.end());
  skipped.insert(changed.begin(), changed.end());
  std::vector<int> others;
  for (const auto& [object, index] : nodes_) {
    if (source::is_tensor(object) && skipped.count(index) == 0) {
      others.push_back(index);
    }
  }
  if (!changed.empty() && (!others.empty() || compared.empty())) {
    std::sort(others.begin(), others.end());
    others.insert(others.end(), changed.begin(), changed.end());
    read_all_distinct(std::move(others));
  }
}

void ReadGraph::read_all_distinct(std::vector<int> nodes) {
  if (nodes.size() > 1) {
    Guard guard{Kind::AllDistinct};
    guard.child = nodes.front();
    guard.nodes = std::move(nodes);
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_distinct(int a, int b) {
  if (a > b) {
    std::swap(a, b);
  }
  if (is_new(a, Kind::Distinct, nullptr, b)) {
    Guard guard{Kind::Distinct};
    guard.parent = a;
    guard.child = b;
    list_.guards.push_back(std::move(guard));
  }
}

}  // namespace alternator::record
