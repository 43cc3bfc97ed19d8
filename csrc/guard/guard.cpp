#include "guard/guard.h"

#include <algorithm>

#include "base/shortage.h"
#include "guard/fetch.h"

#include "py/body.h"
#include "py/collector.h"
#include "py/instance.h"
#include "py/iterator.h"
#include "py/lru_cache.h"
#include "py/members.h"
#include "py/ordered_dict.h"

namespace alternator::guard {
namespace {

enum class How : uint8_t { Words, Walk };
struct Row {
  const char* name;
  const char* text;
  How how;
};
constexpr Row kRows[] = {
#define GUARD(name, text, how) {#name, text, How::how},
#include "guard/guard.def"
#undef GUARD
};

}  // namespace

ALTERNATOR_WARM PyObject* fetch(const Guard& guard, PyObject* parent, PyObject* const* locals,
                                const std::vector<PyObject*>& slots, bool* valid) {
  switch (guard.kind) {
    case Kind::Local: return locals[guard.index];
    case Kind::DictItem:
      *valid = PyDict_Check(parent);
      return *valid ? py::dict_item(parent, guard.key.get()) : nullptr;
    case Kind::KeyedItem:
      *valid = PyDict_Check(parent);
      return *valid ? py::dict_item_at(parent, slots[guard.index]) : nullptr;
    case Kind::OwnAttribute: return py::own_attribute(parent, guard.key.get(), valid);
    case Kind::SequenceItem:
      if (PyList_Check(parent)) {
        return guard.index < PyList_GET_SIZE(parent) ? PyList_GET_ITEM(parent, guard.index) : nullptr;
      }
      if (py::body_kind(parent) == py::BodyKind::Deque) {
        PyObject* item = PySequence_GetItem(parent, guard.index);
        forget_error();
        Py_XDECREF(item);  // the deque holds it
        return item;
      }
      *valid = PyTuple_Check(parent);
      return *valid && guard.index < PyTuple_GET_SIZE(parent) ? PyTuple_GET_ITEM(parent, guard.index) : nullptr;
    case Kind::IteratorItem: {
      PyObject* item = py::item_ahead(parent, py::iterator_kind(parent), guard.index);
      forget_error();
      Py_XDECREF(item);  // the sequence holds it
      return item;
    }
    case Kind::DictKey: {
      PyObject* found = nullptr;
      Py_ssize_t number = 0;
      *valid = PyDict_Check(parent);
      if (*valid) {
        py::visit_keys(parent, [&](PyObject* key) {
          found = number++ == guard.index ? key : nullptr;
          return found == nullptr;
        });
      }
      return found;
    }
    case Kind::Gradient: return tensor::grad_of(parent);
    case Kind::Referent: return PyWeakref_GET_OBJECT(parent);
    case Kind::CellContents: return PyCell_GET(parent);
    case Kind::ClassAttribute: {
      auto* type = reinterpret_cast<PyTypeObject*>(parent);
      *valid = py::current_type_version(type) != 0;  // what the words rely on
      return _PyType_Lookup(type, guard.key.get());
    }
    case Kind::Slot: return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(parent) + guard.index);
    case Kind::MethodPart:
      *valid = Py_IS_TYPE(parent, &PyMethod_Type);
      return !*valid ? nullptr : guard.index == 0 ? PyMethod_GET_FUNCTION(parent) : PyMethod_GET_SELF(parent);
    case Kind::Annotations: {
      PyObject* dict = PyFunction_GetAnnotations(parent);
      forget_error();
      return dict;
    }
    case Kind::InstanceDict: {
      PyObject* dict = PyObject_GenericGetDict(parent, nullptr);
      *valid = dict != nullptr;
      forget_error();
      Py_XDECREF(dict);  // the instance holds it
      return dict;
    }
    default: *valid = false; return nullptr;
  }
}

ALTERNATOR_WARM Py_ssize_t length_of(PyObject* object) {
  if (PyDict_Check(object)) {
    return PyDict_GET_SIZE(object);
  }
  if (PyAnySet_Check(object)) {
    return PySet_GET_SIZE(object);
  }
  bool sized = PyList_Check(object) || PyTuple_Check(object) || py::body_kind(object) == py::BodyKind::Deque;
  return sized ? Py_SIZE(object) : -1;
}

