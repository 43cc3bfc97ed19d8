#include "record/read_graph.h"

#include "py/fields.h"
#include "record/purity.h"

namespace alternator::record {

using guard::Expect;
using guard::Guard;
using guard::Kind;
using source::Sort;

namespace {

std::string text_of(PyObject* object) {
  Ref<> text = steal(PyUnicode_Check(object) ? Py_NewRef(object) : PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 ? utf8 : "?";
}

// Names as TorchDynamo writes them, because placeholders are named after them.
std::string name_child(const std::string& parent, Kind kind, PyObject* key, Py_ssize_t index) {
  switch (kind) {
    case Kind::OwnAttribute:
    case Kind::Slot: return parent + "." + text_of(key);
    case Kind::DictItem:
      if (constexpr std::string_view dict = ".__dict__"; parent.ends_with(dict) && PyUnicode_Check(key)) {
        return parent.substr(0, parent.size() - dict.size()) + "." + text_of(key);
      }
      return parent + (PyUnicode_Check(key) ? "['" + text_of(key) + "']" : "[" + text_of(key) + "]");
    case Kind::IteratorItem:
    case Kind::SequenceItem: return parent + "[" + std::to_string(index) + "]";
    case Kind::CellContents: return parent;
    case Kind::Gradient: return parent + ".grad";
    case Kind::InstanceDict: return parent + ".__dict__";  // its items read as the instance's attributes
    default: return parent;
  }
}

}  // namespace

bool ReadGraph::is_nested_function(PyObject* object) {
  return PyFunction_Check(object) && substitute_of(object) == nullptr &&  // a marker is of this very function
         (reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(object))->co_flags & CO_NESTED) != 0;
}

int ReadGraph::node_of(PyObject* object) const {
  auto found = nodes_.find(object);
  return found == nodes_.end() ? -1 : found->second;
}

int ReadGraph::add_node(PyObject* object, std::string name) {
  kept_.push_back(share(object));
  nodes_.emplace(object, list_.nodes);
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

bool ReadGraph::is_new(int parent, Kind kind, PyObject* key, Py_ssize_t index) {
  uint64_t what = key != nullptr ? reinterpret_cast<uint64_t>(key) : static_cast<uint64_t>(index) << 3 | 1;
  return seen_.insert({static_cast<uint64_t>(parent + 1) << 8 | static_cast<uint64_t>(kind), what}).second;
}

void ReadGraph::read_local(Py_ssize_t index, PyObject* name, PyObject* value) {
  read(-1, Kind::Local, name, index, value);
}

void ReadGraph::read(int parent, Kind kind, PyObject* key, Py_ssize_t index, PyObject* value) {
  // Locals of several frames may have one name, and then one object for it.
  if (!is_new(parent, kind, kind == Kind::Local ? nullptr : key, index)) {
    return;
  }
  Guard guard{kind};
  guard.parent = parent;
  guard.index = index;
  guard.key = share(key);
  if (key != nullptr) {
    kept_.push_back(share(key));  // is_new() compares addresses
  }
  if (value == nullptr) {
    guard.expect = Expect::Absent;
    list_.guards.push_back(std::move(guard));
    return;
  }
  Sort sort = source::sort_of(value);
  if (sort == Sort::Primitive) {
    guard.expect = Expect::Value;
    guard.value = share(value);
  } else if (sort == Sort::Pinned && !(is_nested_function(value) && !is_constant(node_of(value)))) {
    guard.expect = Expect::Pinned;
    guard.pin = source::Pin::to(value);
    add_constant(value, kind == Kind::Local ? "L['" + text_of(key) + "']"
                                            : name_child(parent >= 0 ? list_.names[parent] : "", kind, key, index));
  } else if (int node = node_of(value); node >= 0) {
    guard.expect = Expect::SameNode;
    guard.child = node;
  } else {
    guard.expect = Expect::NewNode;
    guard.type = guard::TypePin::to(Py_TYPE(value));
    std::string name =
        kind == Kind::Local ? "L['" + text_of(key) + "']" : name_child(list_.names[parent], kind, key, index);
    guard.child = add_node(value, std::move(name));
  }
  list_.guards.push_back(std::move(guard));
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
    guard.value = steal(PySequence_Tuple(holder));
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_set_items(int parent, PyObject* holder) {
  if (is_new(parent, Kind::SetItems, nullptr, 0)) {
    Guard guard{Kind::SetItems};
    guard.parent = parent;
    guard.value = steal(PySequence_Tuple(holder));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(guard.value.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(guard.value.get(), i);
      if (source::sort_of(item) != Sort::Primitive) {
        add_constant(item, list_.names[parent]);
      }
    }
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

bool ReadGraph::read_type(PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
    return true;
  }
  int node = add_constant(reinterpret_cast<PyObject*>(type), type->tp_name);
  uint32_t version = py::current_type_version(type);
  if (is_new(node, Kind::TypeVersion, nullptr, 0)) {
    Guard guard{Kind::TypeVersion};
    guard.parent = node;
    guard.index = version;
    guard.contents = std::make_shared<guard::TypeContents>(type);
    list_.guards.push_back(std::move(guard));
  }
  return version != 0;
}

void ReadGraph::note_class_value(PyTypeObject* type, PyObject* name, PyObject* value) {
  if (value != nullptr && source::sort_of(value) != Sort::Primitive && node_of(value) < 0) {
    add_constant(value, std::string(type->tp_name) + "." + text_of(name));
  }
}

void ReadGraph::read_setting(PyObject* getter, PyObject* value) {
  kept_.push_back(share(getter));
  if (is_new(-1, Kind::Setting, getter, 0)) {
    Guard guard{Kind::Setting};
    guard.key = share(getter);
    guard.value = share(value);
    list_.guards.push_back(std::move(guard));
  }
}

void ReadGraph::read_function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  int node = node_of(object);
  if (node < 0 || !is_new(node, Kind::FunctionParts, nullptr, 0)) {
    return;
  }
  auto part = [](PyObject* value) { return value ? value : Py_None; };
  Guard guard{Kind::FunctionParts};
  guard.parent = node;
  guard.value =
      steal(PyTuple_Pack(3, part(function->func_code), part(function->func_defaults), part(function->func_kwdefaults)));
  list_.guards.push_back(std::move(guard));
}

void ReadGraph::read_tensor(int node, std::unique_ptr<tensor::Facts> facts) {
  if (is_new(node, Kind::TensorFacts, nullptr, 0)) {
    Guard guard{Kind::TensorFacts};
    guard.parent = node;
    guard.facts = facts.get();
    list_.facts.push_back(std::move(facts));
    list_.guards.push_back(std::move(guard));
  }
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
