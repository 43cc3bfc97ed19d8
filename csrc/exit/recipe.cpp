#include "exit/recipe.h"

#include "py/members.h"

namespace alternator::exits {

using source::Sort;

std::optional<ExitProgram> ExitWriter::write(PyObject* value, const journal::Journal& journal) {
  program_.result = add(value);
  if (program_.result < 0) {
    return std::nullopt;
  }
  for (const journal::Place& place : journal.places()) {
    PyObject* now = journal::Journal::current(place);
    if (now == place.old.get()) {
      continue;  // as it was; what was there is guarded
    }
    int step = now != nullptr ? add(now) : -1;
    if (now != nullptr && step < 0) {
      return std::nullopt;
    }
    program_.effects.push_back({place.kind, node_of_(place.owner.get()), place.key.clone(), step});
  }
  return std::move(program_);
}

int ExitWriter::refuse(PyObject* value) {
  if (reason_.empty()) {
    reason_ = std::string("an object of type ") + Py_TYPE(value)->tp_name;
  }
  return -1;
}

int ExitWriter::add_step(PyObject* value, Step step) {
  program_.steps.push_back(std::move(step));
  int index = static_cast<int>(program_.steps.size()) - 1;
  made_.emplace(value, index);
  return index;
}

int ExitWriter::add(PyObject* value) {
  if (auto found = made_.find(value); found != made_.end()) {
    return found->second;
  }
  Step step{StepKind::Constant};
  if (int node = node_of_(value); node >= 0) {
    step.kind = StepKind::Node;
    step.index = node;
    return add_step(value, std::move(step));
  }
  Sort sort = source::sort_of(value);
  if (sort == Sort::Tensor) {
    step.kind = StepKind::Output;
    step.index = output_of_(value);
    return step.index >= 0 ? add_step(value, std::move(step)) : refuse(value);
  }
  if (sort == Sort::Primitive) {
    step.object = share(value);
    return add_step(value, std::move(step));
  }
  if (sort == Sort::Pinned) {
    return refuse(value);  // from outside it would have a node; this one the trace made
  }
  if (!open_.emplace(value, true).second) {
    return refuse(value);  // holds itself
  }
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyTuple_Type) {
    return add_parts(value, StepKind::Tuple);
  }
  if (type == &PyList_Type) {
    return add_parts(value, StepKind::List);
  }
  if (type == &PyDict_Type) {
    step.kind = StepKind::Dict;
    return add_dict_items(value, &step.parts) ? add_step(value, std::move(step)) : -1;
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    step.kind = StepKind::Slice;
    step.parts = {add(slice->start), add(slice->stop), add(slice->step)};
    return step.parts[0] >= 0 && step.parts[1] >= 0 && step.parts[2] >= 0 ? add_step(value, std::move(step)) : -1;
  }
  if (type == &PyMethod_Type) {
    step.kind = StepKind::Method;
    step.parts = {add(PyMethod_GET_FUNCTION(value)), add(PyMethod_GET_SELF(value))};
    return step.parts[0] >= 0 && step.parts[1] >= 0 ? add_step(value, std::move(step)) : -1;
  }
  if (PyTuple_Check(value) && type->tp_new != nullptr && Py_TYPE(value)->tp_dictoffset == 0) {
    return add_parts(value, StepKind::TypedTuple);
  }
  return add_instance(value);
}

int ExitWriter::add_parts(PyObject* value, StepKind kind) {
  Step step{kind};
  if (kind == StepKind::TypedTuple) {
    step.object = share(reinterpret_cast<PyObject*>(Py_TYPE(value)));
  }
  for (Py_ssize_t i = 0; i < Py_SIZE(value); ++i) {
    int part = add(PyList_Check(value) ? PyList_GET_ITEM(value, i) : PyTuple_GET_ITEM(value, i));
    if (part < 0) {
      return -1;
    }
    step.parts.push_back(part);
  }
  return add_step(value, std::move(step));
}

bool ExitWriter::add_dict_items(PyObject* dict, std::vector<int>* items) {
  PyObject *key, *item;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &item)) {
    int key_step = add(key);
    int item_step = add(item);
    if (key_step < 0 || item_step < 0) {
      return false;
    }
    items->push_back(key_step);
    items->push_back(item_step);
  }
  return true;
}

