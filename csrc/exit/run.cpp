// Runs exit programs: on every warm call.
#include "exit/program.h"

#include <algorithm>

#include "base/ref_list.h"
#include "py/generator.h"
#include "py/instance.h"
#include "py/iterator.h"
#include "py/lru_cache.h"
#include "py/names.h"
#include "py/operators.h"
#include "py/table_iterator.h"

namespace alternator::exits {
namespace {

// Whether a step may change more than what the exit itself makes.
bool changes_outside(const Step& step) {
  return step.kind == StepKind::Call || step.kind == StepKind::FillException || step.kind == StepKind::EndGenerator ||
         step.kind == StepKind::FillGenerator;
}

class Runner {
 public:
  Runner(const ExitProgram& program, const ExitInput& input)
      : program_(program), input_(input), made_(program.steps.size()) {}

  // False with an exception set; then `harmless` tells whether no step before it could change anything from outside.
  bool make_values(bool* harmless) {
    for (const Step& step : program_.steps) {
      Ref<> value = step.kind >= StepKind::FillList ? (fill(step) ? share(Py_None) : nullptr) : make(step);
      if (!value && step.kind != StepKind::Slot) {  // a local may be unbound
        *harmless = std::none_of(program_.steps.data(), &step + 1, changes_outside);
        return false;
      }
      made_.add(std::move(value));
    }
    return true;
  }
  bool do_effects() {
    for (const Effect& effect : program_.effects) {
      if (!write(effect)) {
        return false;
      }
    }
    for (const Step& step : program_.positions) {
      if (step.kind == StepKind::Raise ? !make(step) : !fill(step)) {
        return false;
      }
    }
    return true;
  }
  PyObject* at(int step) const { return step >= 0 ? made_[step] : nullptr; }

 private:
  PyObject* part(const Step& step, size_t index) const { return at(step.parts[index]); }

  Ref<> make_tuple(const std::vector<int>& parts, size_t first = 0) const {
    Ref<> tuple = steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size() - first)));
    for (size_t i = first; tuple && i < parts.size(); ++i) {
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i - first), Py_NewRef(at(parts[i])));
    }
    return tuple;
  }

  Ref<> make(const Step& step) const;
  Ref<> make_generator(const Step& step) const;
  bool fill(const Step& step);
  bool fill_table(const Step& step, PyObject* target);
  bool fill_set(PyObject* set, const std::vector<int>& steps, PyObject* layout);
  bool fill_attributes(const Step& step, PyObject* target);
  bool fill_function(const Step& step, PyObject* target);
  bool fill_generator(const Step& step, PyObject* target);
  bool fill_exception(const Step& step, PyObject* target);
  bool fill_state(const Step& step, PyObject* target);
  bool write(const Effect& effect);
  bool rewrite(const Effect& effect, PyObject* owner);

  const ExitProgram& program_;
  const ExitInput& input_;
  RefList<32> made_;
};

void raise(PyObject* error) { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error); }

int set_item(py::BodyKind kind, PyObject* dict, PyObject* key, PyObject* value) {
  return kind == py::BodyKind::OrderedDict ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value);
}

