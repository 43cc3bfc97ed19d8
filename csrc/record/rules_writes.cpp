// What is written to objects from outside: places and bodies that the journal can put back.
#include "base/shortage.h"
#include "py/instance.h"
#include "py/members.h"
#include "py/names.h"
#include "record/recorder.h"

namespace alternator::record {

using guard::Kind;
using journal::PlaceKind;
using source::Sort;

namespace {

PyObject* python_method(PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  return found != nullptr && PyFunction_Check(found) ? found : nullptr;
}

std::string of_type(PyObject* object) { return std::string("an object of type ") + Py_TYPE(object)->tp_name; }

}  // namespace

void Recorder::read_place(int node, Kind kind, PyObject* owner, PyObject* key, PyObject* value) {
  if (!journal_.is_noted(owner, key) && !read_moving_number(node, kind, key, value)) {
    graph_.read(node, kind, key, 0, value);
  }
}

void Recorder::note_class_value(PyTypeObject* type, PyObject* name, PyObject* value) {
  if (value == nullptr) {
    return;
  }
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    if (journal_.is_noted(PyTuple_GET_ITEM(mro, i), name)) {
      return;
    }
  }
  // Whether it is a descriptor is for its own class to say.
  if (!graph_.read_type(Py_TYPE(value))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  graph_.note_class_value(type, name, value);
}

void Recorder::record_write(PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset) {
  int node = graph_.node_of(owner);
  writes_ += node >= 0;
  if (node < 0 || journal_.is_noted(owner, key)) {
    return;  // fresh, or noted
  }
  // Whether something was there is watched: a new key keeps its place. If it was read before, an exit that leaves it as it
  // was has nothing to do.
  bool readable = true, was_read = true;
  auto look = [&](Kind guard, PyObject* name, PyObject* value) {
    was_read = graph_.was_read(node, guard, name, offset);
    graph_.read_presence(node, guard, name, offset, value != nullptr);
  };
  PyObject* old = nullptr;
  switch (kind) {
    case PlaceKind::Attribute: look(Kind::OwnAttribute, key, old = py::own_attribute(owner, key, &readable)); break;
    case PlaceKind::DictItem: look(Kind::DictItem, key, old = py::dict_item(owner, key)); break;
    case PlaceKind::Cell: look(Kind::CellContents, nullptr, old = PyCell_GET(owner)); break;
    case PlaceKind::Slot: look(Kind::Slot, key, old = py::object_at(owner, offset)); break;
    case PlaceKind::ClassAttribute: break;  // the class is watched as a whole
  }
  if (minds_being_replaced(old, graph_)) {
    return abort(AbortReason::Finaliser, Py_TYPE(old)->tp_name);
  }
  if (!readable || journal_.original(owner) != nullptr || !journal_.note(kind, owner, key, offset, was_read)) {
    abort(AbortReason::WriteOutside, of_type(owner));
  }
}

void Recorder::record_attribute_write(PyObject* object, PyObject* name, bool deletes) {
  PyTypeObject* type = Py_TYPE(object);
  if (source::is_tensor(object)) {
    PyObject* on_class = _PyType_Lookup(type, name);
    if (on_class == nullptr && type->tp_setattro == PyObject_GenericSetAttr && graph_.read_type(type)) {
      // One of the program's own. The tensors that a trace makes have them as well, and the exit gives them on.
      return graph_.is_outside(object) ? record_generic_attribute_write(object, name, deletes) : void();
    }
    // `__class__` and the like are Python's, and would be set at once.
    bool special =
        PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
    if (deletes || special || on_class == nullptr || !Py_IS_TYPE(on_class, &PyGetSetDescr_Type)) {
      return abort(AbortReason::UnsupportedTorch, "an attribute of a tensor is set");
    }
    opaque_ = true;  // torch's own: sent to the tracer
    return;
  }
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (PyType_Check(object)) {
    return record_class_attribute_write(object, name, deletes);
  }
  if (is_fresh_instance(object)) {
    return;
  }
  PyObject* const methods[] = {py::names.__setattr__, py::names.__delattr__};
  PyObject* method = python_method(type, methods[deletes]);
  if (type->tp_setattro != PyObject_GenericSetAttr && method != nullptr) {
    return note_class_value(type, methods[deletes], method);  // Python code, which the loop runs
  }
  record_generic_attribute_write(object, name, deletes);
}

void Recorder::record_generic_attribute_write(PyObject* object, PyObject* name, bool deletes) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* descriptor = _PyType_Lookup(type, name);
  bool data = descriptor != nullptr && Py_TYPE(descriptor)->tp_descr_set != nullptr;
  bool heap = data && PyType_HasFeature(Py_TYPE(descriptor), Py_TPFLAGS_HEAPTYPE);
  if (data && (Py_TYPE(descriptor) == &PyProperty_Type || heap)) {
    return is_python_descriptor(descriptor, deletes ? "fdel" : "fset", deletes ? "__delete__" : "__set__")
               ? note_class_value(type, name, descriptor)
               : abort(AbortReason::WriteOutside, of_type(object));
  }
  if (!graph_.is_outside(object) && !PyModule_Check(object)) {
    return !is_fresh_instance(object) && !PyFunction_Check(object) ? abort(AbortReason::WriteOutside, of_type(object))
                                                                   : void();
  }
  if (data && Py_TYPE(descriptor) == &PyMemberDescr_Type) {
    PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    return member->type == T_OBJECT_EX && !(member->flags & READONLY)
               ? record_write(PlaceKind::Slot, object, name, member->offset)
               : abort(AbortReason::WriteOutside, of_type(object));
  }
  if (PyModule_Check(object) && type->tp_setattro == PyObject_GenericSetAttr && !deletes) {
    PyObject* dict = PyModule_GetDict(object);
    module_dict_node(object);
    return record_write(PlaceKind::DictItem, dict, name);
  }
  if (data || type->tp_dictoffset == 0 || PyModule_Check(object)) {
    return abort(AbortReason::WriteOutside, of_type(object));
  }
  record_write(PlaceKind::Attribute, object, name);
  if (!ended_ && deletes && !journal_.note_deletion(object, name)) {
    abort(AbortReason::WriteOutside, of_type(object));
  }
}