namespace {

bool same_keys(PyObject* dict, const std::vector<source::Mark>& keys) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(keys.size())) {
    return false;
  }
  size_t index = 0;
  return py::visit_keys(dict, [&](PyObject* key) { return keys[index++].is(key); });
}

bool same_set(PyObject* set, const std::vector<source::Mark>& items) {
  if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != static_cast<Py_ssize_t>(items.size())) {
    return false;
  }
  Py_ssize_t position = 0;
  size_t index = 0;
  PyObject* item;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (!items[index++].is(item)) {
      return false;
    }
  }
  return true;
}

bool are_distinct(const std::vector<int>& nodes, const std::vector<PyObject*>& slots) {
  std::vector<PyObject*> objects;
  for (int node : nodes) {
    objects.push_back(slots[node]);
  }
  std::sort(objects.begin(), objects.end());
  return std::adjacent_find(objects.begin(), objects.end()) == objects.end();
}

bool holds_type(const Guard& guard, PyTypeObject* type) {
  uint32_t version = py::current_type_version(type);
  if (version == static_cast<uint32_t>(guard.index)) {
    return true;
  }
  if (version == 0 || !guard.contents->difference(type).empty()) {
    return false;
  }
  guard.index = version;
  return true;
}

}  // namespace

Ref<> read_setting(const Guard& guard) {
  Ref<> now = steal(PyObject_CallNoArgs(guard.key.get()));
  forget_error();
  return now;
}

Ref<> read_c_attribute(const Guard& guard, PyObject* parent) {
  Ref<> now = steal(PyObject_GetAttr(parent, guard.key.get()));
  forget_error();
  return now;
}

ALTERNATOR_WARM bool holds(const Guard& guard, PyObject* const* locals, std::vector<PyObject*>* slots) {
  PyObject* parent = guard.parent >= 0 ? (*slots)[guard.parent] : nullptr;
  if (guard.key && guard.key.get() == nullptr) {
    return false;  // it died
  }
  switch (guard.kind) {
    case Kind::Length: return length_of(parent) == guard.index;
    case Kind::DictKeys: return same_keys(parent, guard.items);
    case Kind::SetItems: return same_set(parent, guard.items);
    case Kind::SetLayout: {
      Ref<> now = PyAnySet_Check(parent) ? steal(py::set_layout(parent)) : nullptr;
      forget_error();
      return now && source::same_primitive(now.get(), guard.value.get());
    }
    case Kind::IteratorMore: return py::count_ahead(parent, py::iterator_kind(parent)) > guard.index;
    case Kind::IteratorEnd: return py::count_ahead(parent, py::iterator_kind(parent)) == guard.index;
    case Kind::Word: return py::word_at_offset(parent, guard.index) == PyLong_AsSsize_t(guard.value.get());
    case Kind::IteratorItem:
      if (guard.expect == Expect::Value) {
        Ref<> item = steal(py::item_ahead(parent, py::iterator_kind(parent), guard.index));
        forget_error();
        return item && source::same_primitive(item.get(), guard.value.get());
      }
      break;
    case Kind::TensorFacts: return guard.facts->matches(parent);
    case Kind::CacheEntry: {
      PyObject* found = py::dict_item(parent, guard.key.get());
      if (found == nullptr) {
        return guard.index < 0 || PyDict_GET_SIZE(parent) < guard.index;
      }
      found = guard.index < 0 ? found : py::result_of_link(found);
      return guard.expect == Expect::Value && source::same_primitive(found, guard.value.get());
    }
    case Kind::Distinct: return parent != (*slots)[guard.child];
    case Kind::AllDistinct: return are_distinct(guard.nodes, *slots);
    case Kind::TypeVersion: return holds_type(guard, reinterpret_cast<PyTypeObject*>(parent));
    case Kind::CAttribute: {
      Ref<> now = read_c_attribute(guard, parent);
      return now && source::same_primitive(now.get(), guard.value.get());
    }
    case Kind::BaseValue: {
      Ref<> now = steal(py::base_value(parent));
      return now && source::same_primitive(now.get(), guard.value.get());
    }
    case Kind::Setting: {
      Ref<> now = read_setting(guard);
      return now && source::same_primitive(now.get(), guard.value.get());
    }
    default: break;
  }
  bool valid = true;
  PyObject* found = fetch(guard, parent, locals, *slots, &valid);
  if (!valid) {
    return false;
  }
  switch (guard.expect) {
    case Expect::Absent: return found == nullptr;
    case Expect::Present: return found != nullptr;
    case Expect::Value: return found != nullptr && source::same_primitive(found, guard.value.get());
    case Expect::Pinned: return found != nullptr && guard.pin.is(found);
    case Expect::NewNode: (*slots)[guard.child] = found; return found != nullptr && guard.type.is_of(found);
    case Expect::SameNode: return found != nullptr && found == (*slots)[guard.child];
    default: return true;
  }
}