ALTERNATOR_WARM Ref<> Runner::make(const Step& step) const {
  switch (step.kind) {
    case StepKind::Constant: return share(step.object ? step.object.get() : Py_None);
    case StepKind::Node: return share(input_.nodes[step.index]);
    case StepKind::Ahead: {
      PyObject* iterator = input_.nodes[step.index];
      return steal(py::item_ahead(iterator, py::iterator_kind(iterator), step.number));
    }
    case StepKind::Slot: return share(input_.slots[step.index]);
    case StepKind::Output:
      return share(PyTuple_Check(input_.outputs) ? PyTuple_GET_ITEM(input_.outputs, step.index)
                                                 : PyList_GET_ITEM(input_.outputs, step.index));
    case StepKind::Tuple: return make_tuple(step.parts);
    case StepKind::TypedTuple: {
      Ref<> items = make_tuple(step.parts);
      Ref<> arguments = items ? steal(PyTuple_Pack(1, items.get())) : nullptr;
      auto* type = reinterpret_cast<PyTypeObject*>(at(step.index));
      return arguments ? steal(PyTuple_Type.tp_new(type, arguments.get(), nullptr)) : nullptr;
    }
    case StepKind::FrozenSet: {
      Ref<> items = make_tuple(step.parts);
      Ref<> arguments = items ? steal(PyTuple_Pack(1, items.get())) : nullptr;
      auto* type = reinterpret_cast<PyTypeObject*>(at(step.index));
      Ref<> made = arguments ? steal(PyFrozenSet_Type.tp_new(type, arguments.get(), nullptr)) : nullptr;
      if (made && step.object && !step.parts.empty()) {
        py::arrange_set(made.get(), step.object.get(),
                        {&PyTuple_GET_ITEM(items.get(), 0), &PyTuple_GET_ITEM(items.get(), 0) + step.parts.size()});
      }
      return made;
    }
    case StepKind::Slice: return steal(PySlice_New(part(step, 0), part(step, 1), part(step, 2)));
    case StepKind::Arithmetic: return steal(py::kBinaryOperators[step.number](part(step, 0), part(step, 1)));
    case StepKind::Method: return steal(PyMethod_New(part(step, 0), part(step, 1)));
    case StepKind::Builtin: {
      auto* like = reinterpret_cast<PyCFunctionObject*>(step.object.get());
      return steal(PyCMethod_New(like->m_ml, part(step, 0), like->m_module, nullptr));
    }
    case StepKind::View: return steal(py::make_view(part(step, 0), reinterpret_cast<PyTypeObject*>(step.object.get())));
    case StepKind::TableIterator:
      return steal(py::make_table_iterator(step.parts.empty() ? nullptr : part(step, 0),
                                           {reinterpret_cast<PyTypeObject*>(step.object.get()), step.index},
                                           step.number));
    case StepKind::Call: {
      Ref<> arguments = make_tuple(step.parts);
      return arguments ? steal(PyObject_CallObject(at(step.index), arguments.get())) : nullptr;
    }
    case StepKind::Traceback: {
      PyObject* facts = step.object.get();
      return steal(py::make_traceback({part(step, 0), PyTuple_GET_ITEM(facts, 0), part(step, 1),
                                       static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(facts, 1))),
                                       static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(facts, 2)))}));
    }
    case StepKind::Raise: raise(step.object.get()); return nullptr;
    case StepKind::NewList: return steal(PyList_New(0));
    case StepKind::NewDict: return steal(PyDict_New());
    case StepKind::NewSet: return steal(PySet_New(nullptr));
    case StepKind::NewCell: return steal(PyCell_New(nullptr));
    case StepKind::NewInstance:
      return steal(py::make_instance(reinterpret_cast<PyTypeObject*>(at(step.index)),
                                     step.parts.empty() ? nullptr : part(step, 0)));
    case StepKind::NewFunction: return steal(PyFunction_New(step.object.get(), part(step, 0)));
    case StepKind::NewGenerator: return make_generator(step);
    default: break;
  }
  PyErr_SetString(PyExc_SystemError, "alternator: an unknown step");
  return nullptr;
}

Ref<> Runner::make_generator(const Step& step) const {
  // By a stand-in for the function, which may have no closure yet, or other code by now.
  auto* code = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(step.object.get(), 0));
  Ref<> carrier = steal(PyFunction_New(reinterpret_cast<PyObject*>(code), part(step, 0)));
  Ref<> cells = carrier ? steal(PyTuple_New(code->co_nfreevars)) : nullptr;
  for (int i = 0; cells && i < code->co_nfreevars; ++i) {
    PyObject* cell = PyCell_New(nullptr);
    if (cell == nullptr) {
      return nullptr;
    }
    PyTuple_SET_ITEM(cells.get(), i, cell);
  }
  if (!cells || (code->co_nfreevars > 0 && PyFunction_SetClosure(carrier.get(), cells.get()) < 0)) {
    return nullptr;
  }
  Ref<> made = interp::call_with_dummies(reinterpret_cast<PyFunctionObject*>(carrier.get()));
  if (made) {
    auto* generator = reinterpret_cast<PyGenObject*>(made.get());
    Py_XSETREF(generator->gi_name, Py_NewRef(PyTuple_GET_ITEM(step.object.get(), 1)));
    Py_XSETREF(generator->gi_qualname, Py_NewRef(PyTuple_GET_ITEM(step.object.get(), 2)));
  }
  return made;
}