void Recorder::record_class_attribute_write(PyObject* object, PyObject* name, bool deletes) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  if (graph_.is_fresh_class(object)) {
    return;
  }
  if (!graph_.read_type(type) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) ||
      Py_TYPE(object)->tp_setattro != PyType_Type.tp_setattro || deletes) {
    return abort(AbortReason::WriteOutside, "a class");
  }
  graph_.add_constant(object, type->tp_name);
  // Special methods change the slots of the class and of its subclasses.
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr || (text[0] == '_' && text[1] == '_')) {
    forget_error();
    return abort(AbortReason::WriteOutside, "a special attribute of a class");
  }
  record_write(PlaceKind::ClassAttribute, object, name);
}

void Recorder::record_container_write(PyObject* container, Reach reach, PyObject* key) {
  int node = graph_.node_of(container);
  if (node < 0) {
    if (!is_fresh_instance(container)) {
      abort(AbortReason::WriteOutside, of_type(container));
    }
    return;  // fresh
  }
  ++writes_;
  if (!graph_.read_type(Py_TYPE(container))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (reach == Reach::Whole) {
    record_contents(container);
  }
  if (PyAnySet_Check(container)) {
    graph_.read_set_layout(node, holder_of(container));
  }
  bool unread = reach == Reach::Overwritten && record_overwriting(node, container, key);
  if (!unread && (reach == Reach::Item || reach == Reach::Overwritten)) {
    record_item(container, key, true);
  }
  if (!ended_ && reach != Reach::Nothing) {
    if (PyObject* item = find_finalised_item(container, reach == Reach::Whole ? nullptr : key)) {
      return abort(AbortReason::Finaliser, Py_TYPE(item)->tp_name);
    }
  }
  if (!ended_ && (has_written(container) || instance_dicts_.count(container) || !journal_.note_body(container))) {
    return abort(AbortReason::WriteOutside, of_type(container));
  }
  if (!ended_ && unread) {
    journal_.note_overwritten(container, key);
  }
}

// What is in a container, or in its place `key`, and runs code when it is dropped; null if there is nothing. Borrowed.
PyObject* Recorder::find_finalised_item(PyObject* container, PyObject* key) {
  PyObject* found = nullptr;
  auto look_at = [&](PyObject* item) {
    if (found == nullptr && minds_being_replaced(item, graph_)) {
      found = item;
    }
  };
  PyObject* holder = holder_of(container);
  if (key != nullptr && PyDict_Check(holder) && PyUnicode_CheckExact(key)) {
    look_at(py::dict_item(holder, key));
    return found;
  }
  if (journal_.original(container) != nullptr) {
    return nullptr;  // looked at when it was noted; an item by its key has been read, and is held
  }
  using Visit = decltype(look_at);
  Py_TYPE(holder)->tp_traverse(
      holder,
      [](PyObject* item, void* visit) noexcept {
        (*static_cast<Visit*>(visit))(item);
        return 0;
      },
      &look_at);
  return found;
}

// An item of a dict is replaced: what was there does not matter, only that it was there. False if it was read before, or if
// that cannot be told from the key.
bool Recorder::record_overwriting(int node, PyObject* dict, PyObject* key) {
  if (!PyDict_Check(dict)) {
    return false;
  }
  if (is_keyed_by_tensor(dict, key)) {
    bool was_read = graph_.was_read(node, Kind::KeyedItem, nullptr, graph_.node_of(key));
    record_item_by_tensor(node, dict, key, true);
    return !was_read;
  }
  if (!PyUnicode_CheckExact(key) || graph_.was_read(node, Kind::DictItem, key, 0)) {
    return false;
  }
  if (!journal_.is_overwritten(dict, key)) {
    graph_.read_presence(node, Kind::DictItem, key, 0, py::dict_item(holder_of(dict), key) != nullptr);
  }
  return true;
}

void Recorder::record_item_write(PyObject* container, PyObject* key, bool deletes, bool by_base) {
  expose(key, Reads::Deep);
  if (ended_ || source::is_tensor(container)) {
    return;
  }
  PyTypeObject* type = Py_TYPE(container);
  PyObject* const methods[] = {py::names.__setitem__, py::names.__delitem__};
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (PyObject* method = by_base ? nullptr : python_method(type, methods[deletes])) {
    return note_class_value(type, methods[deletes], method);
  }
  if (!is_keyed_by_tensor(container, key)) {
    record_key(key);
  }
  if (!graph_.is_outside(container)) {
    return;
  }
  if (PyDict_Check(container)) {
    if (auto found = instance_dicts_.find(container); found != instance_dicts_.end() && PyUnicode_CheckExact(key)) {
      PyObject* descriptor = _PyType_Lookup(Py_TYPE(found->second), key);
      if (descriptor != nullptr && Py_TYPE(descriptor)->tp_descr_set != nullptr) {
        return abort(AbortReason::WriteOutside, "the dict of an object, behind a descriptor's back");
      }
      // The dict of an instance: the same place as the attribute.
      record_write(PlaceKind::Attribute, found->second, key);
      bool there = deletes && py::dict_item(container, key) != nullptr;  // pop() may find nothing
      if (!ended_ && there && !journal_.note_deletion(found->second, key)) {
        abort(AbortReason::WriteOutside, of_type(container));
      }
      return;
    }
    bool stores = deciding_ && py::Step(position_.instruction).op == py::Op::kSTORE_SUBSCR;
    record_container_write(container, stores ? Reach::Overwritten : Reach::Item, key);
    return !ended_ && deletes ? journal_.note_removed(container, key) : void();
  }
  record_container_write(container, PyLong_CheckExact(key) && !deletes ? Reach::Item : Reach::Whole, key);
}

std::optional<exits::Step> Recorder::outside(PyObject* object) {
  if (auto found = followed_.find(object); found != followed_.end() && found->second.is_text()) {
    use(object);  // it leaves the region
    return std::nullopt;
  }
  if (auto found = followed_.find(object);
      found != followed_.end() && (found->second.node >= 0 || start_->slot_of_copy(object) < 0)) {
    if (found->second.node < 0) {
      return std::nullopt;  // computed by the graph
    }
    bool item = found->second.is_item();
    exits::Step followed{item ? exits::StepKind::Ahead : exits::StepKind::Node};
    followed.index = found->second.node;
    followed.number = item ? found->second.ahead : 0;
    return followed;
  }
  exits::Step step{exits::StepKind::Slot};
  step.index = start_->slot_of_copy(object);
  bool primitive = source::sort_of(object) == Sort::Primitive;
  if (step.index < 0 && primitive) {
    if (!source::is_nan(object) || !graph_.has_place(object)) {
      return std::nullopt;
    }
    step.kind = exits::StepKind::Node;  // which object it is can be seen
    step.index = graph_.identify(object);
    return step;
  }
  if (step.index < 0 && !graph_.is_outside(object)) {
    step.index = start_->only_slot_of(object);
    // In several slots: which one it was that the trace moved is not known, so they must stay the same object.
    for (int slot = 0; step.index < 0 && slot < static_cast<int>(start_->size()); ++slot) {
      if (start_->at(slot) == object) {
        read_slot(slot);
      }
    }
  }
  if (step.index < 0) {
    step.kind = exits::StepKind::Node;
    step.index = graph_.node_of(object);
  }
  return step.index >= 0 ? std::optional(std::move(step)) : std::nullopt;
}

bool Recorder::read_whole(PyObject* container) {
  ended_ = false;  // the trace is over, but its rules are used once more
  record_contents(container);
  bool read = !ended_;
  ended_ = true;
  return read;
}

void Recorder::read_original_length(PyObject* container) {
  if (int node = graph_.node_of(container); node >= 0) {
    graph_.read_length(node, Py_SIZE(holder_of(container)));
  }
}

// An item that a dict does not have: defaultdict makes it.
void Recorder::record_missing(PyObject* dict, PyObject* key) {
  PyObject* const name = py::names.__missing__;
  PyObject* method = _PyType_Lookup(Py_TYPE(dict), name);
  if (method == nullptr || PyFunction_Check(method)) {
    return note_class_value(Py_TYPE(dict), name, method);  // KeyError, or Python code
  }
  PyObject* factory = py::default_factory(dict);
  if (factory == nullptr) {
    return abort(AbortReason::WriteOutside, "__missing__ of a dict");
  }
  int node = graph_.node_of(dict);
  PyObject* const factory_name = py::names.default_factory;
  graph_.read(node, Kind::Slot, factory_name, py::default_factory_offset(), factory);
  if (factory != Py_None) {
    record_call(factory, nullptr, 0);
    record_container_write(dict, Reach::Nothing, key);
  }
}

}  // namespace alternator::record