ClassContents::ClassContents(PyTypeObject* of) : type(source::Pin::to(reinterpret_cast<PyObject*>(of))) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (!(of->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && PyDict_Next(of->tp_dict, &position, &key, &value)) {
    items.emplace_back(share(key), source::Mark::of_class_value(value));
  }
}

bool ClassContents::matches(PyTypeObject* now, std::string* difference) const {
  if (!type.is(reinterpret_cast<PyObject*>(now))) {
    *difference = "__mro__";
    return false;
  }
  PyObject *key, *value;
  Py_ssize_t position = 0;
  size_t at = 0;
  while (!(now->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && PyDict_Next(now->tp_dict, &position, &key, &value)) {
    if (at >= items.size() || items[at].first.get() != key || !items[at].second.is(value)) {
      const char* name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
      forget_error();
      *difference = name ? name : "?";
      return false;
    }
    ++at;
  }
  if (at < items.size()) {
    const char* name = PyUnicode_Check(items[at].first.get()) ? PyUnicode_AsUTF8(items[at].first.get()) : nullptr;
    forget_error();
    *difference = name ? name : "?";
  }
  return at == items.size();
}

std::string TypeContents::difference(PyTypeObject* type) const {
  if (PyTuple_GET_SIZE(type->tp_mro) != static_cast<Py_ssize_t>(mro.size())) {
    return "__mro__";
  }
  std::string name;
  for (size_t i = 0; i < mro.size(); ++i) {
    if (!mro[i]->matches(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)), &name)) {
      break;
    }
  }
  return name;
}

const char* kind_name(Kind kind) { return kRows[static_cast<int>(kind)].name; }
const char* kind_text(Kind kind) { return kRows[static_cast<int>(kind)].text; }
bool has_words(Kind kind) { return kRows[static_cast<int>(kind)].how == How::Words; }

const char* expect_name(Expect expect) {
  constexpr const char* kNames[] = {"Nothing", "Absent", "Present", "Value", "Pinned", "NewNode", "SameNode"};
  return kNames[static_cast<int>(expect)];
}

namespace {

bool fill_constants(const GuardList& list, std::vector<PyObject*>* slots) {
  slots->assign(list.nodes, nullptr);
  for (const Constant& constant : list.constants) {
    PyObject* object = constant.pin.get();
    if (object == nullptr || (constant.type.type() != nullptr && !constant.type.is_of(object))) {
      return false;
    }
    (*slots)[constant.node] = object;
  }
  return true;
}

}  // namespace

Py_ssize_t check(const GuardList& list, PyObject* const* locals, std::vector<PyObject*>* slots) {
  py::CollectorPause pause;  // a dict may have to be made for an instance that has none yet
  if (!fill_constants(list, slots)) {
    return static_cast<Py_ssize_t>(list.guards.size());
  }
  for (size_t i = 0; i < list.guards.size(); ++i) {
    if (!holds(list.guards[i], locals, slots)) {
      return static_cast<Py_ssize_t>(i);
    }
  }
  return -1;
}

void visit_moved(const GuardList& list, PyObject* const* locals,
                 const std::function<void(const Guard&, PyObject*)>& visit) {
  py::CollectorPause pause;
  std::vector<PyObject*> slots;
  if (!fill_constants(list, &slots)) {
    return;
  }
  for (const Guard& guard : list.guards) {
    if (holds(guard, locals, &slots)) {
      continue;
    }
    bool number = guard.expect == Expect::Value &&
                  (PyLong_CheckExact(guard.value.get()) || PyFloat_CheckExact(guard.value.get()));
    if (!number && guard.kind != Kind::TensorFacts) {
      return;
    }
    visit(guard, guard.parent >= 0 ? slots[guard.parent] : nullptr);
  }
}

}  // namespace alternator::guard
