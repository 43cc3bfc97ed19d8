// What operators, comparisons, subscripts and iteration read from containers.
#include <algorithm>

#include "base/shortage.h"
#include "py/instance.h"
#include "py/lru_cache.h"
#include "py/members.h"
#include "py/names.h"
#include "py/ordered_dict.h"
#include "record/recorder.h"

namespace alternator::record {

using guard::Kind;
using source::Sort;

namespace {

// Each pair of them has a guard.
constexpr size_t kMaximumCompared = 256;

bool is_heap_type(PyObject* object) { return PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE); }

// Code of the program, which is seen when it runs; or there is no such method, which is an exception.
bool is_of_python(PyTypeObject* type, const char* name) {
  Ref<> interned = steal(PyUnicode_InternFromString(name));
  PyObject* method = interned ? _PyType_Lookup(type, interned.get()) : nullptr;
  return method == nullptr || PyFunction_Check(method) || method == Py_None;
}

bool is_derived_primitive(PyObject* object) { return static_cast<bool>(steal(py::base_value(object))); }

// Its memory is that of any object: what it holds are attributes. Exceptions have more, which is read by name.
bool is_plain_instance(PyObject* object) {
  PyTypeObject* base = py::c_base(Py_TYPE(object));
  return is_heap_type(object) &&
         (base == &PyBaseObject_Type || PyExceptionInstance_Check(object) || is_derived_primitive(object));
}

// Hash and equality of the key are C code that looks at nothing else.
bool is_plain_key(PyObject* key) {
  Sort sort = source::sort_of(key);
  if (source::is_nan(key)) {
    return false;  // found only by the very object, which no guard holds
  }
  if (sort == Sort::Primitive || sort == Sort::Pinned) {
    return (!is_heap_type(key) || sort == Sort::Primitive || PyType_Check(key)) && !ReadGraph::has_parts(key);
  }
  // torch.Size is a tuple like any other.
  bool tuple = PyTuple_CheckExact(key) ||
               (PyTuple_Check(key) && !is_heap_type(key) && Py_TYPE(key)->tp_hash == PyTuple_Type.tp_hash &&
                Py_TYPE(key)->tp_richcompare == PyTuple_Type.tp_richcompare);
  if (!tuple) {
    return py::is_cache_mark(key);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (!is_plain_key(PyTuple_GET_ITEM(key, i))) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Recorder::record_key(PyObject* key) { record_deep(key, 0, true); }

void Recorder::record_keys(PyObject* table) {
  if (PyAnySet_Check(table)) {
    return record_deep(table, 0, true);
  }
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Check(table) && !ended_ && PyDict_Next(table, &position, &key, &value)) {
    record_key(key);
  }
}

void Recorder::record_compared(PyObject* object) {
  bool primitive = source::sort_of(object) == Sort::Primitive;
  if (primitive && !source::is_nan(object)) {
    return;  // equal if their values are
  }
  int node = primitive ? graph_.identify(object) : graph_.node_of(object);
  if (node < 0 || graph_.is_constant(node)) {
    return;
  }
  std::vector<int>& others = compared_[Py_TYPE(object)];
  if (std::find(others.begin(), others.end(), node) != others.end()) {
    return;
  }
  if (others.size() >= kMaximumCompared) {
    return abort(AbortReason::UnknownRead, "which of many objects are the same");
  }
  for (int other : others) {
    graph_.read_distinct(node, other);
  }
  others.push_back(node);
}

namespace {

// Its __class_getitem__ is C code, which makes a types.GenericAlias.
bool is_generic_builtin(PyTypeObject* type) {
  PyObject* const name = py::names.__class_getitem__;
  PyObject* method = _PyType_Lookup(type, name);
  return method != nullptr && Py_IS_TYPE(method, &PyClassMethodDescr_Type);
}

}  // namespace

void Recorder::record_item(PyObject* container, PyObject* key, bool by_base) {
  int node = graph_.node_of(container);
  expose(key, Reads::Deep);  // a slice, a tuple of indices
  if (ended_ || source::is_tensor(container) || source::sort_of(container) == Sort::Primitive) {
    return;
  }
  if (!graph_.read_type(Py_TYPE(container))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (PyObject* mapping = py::shown_mapping(container)) {
    read_fixed_parts(container);
    return record_item(mapping, key);
  }
  if (!PyList_Check(container) && !PyTuple_Check(container) && !is_keyed_by_tensor(container, key)) {
    record_key(key);
  }
  if (node < 0) {
    return;  // a fresh container, or Python's __getitem__
  }
  PyTypeObject* type = Py_TYPE(container);
  // Not the slot: classes written in Python have one of their own, which looks the method up.
  PyObject* const name = py::names.__getitem__;
  PyObject* method = _PyType_Lookup(type, name);
  auto takes_from = [&](PyTypeObject* base) {
    return PyType_IsSubtype(type, base) && (by_base || method == _PyType_Lookup(base, name));
  };
  if (takes_from(&PyDict_Type)) {
    if (source::is_tensor(key)) {
      return record_item_by_tensor(node, container, key);
    }
    if (!is_plain_key(key)) {
      return abort(AbortReason::UnknownRead, "an item by a key that runs code");
    }
    read_dict_item(node, container, key);
    if (py::dict_item(container, key) == nullptr && !PyDict_CheckExact(container)) {
      record_missing(container, key);
    }
    return;
  }
  bool list = takes_from(&PyList_Type);
  if (list || PyTuple_Check(container)) {
    if (!PyLong_CheckExact(key) || holder_of(container) != container) {
      return record_contents(container);
    }
    Py_ssize_t index = PyLong_AsSsize_t(key);
    forget_error();
    Py_ssize_t length = Py_SIZE(container);
    if (index < 0 || index >= length) {
      graph_.read_length(node, length);
      index += length;
    }
    if (index >= 0 && index < length) {
      PyObject* value = list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
      graph_.read(node, Kind::SequenceItem, nullptr, index, value);
    }
    return;
  }
  if (py::body_kind(container) == py::BodyKind::Deque) {
    return record_contents(container);
  }
  if (PyType_Check(container) && is_generic_builtin(reinterpret_cast<PyTypeObject*>(container))) {
    return;  // list[int]
  }
  if (!is_of_python(type, "__getitem__") && !is_derived_primitive(container)) {
    abort(AbortReason::UnknownRead, std::string("an item of ") + type->tp_name);
  }
}

// An item of a dict from outside that is found by a tensor has its own guard. Which keys are the same does not matter as long
// as the dict is not written to.
bool Recorder::is_keyed_by_tensor(PyObject* container, PyObject* key) const {
  return PyDict_Check(container) && source::is_tensor(key) && graph_.is_outside(container);
}

// The state of an optimizer is found by its parameter. Torch's hash of a tensor is its address, in Python; a dict finds the
// very object without comparing. The instruction runs natively.
void Recorder::record_item_by_tensor(int node, PyObject* dict, PyObject* key, bool overwrites) {
  PyObject* const hash = py::names.__hash__;
  PyObject* method = _PyType_Lookup(Py_TYPE(key), hash);
  int key_node = graph_.node_of(key);
  bool known = method == tensor_hash && method != nullptr &&
               reinterpret_cast<PyFunctionObject*>(method)->func_code == tensor_hash_code;
  if (!known || key_node < 0 || !deciding_) {
    return abort(AbortReason::UnknownRead, "an item by a key that runs code");
  }
  note_class_value(Py_TYPE(key), hash, method);
  std::vector<int>& keys = tensor_keys_[dict];
  if (std::find(keys.begin(), keys.end(), key_node) == keys.end()) {
    keys.push_back(key_node);
  }
  opaque_ = true;
  PyObject* original = py::dict_item_at(holder_of(dict), key);
  PyObject* value = py::dict_item_at(dict, key);
  if (overwrites) {
    return graph_.read_presence(node, Kind::KeyedItem, nullptr, key_node, original != nullptr);
  }
  if (value == original && !journal_.is_overwritten(dict, key)) {
    graph_.read(node, Kind::KeyedItem, nullptr, key_node, value);
  }
  if (value == nullptr && py::Instruction(position_.instruction).op == py::Op::kBINARY_SUBSCR) {
    record_missing_by_tensor(node, dict);
  }
}

// A defaultdict makes what it does not have. It does so natively, so its factory must be one that runs no code.
void Recorder::record_missing_by_tensor(int node, PyObject* dict) {
  PyObject* const name = py::names.default_factory;
  PyObject* factory = py::default_factory(dict);
  bool plain = factory == reinterpret_cast<PyObject*>(&PyDict_Type) ||
               factory == reinterpret_cast<PyObject*>(&PyList_Type) ||
               factory == reinterpret_cast<PyObject*>(&PySet_Type);
  if (!plain) {
    return abort(AbortReason::UnknownRead, "an item by a key that runs code");
  }
  graph_.read(node, Kind::Slot, name, py::default_factory_offset(), factory);
  record_container_write(dict, Reach::Nothing);
}

void Recorder::read_distinct_keys() {
  for (const journal::Body& body : journal_.bodies()) {
    if (auto found = tensor_keys_.find(body.owner.get()); found != tensor_keys_.end()) {
      graph_.read_all_distinct(found->second);
    }
  }
}

void Recorder::record_cache_search(PyObject* results, PyObject* key) {
  ++torch_steps_;  // a function that asks another cache does more than compute
  if (!is_plain_key(key)) {
    return abort(AbortReason::UnknownCall, describe_called_cache());
  }
  return py::dict_item(results, key) != nullptr ? record_item(results, key, true)
                                                : steps_before_caches_.push_back(torch_steps_);
}

// There was no result, and this is what the function gave; the cache will have it from now on. If it is a number and the
// function did nothing but compute it, the region fits the next call as well. Else that one finds an object that this one
// has yet to make, or does not call the function: it is another region. A cache that is full forgets something, which
// may be asked for later.
void Recorder::record_cache_result(PyObject* results, PyObject* key, PyObject* value, Py_ssize_t limit,
                                   Py_ssize_t made) {
  bool computes = journal_.is_empty() && steps_before_caches_.back() == torch_steps_;
  steps_before_caches_.pop_back();
  int node = graph_.node_of(results);
  if (node < 0) {
    return;
  }
  if (limit >= 0 && PyDict_GET_SIZE(results) + made >= limit) {
    return abort(AbortReason::UnknownCall, describe_called_cache());
  }
  bool number = computes && source::sort_of(value) == Sort::Primitive;
  graph_.read_cache_entry(node, key, limit >= 0 ? limit - made : -1, number ? value : nullptr);
}

void Recorder::read_dict_item(int node, PyObject* dict, PyObject* key) {
  if (auto found = instance_dicts_.find(dict);
      found != instance_dicts_.end() && journal_.is_noted(found->second, key)) {
    return;
  }
  if (!journal_.is_overwritten(dict, key)) {
    read_place(node, Kind::DictItem, dict, key, py::dict_item(holder_of(dict), key));
  }
}

// What a view of a dict shows, or a slice is made of.
void Recorder::read_fixed_parts(PyObject* object) {
  int node = graph_.node_of(object);
  if (node < 0) {
    return;
  }
  for (const py::Part& part : py::fixed_parts(object)) {
    Ref<> name = steal(PyUnicode_InternFromString(part.name));
    if (!name) {
      return;  // see meet_shortage()
    }
    graph_.read(node, Kind::Slot, name.get(), part.offset, py::object_at(object, part.offset));
  }
}

void Recorder::record_contents(PyObject* container) {
  int node = graph_.node_of(container);
  if (node < 0 || source::sort_of(container) != Sort::Object) {
    return;
  }
  if (Py_IS_TYPE(container, &PyMethod_Type)) {
    return record_method_parts(container);
  }
  if (auto parts = py::fixed_parts(container); !parts.empty()) {
    read_fixed_parts(container);
    for (const py::Part& part : parts) {
      record_contents(py::object_at(container, part.offset));
    }
    return;
  }
  PyObject* holder = holder_of(container);
  if (PyList_Check(holder) || PyTuple_Check(holder)) {
    graph_.read_length(node, Py_SIZE(holder));
    for (Py_ssize_t i = 0; i < Py_SIZE(holder); ++i) {
      PyObject* item = PyList_Check(holder) ? PyList_GET_ITEM(holder, i) : PyTuple_GET_ITEM(holder, i);
      graph_.read(node, Kind::SequenceItem, nullptr, i, item);
    }
    return;
  }
  if (PyDict_Check(holder)) {
    return record_dict_contents(node, container, holder);
  }
  if (PyAnySet_Check(holder)) {
    Ref<> items = steal(PySequence_Tuple(holder));
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
      if (!is_plain_key(PyTuple_GET_ITEM(items.get(), i))) {
        return abort(AbortReason::UnknownRead, "a set with items that run code");
      }
    }
    return graph_.read_set_items(node, holder);
  }
  if (py::body_kind(holder) == py::BodyKind::Deque) {
    graph_.read_length(node, Py_SIZE(holder));
    for (Py_ssize_t i = 0; i < Py_SIZE(holder); ++i) {
      Ref<> item = steal(PySequence_GetItem(holder, i));  // null without memory: see meet_shortage()
      graph_.read(node, Kind::SequenceItem, nullptr, i, item.get());
    }
    return;
  }
  if (!is_plain_instance(container)) {
    abort(AbortReason::UnknownRead, std::string("what is in ") + Py_TYPE(container)->tp_name);
  }
}

void Recorder::record_dict_contents(int node, PyObject* container, PyObject* holder) {
  auto instance = instance_dicts_.find(container);
  if (has_written(container) || (instance != instance_dicts_.end() && has_written(instance->second))) {
    return abort(AbortReason::WriteOutside, "a dict is written and then read as a whole");
  }
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(holder, &position, &key, &value)) {
    if (!is_plain_key(key)) {
      return abort(AbortReason::UnknownRead, "a dict with keys that run code");
    }
  }
  graph_.read_dict_keys(node, holder);
  Py_ssize_t number = 0;
  py::visit_keys(holder, [&](PyObject* one) {
    if (PyTuple_Check(one)) {
      graph_.read_object(node, Kind::DictKey, nullptr, number, one);  // the program may give it out
    }
    ++number;
    return true;
  });
  position = 0;
  while (PyDict_Next(holder, &position, &key, &value)) {
    graph_.read(node, Kind::DictItem, key, 0, value);
  }
}

void Recorder::record_deep(PyObject* object, int depth, bool compared) {
  Sort sort = source::sort_of(object);
  if (sort == Sort::Primitive) {
    return compared ? record_compared(object) : void();
  }
  if (!graph_.read_type(Py_TYPE(object))) {  // its methods may be called: __eq__, __index__
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (sort == Sort::Object) {
    record_contents(object);
  }
  if (depth > 8) {
    return abort(AbortReason::UnknownRead, "containers nested too deeply");
  }
  if (PyObject* mapping = py::shown_mapping(object)) {
    return record_deep(mapping, depth + 1, compared);
  }
  bool outside = graph_.is_outside(object);
  bool container = visit_items(object, [&](PyObject* item) {
    if (outside) {
      use_deep(item);  // the trace may have put it there
    }
    if (!ended_) {
      record_deep(item, depth + 1, compared);
    }
  });
  if (!container && compared) {
    record_compared(object);
  }
}

// What C code finds in an object: the items of containers, what a slice is made of, and whatever an object of another class
// of C code holds that the trace made. False if it is none of these: what instances of Python's classes hold are attributes,
// which only Python code looks at.
bool Recorder::visit_items(PyObject* object, const std::function<void(PyObject*)>& visit) {
  if (PyList_Check(object) || PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
      visit(PyList_Check(object) ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i));
    }
    return true;
  }
  if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (!ended_ && PyDict_Next(object, &position, &key, &value)) {
      visit(key);
      visit(value);
    }
    return true;
  }
  if (PyAnySet_Check(object) || py::body_kind(object) == py::BodyKind::Deque) {
    Ref<> items = steal(PySequence_Tuple(object));
    forget_error();
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
      visit(PyTuple_GET_ITEM(items.get(), i));
    }
    return true;
  }
  if (auto parts = py::fixed_parts(object); !parts.empty()) {
    for (const py::Part& part : parts) {
      visit(py::object_at(object, part.offset));
    }
    return true;
  }
  bool known = graph_.is_outside(object) || source::sort_of(object) != Sort::Object || is_plain_instance(object);
  if (known || !PyObject_IS_GC(object) || PyGen_Check(object) || py::iterator_kind(object) != py::IteratorKind::None) {
    return false;
  }
  std::vector<PyObject*> held;
  auto add = [](PyObject* child, void* to) {
    static_cast<std::vector<PyObject*>*>(to)->push_back(child);
    return 0;
  };
  Py_TYPE(object)->tp_traverse(object, add, &held);
  for (PyObject* child : held) {
    visit(child);
  }
  return false;
}