int ExitWriter::add_instance(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  // Nothing but the base's own fields, a dict and a list of weak references.
  Py_ssize_t size = type->tp_basicsize - (type->tp_weaklistoffset > 0 ? static_cast<Py_ssize_t>(sizeof(PyObject*)) : 0);
  bool plain = size == PyBaseObject_Type.tp_basicsize;
  bool dict = PyDict_Check(value) && (size == PyDict_Type.tp_basicsize || PyODict_Check(value));
  bool attributes_known = py::has_managed_dict(type) || PyODict_Check(value);
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || !attributes_known || !(plain || dict)) {
    return refuse(value);  // slots or C data
  }
  Step step{StepKind::Instance};
  step.object = share(reinterpret_cast<PyObject*>(type));
  Ref<> attributes = steal(PyObject_GenericGetDict(value, nullptr));
  if (!attributes || !add_dict_items(attributes.get(), &step.parts) || (dict && !add_dict_items(value, &step.items))) {
    PyErr_Clear();
    return refuse(value);
  }
  return add_step(value, std::move(step));
}

namespace {

using Made = std::vector<Ref<>>;

Ref<> make_instance(const Step& step, const Made& made) {
  auto* type = reinterpret_cast<PyTypeObject*>(step.object.get());
  bool dict = PyType_IsSubtype(type, &PyDict_Type);
  PyTypeObject* base =
      dict ? (PyType_IsSubtype(type, &PyODict_Type) ? &PyODict_Type : &PyDict_Type) : &PyBaseObject_Type;
  Ref<> none = steal(PyTuple_New(0));
  Ref<> instance = none ? steal(base->tp_new(type, none.get(), nullptr)) : nullptr;
  for (size_t i = 0; instance && i < step.items.size(); i += 2) {
    int failed =
        base->tp_as_mapping->mp_ass_subscript(instance.get(), made[step.items[i]].get(), made[step.items[i + 1]].get());
    if (failed) {
      return nullptr;
    }
  }
  for (size_t i = 0; instance && i < step.parts.size(); i += 2) {
    if (PyObject_GenericSetAttr(instance.get(), made[step.parts[i]].get(), made[step.parts[i + 1]].get()) < 0) {
      return nullptr;
    }
  }
  return instance;
}

Ref<> make_tuple(const Step& step, const Made& made) {
  Ref<> tuple = steal(PyTuple_New(static_cast<Py_ssize_t>(step.parts.size())));
  for (size_t i = 0; tuple && i < step.parts.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(made[step.parts[i]].get()));
  }
  return tuple;
}

Ref<> make(const Step& step, const Made& made, const std::vector<PyObject*>& slots, PyObject* outputs) {
  switch (step.kind) {
    case StepKind::Constant: return step.object.clone();
    case StepKind::Node: return share(slots[step.index]);
    case StepKind::Output:
      return share(PyTuple_Check(outputs) ? PyTuple_GET_ITEM(outputs, step.index)
                                          : PyList_GET_ITEM(outputs, step.index));
    case StepKind::Tuple: return make_tuple(step, made);
    case StepKind::TypedTuple: {
      Ref<> items = make_tuple(step, made);
      Ref<> arguments = items ? steal(PyTuple_Pack(1, items.get())) : nullptr;
      auto* type = reinterpret_cast<PyTypeObject*>(step.object.get());
      return arguments ? steal(PyTuple_Type.tp_new(type, arguments.get(), nullptr)) : nullptr;
    }
    case StepKind::List: {
      Ref<> list = steal(PyList_New(static_cast<Py_ssize_t>(step.parts.size())));
      for (size_t i = 0; list && i < step.parts.size(); ++i) {
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(made[step.parts[i]].get()));
      }
      return list;
    }
    case StepKind::Dict: {
      Ref<> dict = steal(PyDict_New());
      for (size_t i = 0; dict && i < step.parts.size(); i += 2) {
        if (PyDict_SetItem(dict.get(), made[step.parts[i]].get(), made[step.parts[i + 1]].get()) < 0) {
          return nullptr;
        }
      }
      return dict;
    }
    case StepKind::Slice:
      return steal(PySlice_New(made[step.parts[0]].get(), made[step.parts[1]].get(), made[step.parts[2]].get()));
    case StepKind::Method: return steal(PyMethod_New(made[step.parts[0]].get(), made[step.parts[1]].get()));
    case StepKind::Instance: return make_instance(step, made);
  }
  return nullptr;
}

}  // namespace

Ref<> run_exit(const ExitProgram& program, const std::vector<PyObject*>& slots, PyObject* outputs) {
  Made made;
  made.reserve(program.steps.size());
  for (const Step& step : program.steps) {
    Ref<> value = make(step, made, slots, outputs);
    if (!value) {
      return nullptr;
    }
    made.push_back(std::move(value));
  }
  for (const Effect& effect : program.effects) {
    PyObject* value = effect.step >= 0 ? made[effect.step].get() : nullptr;
    if (!journal::write_place(effect.kind, slots[effect.node], effect.key.get(), value)) {
      return nullptr;
    }
  }
  return made[program.result].clone();
}

}  // namespace alternator::exits
