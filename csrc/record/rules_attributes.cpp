// What reading an attribute or a global reads: the same steps as CPython's look-up, without running anything.
#include "base/shortage.h"
#include "interp/hook.h"
#include "py/body.h"
#include "py/instance.h"
#include "py/members.h"
#include "py/names.h"
#include "record/recorder.h"
#include "record/stand_in.h"

namespace alternator::record {

using guard::Kind;
using source::Sort;

namespace {

// The slot function of classes with a __getattr__ in Python.
getattrofunc python_getattr_slot = nullptr;

// The descriptor behind the fields of named tuples, and the item that it stands for; -1 if it does not say.
PyTypeObject* tuple_getter = nullptr;

Py_ssize_t item_of_tuple_getter(PyObject* getter) {
  Ref<> reduced = steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  PyObject* state = reduced && PyTuple_Check(reduced.get()) ? PyTuple_GetItem(reduced.get(), 1) : nullptr;
  PyObject* index = state && PyTuple_Check(state) ? PyTuple_GetItem(state, 0) : nullptr;
  Py_ssize_t found = index ? PyLong_AsSsize_t(index) : -1;
  forget_error();
  return found;
}

bool is_one_of(PyObject* name, std::initializer_list<const char*> names) {
  for (const char* one : names) {
    if (PyUnicode_CompareWithASCIIString(name, one) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_python_descriptor(PyObject* descriptor, const char* accessor, const char* method) {
  Ref<> name = steal(PyUnicode_InternFromString(method));
  PyObject* found = name ? _PyType_Lookup(Py_TYPE(descriptor), name.get()) : nullptr;
  if (found != nullptr && PyFunction_Check(found)) {
    return true;
  }
  if (!PyType_IsSubtype(Py_TYPE(descriptor), &PyProperty_Type)) {
    return found == nullptr;
  }
  Ref<> part = steal(PyObject_GetAttrString(descriptor, accessor));
  forget_error();
  return part && (part.get() == Py_None || PyFunction_Check(part.get()));
}

bool prepare_rules() {
  // Taken from a class made for the purpose, after a use: the first use may replace the slot by a faster one.
  Ref<> globals = steal(PyDict_New());
  if (!globals || PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()) < 0) {
    return false;
  }
  Ref<> ran = steal(PyRun_String("class Probe:\n  def __getattr__(self, name): return None\nProbe().missing\n",
                                 Py_file_input, globals.get(), globals.get()));
  PyObject* probe = ran ? PyDict_GetItemString(globals.get(), "Probe") : nullptr;
  if (probe == nullptr) {
    return false;
  }
  python_getattr_slot = reinterpret_cast<PyTypeObject*>(probe)->tp_getattro;
  Ref<> collections = steal(PyImport_ImportModule("_collections"));
  Ref<> getter = collections ? steal(PyObject_GetAttrString(collections.get(), "_tuplegetter")) : nullptr;
  tuple_getter = reinterpret_cast<PyTypeObject*>(getter.release());  // for good
  return tuple_getter != nullptr;
}

void Recorder::record_global(PyObject* name) {
  PyObject* globals = position_.frame->f_globals;
  if (is_stand_in(globals)) {
    return;
  }
  PyObject* builtins = position_.frame->f_builtins;
  if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) {
    return abort(AbortReason::UnknownRead, "globals that are no plain dict");
  }
  PyObject* value = py::dict_item(globals, name);
  if (is_one_of(name, {"_is_compiling_flag"})) {
    return;  // true in every trace, false when guards are checked
  }
  if (!is_fresh_globals(globals)) {
    read_place(globals_node(globals), Kind::DictItem, globals, name, value);
  }
  if (value == nullptr && !is_fresh_globals(builtins)) {
    graph_.read(graph_.add_constant(builtins, "__builtins__"), Kind::DictItem, name, 0, py::dict_item(builtins, name));
  }
}

void Recorder::record_attribute(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (source::is_tensor(object)) {
    int tensor = graph_.node_of(object);
    if (tensor >= 0 && is_one_of(name, {"grad"})) {
      graph_.read(tensor, Kind::Gradient, nullptr, 0, tensor::grad_of(object));
    }
    if (is_one_of(name, {"__dict__"})) {
      return record_instance_dict(object, tensor);
    }
    if (_PyType_Lookup(type, name) == nullptr) {
      bool known = true;
      PyObject* own = py::own_attribute(object, name, &known);
      if (!known) {
        return abort(AbortReason::UnsupportedTorch, "a Python attribute of a tensor is read");
      }
      if (tensor >= 0) {
        read_place(tensor, Kind::OwnAttribute, object, name, own);
      }
    }
    return;
  }
  if (Py_IS_TYPE(object, &PyMethod_Type)) {
    record_method_parts(object);
    // What a method does not have itself it takes from its function.
    return is_one_of(name, {"__func__", "__self__", "__class__", "__call__", "__get__"})
               ? void()
               : record_attribute(PyMethod_GET_FUNCTION(object), name);
  }
  if (PyType_Check(object)) {
    return record_class_attribute(object, name);
  }
  if (type == &PySuper_Type) {
    return record_super(object, name);
  }
  Sort sort = source::sort_of(object);
  if (sort == Sort::Primitive) {
    return;  // methods of builtin types; values are constants already
  }
  if (PyFunction_Check(object)) {
    bool known = true;
    PyObject* own = py::own_attribute(object, name, &known);
    if ((own != nullptr || _PyType_Lookup(type, name) == nullptr) && !is_one_of(name, {"__module__"})) {
      if (int node = graph_.node_of(object); node >= 0) {
        graph_.read(node, Kind::OwnAttribute, name, 0, own);
      }
    } else if (is_one_of(name, {"__code__", "__defaults__", "__kwdefaults__", "__closure__"})) {
      if (int node = graph_.node_of(object); node >= 0) {
        record_function_parts(node, reinterpret_cast<PyFunctionObject*>(object));
      }
    } else if (is_one_of(name, {"__dict__"})) {
      Ref<> made = steal(PyObject_GetAttr(object, name));  // makes the dict if there is none yet
      forget_error();
      if (int node = graph_.node_of(object); node >= 0 && made) {
        graph_.read(node, Kind::Slot, name, offsetof(PyFunctionObject, func_dict), made.get());
      }
    } else if (is_one_of(name, {"__name__", "__qualname__", "__doc__", "__module__"})) {
      if (!graph_.is_outside(object)) {
        return;  // made by the trace
      }
      Ref<> value = steal(PyObject_GetAttr(object, name));
      forget_error();
      if (!value || source::sort_of(value.get()) != Sort::Primitive) {
        return abort(AbortReason::UnknownRead, "an attribute of a function");
      }
      graph_.read(graph_.node_of(object), Kind::CAttribute, name, 0, value.get());
    } else if (is_one_of(name, {"__globals__", "__builtins__"})) {
      if (int node = graph_.node_of(object); node >= 0) {
        record_function_parts(node, reinterpret_cast<PyFunctionObject*>(object));
      }
      Ref<> part = steal(PyObject_GetAttr(object, name));  // a function keeps its own
      forget_error();
      if (part) {
        globals_node(part.get());
      }
    } else if (is_one_of(name, {"__annotations__"})) {
      Ref<> made = steal(PyObject_GetAttr(object, name));  // makes the dict if there is none yet
      forget_error();
      if (int node = graph_.node_of(object); node >= 0 && made) {
        graph_.read(node, Kind::Annotations, nullptr, 0, made.get());
      }
    } else if (!is_one_of(name, {"__get__", "__call__", "__class__"})) {
      abort(AbortReason::UnknownRead, "an attribute of a function");
    }
    return;
  }
  if (sort == Sort::Pinned && !PyModule_Check(object) && !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
    return;  // C callables and descriptors do not change
  }
  record_instance_attribute(object, name, false);
}

void Recorder::record_class_attribute(PyObject* object, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  PyTypeObject* meta = Py_TYPE(object);
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  PyObject* on_meta = _PyType_Lookup(meta, name);
  bool fresh = graph_.is_fresh_class(object);
  if (on_meta != nullptr && !fresh && Py_TYPE(on_meta)->tp_descr_set != nullptr &&
      !PyType_HasFeature(Py_TYPE(on_meta), Py_TPFLAGS_HEAPTYPE) && Py_TYPE(on_meta) != &PyProperty_Type) {
    if (is_one_of(name, {"__dict__"})) {
      return record_class_dict(type);
    }
    if (is_one_of(name, {"__abstractmethods__"})) {
      return note_class_value(type, name, py::dict_item(type->tp_dict, name));  // its own, not that of a base
    }
    if (!is_one_of(
            name, {"__name__", "__qualname__", "__module__", "__mro__", "__bases__", "__base__", "__class__", "__doc__",
                   "__flags__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__"})) {
      return abort(AbortReason::UnknownRead, "the inside of a class");
    }
    // A class may get another name without becoming another version of itself.
    bool qualified = is_one_of(name, {"__qualname__"});
    if ((qualified || is_one_of(name, {"__name__"})) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
      Py_ssize_t offset = qualified ? offsetof(PyHeapTypeObject, ht_qualname) : offsetof(PyHeapTypeObject, ht_name);
      graph_.read(graph_.node_of(object), Kind::Slot, name, offset, py::object_at(object, offset));
    }
    return;
  }
  PyObject* value = _PyType_Lookup(type, name);
  note_class_value(type, name, value);
  note_class_value(meta, name, on_meta);
}

// A view of the dict of a class, which is watched: whatever it holds has a node.
void Recorder::record_class_dict(PyTypeObject* type) {
  if (has_written(reinterpret_cast<PyObject*>(type))) {
    return abort(AbortReason::WriteOutside, "a class is written to and then read as a whole");
  }
  PyObject *name, *value;
  Py_ssize_t position = 0;
  bool fixed = type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE;
  while (!fixed && !ended_ && PyDict_Next(type->tp_dict, &position, &name, &value)) {
    note_class_value(type, name, value);
  }
}

// super().name: the first class behind the given one, in the order of the object's class, that has the name.
void Recorder::record_super(PyObject* super, PyObject* name) {
  Ref<> start = steal(PyObject_GetAttrString(super, "__thisclass__"));
  Ref<> self_type = steal(PyObject_GetAttrString(super, "__self_class__"));
  forget_error();
  if (!start || !self_type || !PyType_Check(self_type.get()) ||
      !graph_.read_type(reinterpret_cast<PyTypeObject*>(self_type.get()))) {
    return abort(AbortReason::UnknownRead, "super()");
  }
  PyObject* mro = reinterpret_cast<PyTypeObject*>(self_type.get())->tp_mro;
  bool behind = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* one = PyTuple_GET_ITEM(mro, i);
    if (behind) {
      auto* type = reinterpret_cast<PyTypeObject*>(one);
      graph_.read_type(type);
      note_class_value(type, name, py::dict_item(type->tp_dict, name));
    }
    behind = behind || one == start.get();
  }
}

void Recorder::record_instance_attribute(PyObject* object, PyObject* name, bool generic) {
  PyTypeObject* type = Py_TYPE(object);
  int node = graph_.node_of(object);
  PyObject* const getattribute = py::names.__getattribute__;
  PyObject* const getattr = py::names.__getattr__;
  bool module = PyModule_Check(object) && type->tp_getattro == PyModule_Type.tp_getattro;
  PyObject* hook = _PyType_Lookup(type, getattr);
  if (type->tp_getattro != PyObject_GenericGetAttr && !module && !generic) {
    PyObject* own_getattribute = _PyType_Lookup(type, getattribute);
    if (own_getattribute != nullptr && PyFunction_Check(own_getattribute)) {
      note_class_value(type, getattribute, own_getattribute);
      return;  // Python code, which the loop runs; what it reads is seen there
    }
    if (type->tp_getattro != python_getattr_slot && (hook == nullptr || !PyFunction_Check(hook))) {
      return abort(AbortReason::UnknownRead, std::string("an attribute of ") + type->tp_name);
    }
  }
  PyObject* descriptor = _PyType_Lookup(type, name);
  note_class_value(type, name, descriptor);
  if (descriptor != nullptr && Py_TYPE(descriptor)->tp_descr_set != nullptr) {
    if (Py_TYPE(descriptor) == &PyMemberDescr_Type) {
      PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
      if (member->type != T_OBJECT_EX && member->type != T_OBJECT) {
        return node >= 0 ? abort(AbortReason::UnknownRead, "a member of a C struct") : void();
      }
      if (node >= 0) {
        graph_.read(node, Kind::Slot, name, member->offset,
                    *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset));
      }
      return;
    }
    if (Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
      if (is_one_of(name, {"__class__"}) || node < 0) {
        return;
      }
      if (is_one_of(name, {"__dict__"}) && !module) {
        return record_instance_dict(object, node);
      }
      if (py::body_kind(object) == py::BodyKind::Deque && is_one_of(name, {"maxlen"})) {
        return graph_.read_word(node, py::deque_limit_offset(), py::deque_limit(object));
      }
      return abort(AbortReason::UnknownRead, std::string("an attribute of ") + type->tp_name);
    }
    if (Py_TYPE(descriptor) == tuple_getter) {
      Py_ssize_t index = item_of_tuple_getter(descriptor);
      if (index < 0 || !PyTuple_Check(object) || index >= PyTuple_GET_SIZE(object)) {
        return abort(AbortReason::UnknownRead, "a field of a named tuple");
      }
      return node >= 0 ? graph_.read(node, Kind::SequenceItem, nullptr, index, PyTuple_GET_ITEM(object, index))
                       : void();
    }
    if (Py_TYPE(descriptor) != &PyProperty_Type && !PyType_HasFeature(Py_TYPE(descriptor), Py_TPFLAGS_HEAPTYPE)) {
      return abort(AbortReason::UnknownRead, std::string("an attribute of ") + type->tp_name);  // C code
    }
    return is_python_descriptor(descriptor, "fget", "__get__")
               ? void()
               : abort(AbortReason::UnknownRead, std::string("an attribute of ") + type->tp_name);
  }
  bool known = true;
  PyObject* own = py::own_attribute(object, name, &known);
  if (known && own == nullptr && descriptor == nullptr && hook != nullptr && recorder_of(hook) == RecordedBy::Primed) {
    interp::Unobserved native;  // torch.ops.space.name: found, and kept as an attribute
    Ref<> primed = steal(PyObject_GetAttr(object, name));
    forget_error();
    own = py::own_attribute(object, name, &known);
  }
  if (!known && node >= 0) {
    return abort(AbortReason::UnknownRead, std::string("an attribute of ") + type->tp_name);
  }
  if (module && !is_one_of(name, {"_is_compiling_flag"})) {
    // The same place as the global variable of the module's functions.
    PyObject* dict = PyModule_GetDict(object);
    int globals = module_dict_node(object);
    read_place(globals, Kind::DictItem, dict, name, own);
    if (own == nullptr) {
      read_place(globals, Kind::DictItem, dict, getattr, py::dict_item(dict, getattr));
    }
  } else if (node >= 0 && !module && type->tp_dictoffset != 0) {
    read_place(node, Kind::OwnAttribute, object, name, own);
  }
  note_class_value(type, getattr, hook);
  if (own == nullptr && descriptor == nullptr && !generic && hook != nullptr) {
    found_in_registry_ = record_registries(object, node, name, hook);
  }
}

void Recorder::record_instance_dict(PyObject* object, int node) {
  Ref<> dict = steal(PyObject_GenericGetDict(object, nullptr));
  forget_error();
  if (!dict) {
    return abort(AbortReason::UnknownRead, "__dict__");
  }
  if (node >= 0) {
    instance_dicts_.emplace(dict.get(), object);
    graph_.read(node, Kind::InstanceDict, nullptr, 0, dict.get());
  }
}

// What torch.nn.Module.__getattr__ reads: three dicts of the module. False if it would do anything else.
bool Recorder::record_registries(PyObject* object, int node, PyObject* name, PyObject* hook) {
  if (hook != module_getattr || reinterpret_cast<PyFunctionObject*>(hook)->func_code != module_getattr_code) {
    return false;
  }
  PyObject* const registries[] = {py::names._parameters, py::names._buffers, py::names._modules};
  PyObject* dicts[3];
  int last = -1;
  for (int i = 0; i < 3 && last < 0; ++i) {
    bool known = true;
    dicts[i] = py::own_attribute(object, registries[i], &known);
    if (!known || dicts[i] == nullptr || !PyDict_CheckExact(dicts[i])) {
      return false;
    }
    last = py::dict_item(dicts[i], name) != nullptr ? i : -1;
  }
  if (last < 0) {
    return false;
  }
  if (!module_getattr_read_) {
    record_function_parts(graph_.add_constant(hook, "fn"), reinterpret_cast<PyFunctionObject*>(hook));
    module_getattr_read_ = true;
  }
  for (int i = 0; i <= last; ++i) {
    if (node >= 0) {
      read_place(node, Kind::OwnAttribute, object, registries[i], dicts[i]);
    }
    if (int dict = graph_.node_of(dicts[i]); dict >= 0) {
      read_dict_item(dict, dicts[i], name);
    }
  }
  return true;
}

void Recorder::record_import(PyObject* name, PyObject* level) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = py::dict_item(modules, name);
  if (module == nullptr || !PyLong_Check(level) || PyLong_AsLong(level) != 0) {
    return abort(AbortReason::UnsupportedInstruction, "an import of a module that is not loaded yet");
  }
  // `import a.b` gives `a`; both are watched.
  int node = graph_.add_constant(modules, "sys.modules");
  graph_.read(node, Kind::DictItem, name, 0, module);
  Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
  if (dot > 0) {
    Ref<> top = steal(PyUnicode_Substring(name, 0, dot));
    if (top) {
      graph_.read(node, Kind::DictItem, top.get(), 0, py::dict_item(modules, top.get()));
    }
  }
}

}  // namespace alternator::record