void Recorder::record_length(PyObject* container, bool by_base) {
  if (!graph_.read_type(Py_TYPE(container))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (PyObject* mapping = py::shown_mapping(container)) {
    read_fixed_parts(container);
    return record_length(mapping);
  }
  int node = graph_.node_of(container);
  if (node < 0 || source::sort_of(container) != Sort::Object) {
    return;
  }
  PyTypeObject* type = Py_TYPE(container);
  auto length = type->tp_as_sequence ? type->tp_as_sequence->sq_length : nullptr;
  PyObject* holder = holder_of(container);
  bool of_base = by_base && (PyList_Check(container) || PyTuple_Check(container));
  if (of_base || length == PyList_Type.tp_as_sequence->sq_length || length == PyTuple_Type.tp_as_sequence->sq_length ||
      py::body_kind(container) == py::BodyKind::Deque) {
    graph_.read_length(node, Py_SIZE(holder));
  } else if (length == PySet_Type.tp_as_sequence->sq_length || (by_base && PyAnySet_Check(container))) {
    graph_.read_length(node, PySet_GET_SIZE(holder));
  } else if (PyDict_Check(container) &&
             (by_base || type->tp_as_mapping->mp_length == PyDict_Type.tp_as_mapping->mp_length)) {
    auto instance = instance_dicts_.find(container);
    if (has_written(container) || (instance != instance_dicts_.end() && has_written(instance->second))) {
      return abort(AbortReason::WriteOutside, "a dict is written and then measured");
    }
    graph_.read_length(node, PyDict_GET_SIZE(holder));
  } else if ((by_base || !is_of_python(type, "__len__")) && !is_derived_primitive(container)) {
    abort(AbortReason::UnknownRead, std::string("the length of ") + type->tp_name);
  }
}

void Recorder::record_truth(PyObject* object) {
  if (source::is_tensor(object)) {
    return;  // torch says that it depends on data
  }
  PyTypeObject* type = Py_TYPE(object);
  bool has_length = (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                    (type->tp_as_sequence && type->tp_as_sequence->sq_length);
  bool has_truth = type->tp_as_number && type->tp_as_number->nb_bool;
  if (has_length && !has_truth) {
    return record_length(object);
  }
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (has_truth && graph_.is_outside(object) && source::sort_of(object) == Sort::Object &&
      !is_of_python(type, "__bool__") && !is_derived_primitive(object)) {
    abort(AbortReason::UnknownRead, std::string("the truth of ") + type->tp_name);
  }
}

void Recorder::record_text(PyObject* object, int depth, bool by_base) {
  PyTypeObject* type = Py_TYPE(object);
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  PyObject* const names[] = {py::names.__repr__, py::names.__str__, py::names.__format__};
  bool python = false;
  for (PyObject* name : names) {
    PyObject* method = _PyType_Lookup(type, name);
    python = python || (!by_base && method != nullptr && PyFunction_Check(method));
  }
  if (source::sort_of(object) == Sort::Primitive || PyType_Check(object) || python) {
    return;
  }
  if (PyExceptionInstance_Check(object) && !graph_.is_outside(object)) {
    return record_text(reinterpret_cast<PyBaseExceptionObject*>(object)->args, depth + 1);
  }
  auto is_plain = [&](PyTypeObject& known) { return type->tp_repr == known.tp_repr; };
  bool c_tuple = PyTuple_Check(object) && !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);  // torch.Size: shows its items
  if (depth > 8 || !(is_plain(PyList_Type) || is_plain(PyTuple_Type) || is_plain(PyDict_Type) || is_plain(PySet_Type) ||
                     type == &PyODict_Type || c_tuple)) {
    return abort(AbortReason::UnknownRead, std::string("the text of ") + type->tp_name);  // may tell an address
  }
  record_contents(object);
  bool outside = graph_.is_outside(object);
  auto record_items = [&](PyObject* holder) {
    Ref<> items = steal(PySequence_Tuple(holder));
    forget_error();
    for (Py_ssize_t i = 0; !ended_ && items && i < PyTuple_GET_SIZE(items.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(items.get(), i);
      if (outside) {
        use_deep(item);  // the trace may have put it there
      }
      record_text(item, depth + 1);
    }
  };
  record_items(object);
  if (PyDict_Check(object)) {
    Ref<> values = steal(PyDict_Values(object));
    record_items(values.get());
  }
}

void Recorder::record_binary(PyObject* left, PyObject* right, int operation) {
  bool in_place = operation >= NB_INPLACE_ADD;
  bool remainder = operation == NB_REMAINDER || operation == NB_INPLACE_REMAINDER;
  bool formats = remainder && (PyUnicode_Check(left) || PyBytes_Check(left));
  formats ? record_format(right) : record_operands(left, right, in_place);
}

// "%s and %s" % values: a tuple, of a subclass too, is several.
void Recorder::record_format(PyObject* values) {
  if (!PyTuple_Check(values)) {
    return source::is_tensor(values) ? void() : expose(values, Reads::Text);
  }
  record_contents(values);
  for (Py_ssize_t i = 0; !ended_ && i < PyTuple_GET_SIZE(values); ++i) {
    PyObject* item = PyTuple_GET_ITEM(values, i);
    source::is_tensor(item) ? void() : expose(item, Reads::Text);
  }
}

void Recorder::record_operands(PyObject* left, PyObject* right, bool in_place) {
  for (PyObject* operand : {left, right}) {
    if (source::is_tensor(operand) || source::sort_of(operand) == Sort::Primitive) {
      continue;
    }
    if (!graph_.read_type(Py_TYPE(operand))) {
      return abort(AbortReason::UnknownRead, "a class");
    }
    if (in_place && operand == left && PyList_CheckExact(left)) {
      continue;  // extended, whatever is in it
    }
    if (PyType_Check(operand)) {
      continue;  // int | None
    }
    if (py::shown_mapping(operand) != nullptr) {
      record_deep(operand, 0, true);
      continue;
    }
    if (!is_heap_type(operand) && !PyTuple_Check(operand) && !PyAnySet_Check(operand) &&
        py::body_kind(operand) == py::BodyKind::None) {
      return abort(AbortReason::UnknownCall, std::string("an operator of ") + Py_TYPE(operand)->tp_name);
    }
    record_contents(operand);
    record_keys(operand);
  }
  if (in_place && graph_.is_outside(left) && py::body_kind(left) != py::BodyKind::None) {
    record_container_write(left, Reach::Nothing);  // what it holds was read above
  }
}

void Recorder::record_comparison(PyObject* left, PyObject* right) {
  for (PyObject* operand : {left, right}) {
    if (source::is_tensor(operand) || source::sort_of(operand) == Sort::Primitive) {
      continue;
    }
    if (!graph_.read_type(Py_TYPE(operand))) {
      return abort(AbortReason::UnknownRead, "a class");
    }
    record_deep(operand, 0, true);
  }
  if (!source::is_tensor(left) && !source::is_tensor(right)) {
    record_identity(left, right);  // what equality is in the end, if nobody says otherwise
  }
}

void Recorder::record_identity(PyObject* left, PyObject* right) {
  auto identify = [&](PyObject* object) {
    bool primitive = source::sort_of(object) == Sort::Primitive;
    return !primitive ? graph_.node_of(object) : source::is_singleton(object) ? -1 : graph_.identify(object);
  };
  int a = identify(left);
  int b = identify(right);
  if (a >= 0 && b >= 0 && a != b) {
    graph_.read_distinct(a, b);
  }
}

void Recorder::record_membership(PyObject* container, PyObject* item) {
  bool of_dict = PyDict_Check(container) &&
                 Py_TYPE(container)->tp_as_sequence->sq_contains == PyDict_Type.tp_as_sequence->sq_contains;
  if (of_dict && is_keyed_by_tensor(container, item) && graph_.read_type(Py_TYPE(container))) {
    return record_item_by_tensor(graph_.node_of(container), container, item);
  }
  bool hashes = PyAnySet_CheckExact(container) || PyDict_CheckExact(container);
  if (source::is_tensor(container) || (source::is_tensor(item) && !hashes)) {
    return abort(AbortReason::UnsupportedTorch, "`in` with a tensor");
  }
  if (!graph_.read_type(Py_TYPE(container))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (Py_IS_TYPE(container, &PyDictProxy_Type)) {
    read_fixed_parts(container);
    return record_membership(py::shown_mapping(container), item);
  }
  record_key(item);
  int node = graph_.node_of(container);
  if (node >= 0 && of_dict && is_plain_key(item)) {
    return read_dict_item(node, container, item);
  }
  if (PyDict_Check(container)) {
    record_contents(container);
    return record_keys(container);
  }
  record_deep(container, 0, true);
}

void Recorder::record_iteration(PyObject* iterable) {
  if (source::is_tensor(iterable) || source::sort_of(iterable) == Sort::Primitive) {
    return;
  }
  if (!graph_.read_type(Py_TYPE(iterable))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (graph_.is_outside(iterable) && !is_heap_type(iterable) && Py_TYPE(iterable)->tp_iternext != nullptr) {
    return abort(AbortReason::IteratorOutside, Py_TYPE(iterable)->tp_name);
  }
  record_contents(iterable);
}

}  // namespace alternator::record