ALTERNATOR_WARM bool Runner::fill(const Step& step) {
  PyObject* target = made_[step.index];
  switch (step.kind) {
    case StepKind::FillList:
      for (int one : step.parts) {
        if (PyList_Append(target, at(one)) < 0) {
          return false;
        }
      }
      return true;
    case StepKind::FillDict:
    case StepKind::FillSet: return fill_table(step, target);
    case StepKind::FillCell: return PyCell_Set(target, part(step, 0)) == 0;
    case StepKind::FillAttributes: return fill_attributes(step, target);
    case StepKind::FillNamespace: return PyObject_GenericSetDict(target, part(step, 0), nullptr) == 0;
    case StepKind::FillSlots:
      for (size_t i = 0; i < step.parts.size(); ++i) {
        Py_ssize_t offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(step.object.get(), i));
        Py_XSETREF(py::object_at(target, offset), Py_XNewRef(part(step, i)));
      }
      return true;
    case StepKind::FillDeque: {
      Ref<> items = make_tuple(step.parts, 1);
      Ref<> arguments = items ? steal(PyTuple_Pack(2, items.get(), part(step, 0))) : nullptr;
      return arguments && py::deque_type()->tp_init(target, arguments.get(), nullptr) == 0;
    }
    case StepKind::FillState: return fill_state(step, target);
    case StepKind::FillPosition: {
      auto word = [&](Py_ssize_t i) { return PyLong_AsSsize_t(PyTuple_GET_ITEM(step.object.get(), i)); };
      return py::set_position(target, part(step, 0), {word(0), word(1), word(2)});
    }
    case StepKind::FillFunction: return fill_function(step, target);
    case StepKind::FillException: return fill_exception(step, target);
    case StepKind::EndGenerator: py::empty_generator(reinterpret_cast<PyGenObject*>(target)); return true;
    case StepKind::FillGenerator: return fill_generator(step, target);
    default: break;
  }
  PyErr_SetString(PyExc_SystemError, "alternator: an unknown step");
  return false;
}

bool Runner::fill_set(PyObject* set, const std::vector<int>& steps, PyObject* layout) {
  std::vector<PyObject*> items;
  for (int step : steps) {
    items.push_back(at(step));
    if (PySet_Add(set, items.back()) < 0) {
      return false;
    }
  }
  if (layout != nullptr) {
    py::arrange_set(set, layout, items);
  }
  return true;
}

ALTERNATOR_WARM bool Runner::fill_table(const Step& step, PyObject* target) {
  if (step.kind == StepKind::FillSet) {
    return fill_set(target, step.parts, step.object.get());
  }
  for (size_t i = 0; i < step.parts.size(); i += 2) {
    if (set_item(py::body_kind(target), target, part(step, i), part(step, i + 1)) < 0) {
      return false;
    }
  }
  return true;
}

ALTERNATOR_WARM bool Runner::fill_attributes(const Step& step, PyObject* target) {
  for (size_t i = 0; i < step.parts.size(); i += 2) {
    PyObject* name = part(step, i);
    PyObject* on_class = PyUnicode_Check(name) ? _PyType_Lookup(Py_TYPE(target), name) : target;
    if (on_class == nullptr || Py_TYPE(on_class)->tp_descr_set == nullptr) {
      if (PyObject_GenericSetAttr(target, name, part(step, i + 1)) < 0) {
        return false;
      }
      continue;
    }
    // A descriptor of the class stands in the way.
    Ref<> dict = steal(PyObject_GenericGetDict(target, nullptr));
    if (!dict || PyDict_SetItem(dict.get(), name, part(step, i + 1)) < 0) {
      return false;
    }
  }
  return true;
}

bool Runner::fill_function(const Step& step, PyObject* target) {
  auto* function = reinterpret_cast<PyFunctionObject*>(target);
  PyObject** const fields[] = {&function->func_name,       &function->func_qualname, &function->func_defaults,
                               &function->func_kwdefaults, &function->func_closure,  &function->func_annotations,
                               &function->func_doc,        &function->func_module};
  for (size_t i = 0; i < step.parts.size(); ++i) {
    Py_XSETREF(*fields[i], Py_XNewRef(part(step, i)));
  }
  function->func_version = 0;
  return true;
}

bool Runner::fill_exception(const Step& step, PyObject* target) {
  auto* exception = reinterpret_cast<PyBaseExceptionObject*>(target);
  Py_XSETREF(exception->cause, Py_XNewRef(part(step, 0)));
  Py_XSETREF(exception->context, Py_XNewRef(part(step, 1)));
  Py_XSETREF(exception->traceback, Py_XNewRef(part(step, 2)));
  exception->suppress_context = step.object.get() == Py_True;
  return true;
}

bool Runner::fill_generator(const Step& step, PyObject* target) {
  py::GeneratorState state;
  PyObject* facts = step.object.get();
  state.offset = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(facts, 0)));
  state.created = state.offset < 0;
  state.code = PyTuple_GET_ITEM(facts, 2);
  auto locals = static_cast<size_t>(PyLong_AsLong(PyTuple_GET_ITEM(facts, 1)));
  for (size_t i = 0; i + 2 < step.parts.size(); ++i) {
    (i < locals ? state.locals : state.stack).push_back(part(step, i));
  }
  state.handled = part(step, step.parts.size() - 2);
  state.function = part(step, step.parts.size() - 1);
  return py::fill_generator(reinterpret_cast<PyGenObject*>(target), state);
}

bool Runner::fill_state(const Step& step, PyObject* target) {
  if (PyDict_Check(target)) {
    py::set_default_factory(target, part(step, 0));
    return true;
  }
  PyObject* const name = py::names.__setstate__;
  Ref<> done = steal(PyObject_CallMethodOneArg(target, name, part(step, 0)));
  return static_cast<bool>(done);
}

bool Runner::write(const Effect& effect) {
  PyObject* owner = input_.nodes[effect.node];
  auto value = [&](size_t index) { return at(effect.steps[index]); };
  switch (effect.kind) {
    case EffectKind::SetPlace:
      return journal::write_place(effect.place, owner, effect.key.get(), effect.index,
                                  effect.steps.empty() ? nullptr : value(0));
    case EffectKind::Extend:
      for (size_t i = 0; i < effect.steps.size(); ++i) {
        if (PyList_Append(owner, value(i)) < 0) {
          return false;
        }
      }
      return true;
    case EffectKind::SetIndex: return PyList_SetItem(owner, effect.index, Py_NewRef(value(0))) == 0;
    case EffectKind::Splice: {
      Ref<> items = steal(PyList_New(static_cast<Py_ssize_t>(effect.steps.size())));
      for (size_t i = 0; items && i < effect.steps.size(); ++i) {
        PyList_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(value(i)));
      }
      return items && PyList_SetSlice(owner, effect.index, PyList_GET_SIZE(owner), items.get()) == 0;
    }
    case EffectKind::SetItem: return set_item(effect.body, owner, value(0), value(1)) == 0;
    case EffectKind::DeleteItem:
      return (effect.body == py::BodyKind::OrderedDict ? PyODict_DelItem(owner, value(0))
                                                       : PyDict_DelItem(owner, value(0))) == 0;
    case EffectKind::Shift: {
      auto* type = reinterpret_cast<PyObject*>(py::deque_type());
      for (Py_ssize_t i = 0; i < effect.index; ++i) {
        Ref<> item = steal(PyObject_CallMethod(type, "popleft", "O", owner));
        if (!item) {
          return false;
        }
      }
      for (size_t i = 0; i < effect.steps.size(); ++i) {
        Ref<> done = steal(PyObject_CallMethod(type, "append", "OO", owner, value(i)));
        if (!done) {
          return false;
        }
      }
      return true;
    }
    case EffectKind::Rewrite: return rewrite(effect, owner);
    case EffectKind::Raise: raise(effect.key.get()); return false;
    case EffectKind::CallCache: return py::put_into_cache(py::as_cache(owner), value(0), value(1), value(2));
    case EffectKind::Advance:
      for (Py_ssize_t i = 0; i < effect.index; ++i) {
        Ref<> item = steal(Py_TYPE(owner)->tp_iternext(owner));
        if (!item && PyErr_Occurred()) {
          return false;
        }
      }
      return true;
  }
  return false;
}

bool Runner::rewrite(const Effect& effect, PyObject* owner) {
  if (effect.body == py::BodyKind::Set) {
    PySet_Clear(owner);
    return fill_set(owner, effect.steps, effect.key.get());
  }
  if (effect.body == py::BodyKind::Deque) {
    auto* type = reinterpret_cast<PyObject*>(py::deque_type());
    Ref<> cleared = steal(PyObject_CallMethod(type, "clear", "O", owner));
    Ref<> items = cleared ? make_tuple(effect.steps) : nullptr;
    Ref<> done = items ? steal(PyObject_CallMethod(type, "extend", "OO", owner, items.get())) : nullptr;
    return static_cast<bool>(done);
  }
  if (effect.body == py::BodyKind::OrderedDict) {
    Ref<> cleared = steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "clear", "O", owner));
    if (!cleared) {
      return false;
    }
  } else {
    PyDict_Clear(owner);
  }
  for (size_t i = 0; i < effect.steps.size(); i += 2) {
    if (set_item(effect.body, owner, at(effect.steps[i]), at(effect.steps[i + 1])) < 0) {
      return false;
    }
  }
  return true;
}

interp::FrameState make_frame(const FrameRecipe& recipe, const Runner& runner) {
  interp::FrameState frame;
  frame.code = recipe.code.clone();
  frame.offset = recipe.offset;
  frame.outer_exceptions = recipe.outer_exceptions;
  frame.function = Ref<PyFunctionObject>::share(reinterpret_cast<PyFunctionObject*>(runner.at(recipe.function)));
  frame.generator = Ref<PyGenObject>::share(reinterpret_cast<PyGenObject*>(runner.at(recipe.generator)));
  frame.handled = share(runner.at(recipe.handled));
  for (int step : recipe.locals) {
    frame.locals.push_back(share(runner.at(step)));
  }
  for (int step : recipe.stack) {
    frame.stack.push_back(share(runner.at(step)));
  }
  return frame;
}

}  // namespace

std::vector<int> number_nodes(ExitProgram* program) {
  std::vector<int> nodes;
  auto number = [&](int* node) {
    auto found = std::find(nodes.begin(), nodes.end(), *node);
    if (found == nodes.end()) {
      found = nodes.insert(found, *node);
    }
    *node = static_cast<int>(found - nodes.begin());
  };
  for (Step& step : program->steps) {
    if (step.kind == StepKind::Node || step.kind == StepKind::Ahead) {
      number(&step.index);
    } else if (step.kind == StepKind::Output) {
      program->outputs = std::max<Py_ssize_t>(program->outputs, step.index + 1);
    }
  }
  for (Effect& effect : program->effects) {
    number(&effect.node);
  }
  return nodes;
}

namespace {

Py_ssize_t count_outputs(PyObject* outputs) {
  return outputs && (PyTuple_Check(outputs) || PyList_Check(outputs)) ? Py_SIZE(outputs) : -1;
}

}  // namespace

ALTERNATOR_WARM Ref<> run_exit(const ExitProgram& program, const ExitInput& input, interp::StackState* state,
                               bool* harmless) {
  *harmless = false;
  if (program.outputs > 0 && count_outputs(input.outputs) < program.outputs) {
    PyErr_Format(PyExc_TypeError, "alternator: the backend's function gave %.100s, not a tuple or list of %zd outputs",
                 input.outputs ? Py_TYPE(input.outputs)->tp_name : "nothing", program.outputs);
    return nullptr;
  }
  Runner runner(program, input);
  if (!runner.make_values(harmless)) {
    return nullptr;
  }
  if (!program.frames.empty()) {
    const FrameRecipe& outermost = program.frames.front();
    auto* function = reinterpret_cast<PyFunctionObject*>(runner.at(outermost.function));
    if (!interp::prepare_recreation(state, outermost.code.get(), function)) {
      *harmless = std::none_of(program.steps.begin(), program.steps.end(), changes_outside);
      return nullptr;
    }
  }
  if (!runner.do_effects()) {
    return nullptr;
  }
  if (program.frames.empty()) {
    return share(runner.at(program.result));
  }
  for (const FrameRecipe& recipe : program.frames) {
    state->frames.push_back(make_frame(recipe, runner));
  }
  state->handled = share(runner.at(program.handled));
  return share(Py_None);
}

}  // namespace alternator::exits
