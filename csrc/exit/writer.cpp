#include "exit/writer.h"

#include "base/shortage.h"
#include "py/generator.h"
#include "py/instance.h"
#include "py/liveness.h"
#include "py/members.h"
#include "py/table_iterator.h"

namespace alternator::exits {

using source::Sort;

namespace {

PyObject* as_object(void* pointer) { return static_cast<PyObject*>(pointer); }

bool is_for_good(PyObject* value) {
  // Classes, modules, code and what C code defines are not made by a trace: making one ends it.
  return PyType_Check(value) || PyModule_Check(value) || PyCode_Check(value) || PyCFunction_Check(value) ||
         Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyWrapperDescr_Type) ||
         Py_IS_TYPE(value, &PyGetSetDescr_Type) || Py_IS_TYPE(value, &PyMemberDescr_Type) ||
         Py_IS_TYPE(value, &PyClassMethodDescr_Type);
}

bool is_dict_view(PyObject* value) {
  return PyDictKeys_Check(value) || PyDictItems_Check(value) || PyDictValues_Check(value);
}

bool holds_hashed(PyObject* value) { return PyAnySet_Check(value) || PyDict_Check(value); }

// Whether a set that is made again has its items where they are now: hashes of other objects are their addresses.
bool is_laid_out_alike(PyObject* set) {
  PyObject* item;
  Py_hash_t hash;
  Py_ssize_t position = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (!PyUnicode_CheckExact(item) && !PyLong_CheckExact(item) && !PyFloat_CheckExact(item)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<ExitProgram> ExitWriter::write_return(PyObject* value, const std::vector<PyObject*>& generators) {
  program_.result = add_late_calls() ? add(value) : -1;
  if (program_.result < 0 || !put_generators_back(generators) || !add_effects() || !fill_all()) {
    return std::nullopt;
  }
  return std::move(program_);
}

bool ExitWriter::add_late_calls() {
  for (const journal::LateCall& call : journal_.late_calls()) {
    Step step{StepKind::Call};
    step.index = add(call.function.get());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call.arguments.get()); ++i) {
      if (step.index < 0 || !add_part(&step, PyTuple_GET_ITEM(call.arguments.get(), i))) {
        return false;
      }
    }
    emit(call.result.get(), std::move(step));
  }
  return true;
}

bool ExitWriter::put_generators_back(const std::vector<PyObject*>& generators) {
  for (PyObject* generator : generators) {
    int step = add(generator);
    if (step < 0) {
      return false;
    }
    if (!py::is_resumable(reinterpret_cast<PyGenObject*>(generator))) {
      // It has ended, or its frame goes on with the others.
      Step end{StepKind::EndGenerator};
      end.index = step;
      emit_fill(std::move(end));
    } else if (!fill_generator(generator, step)) {
      return false;
    }
  }
  return true;
}

std::optional<ExitProgram> ExitWriter::write_break(const interp::StackState& state, size_t kept_frames,
                                                   const std::vector<PyObject*>& generators) {
  program_.kept_frames = kept_frames;
  if (!add_late_calls()) {
    return std::nullopt;
  }
  for (const interp::FrameState& frame : state.frames) {
    if (frame.generator) {
      // Its frame is put back with the others.
      PyObject* generator = frame.generator.object();
      if (!around_.outside(generator) && add_empty_generator(generator, frame.function.get()) < 0) {
        return std::nullopt;
      }
    }
  }
  program_.handled = add_or_none(state.handled.get());
  if (state.handled && program_.handled < 0) {
    return std::nullopt;
  }
  for (size_t i = 0; i < state.frames.size(); ++i) {
    // A generator's frame may stand elsewhere than at the start; another frame may stand where a generator's stood.
    PyObject* generator = state.frames[i].generator.object();
    int number = generator ? around_.frame_of_generator(generator) : i < kept_frames ? static_cast<int>(i) : -1;
    if (!add_frame(state.frames[i], number, i + 1 < state.frames.size())) {
      return std::nullopt;
    }
  }
  if (!put_generators_back(generators) || !add_effects() || !fill_all()) {
    return std::nullopt;
  }
  return std::move(program_);
}

bool ExitWriter::add_frame(const interp::FrameState& frame, int number, bool inside) {
  FrameRecipe recipe;
  recipe.code = frame.code.clone();
  recipe.offset = frame.offset;
  recipe.outer_exceptions = frame.outer_exceptions;
  if (frame.name_space) {
    return refuse(frame.name_space.get()) >= 0;  // the body of a class or module
  }
  auto add_to = [&](int* to, PyObject* value) {
    *to = add_or_none(value);
    return value == nullptr || *to >= 0;
  };
  if (!add_to(&recipe.function, frame.function.object()) || !add_to(&recipe.generator, frame.generator.object()) ||
      !add_to(&recipe.handled, frame.handled.get())) {
    return false;
  }
  py::Liveness liveness(frame.code.get());
  int index = 0;
  for (const auto& [from, to] : {std::pair{&frame.locals, &recipe.locals}, std::pair{&frame.stack, &recipe.stack}}) {
    for (const Ref<>& value : *from) {
      to->push_back(-1);
      bool is_local = to == &recipe.locals;
      int position = index++;
      if (is_local && value && source::is_tensor(value.get()) && !liveness.is_live(position, frame.offset, inside) &&
          made_.count(value.get()) == 0 && !around_.outside(value.get())) {
        continue;  // a tensor that nobody will read: the graph need not give it out
      }
      if (!add_position(number, position, value.get(), &to->back())) {
        return false;
      }
    }
  }
  program_.frames.push_back(std::move(recipe));
  return true;
}

bool ExitWriter::add_position(int frame, int index, PyObject* value, int* step) {
  int slot = frame >= 0 ? around_.untouched(static_cast<size_t>(frame), index, value) : -1;
  if (slot < 0) {
    *step = add_or_none(value);
    return value == nullptr || *step >= 0;
  }
  auto [found, is_new] = slot_steps_.emplace(slot, 0);
  if (is_new) {
    Step made{StepKind::Slot};
    made.index = slot;
    found->second = emit(nullptr, std::move(made));
  }
  *step = found->second;
  return true;
}

int ExitWriter::refuse(PyObject* value) {
  forget_error();
  if (reason_.empty()) {
    reason_ = std::string("an object of type ") + Py_TYPE(value)->tp_name;
  }
  return -1;
}

int ExitWriter::emit(PyObject* value, Step step) {
  program_.steps.push_back(std::move(step));
  int index = static_cast<int>(program_.steps.size()) - 1;
  if (value != nullptr) {
    made_.emplace(value, index);
  }
  return index;
}

int ExitWriter::add(PyObject* value) {
  if (auto found = made_.find(value); found != made_.end()) {
    return found->second;
  }
  if (std::optional<Arithmetic> arithmetic = around_.arithmetic_of(value)) {
    Step step{StepKind::Arithmetic};
    step.number = arithmetic->operation;
    bool done = add_part(&step, arithmetic->left) && add_part(&step, arithmetic->right);
    return done ? emit(value, std::move(step)) : -1;
  }
  if (std::optional<Step> step = around_.outside(value)) {
    return emit(value, std::move(*step));
  }
  if (int output = around_.output_of_number(value); output >= 0) {
    Step step{StepKind::Output};
    step.index = output;
    return emit(value, std::move(step));
  }
  Sort sort = source::sort_of(value);
  if (sort == Sort::Tensor) {
    Step step{StepKind::Output};
    step.index = around_.output_of(value);
    return step.index >= 0 ? add_tensor(value, std::move(step)) : refuse(value);
  }
  if (sort == Sort::Primitive) {
    if (around_.is_address(value)) {
      reason_ = reason_.empty() ? "the address of an object" : reason_;
      return -1;
    }
    Step step{StepKind::Constant};
    step.object = share(value);
    return emit(value, std::move(step));
  }
  return add_fresh(value);
}

// The program may have given it attributes.
int ExitWriter::add_tensor(PyObject* value, Step step) {
  int index = emit(value, std::move(step));
  Ref<> attributes = py::own_attributes(value);
  forget_error();
  if (!attributes || PyList_GET_SIZE(attributes.get()) != 0) {
    unfilled_.emplace_back(value, index);
  }
  return index;
}

int ExitWriter::add_fresh(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (around_.is_fresh_class(as_object(type))) {
    return refuse(value);
  }
  if (type == &PyTuple_Type) {
    return add_items(value, Step{StepKind::Tuple});
  }
  if (type == &PyList_Type || type == &PyDict_Type || type == &PySet_Type || type == &PyCell_Type) {
    return add_empty(value, type == &PyList_Type   ? StepKind::NewList
                            : type == &PyDict_Type ? StepKind::NewDict
                            : type == &PySet_Type  ? StepKind::NewSet
                                                   : StepKind::NewCell);
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return add_parts(value, StepKind::Slice, {slice->start, slice->stop, slice->step});
  }
  if (type == &PyMethod_Type) {
    return add_parts(value, StepKind::Method, {PyMethod_GET_FUNCTION(value), PyMethod_GET_SELF(value)});
  }
  if (PyCFunction_CheckExact(value) && PyCFunction_GET_SELF(value) != nullptr &&
      !PyModule_Check(PyCFunction_GET_SELF(value))) {
    return add_builtin_method(value);
  }
  if (type == &_PyMethodWrapper_Type) {
    Ref<> self = steal(PyObject_GetAttrString(value, "__self__"));
    Ref<> bind = steal(py::binder_of_wrapper(value));
    if (!self || !bind) {
      return refuse(value);
    }
    Step binding{StepKind::Constant};
    binding.object = bind.clone();
    Step call{StepKind::Call};
    call.index = emit(nullptr, std::move(binding));
    return add_part(&call, self.get()) ? emit(value, std::move(call)) : -1;
  }
  if (PyFunction_Check(value) && around_.is_fresh_function(value)) {
    return add_function(value);
  }
  if (is_for_good(value) || PyFunction_Check(value)) {
    return add_for_good(value);
  }
  if (is_dict_view(value)) {
    return add_parts(value, StepKind::View, {py::viewed_dict(value)}, as_object(type));
  }
  if (type == &PyDictProxy_Type) {
    Step call{StepKind::Call};
    call.index = add(as_object(type));
    return add_part(&call, py::shown_mapping(value)) ? emit(value, std::move(call)) : -1;
  }
  if (type == &PyGen_Type) {
    return add_generator(value);
  }
  if (PyTraceBack_Check(value)) {
    return add_traceback(value);
  }
  if (PyFrozenSet_Check(value)) {
    Step step{StepKind::FrozenSet};
    step.object = steal(py::set_layout(value));
    step.index = add(as_object(type));
    return add_with_attributes(value, add_items(value, std::move(step)));
  }
  if (py::is_table_iterator(value)) {
    return add_table_iterator(value);
  }
  if (py::is_rebuilt_by_reduce(type)) {
    return add_reduced(value);
  }
  if (PyTuple_Check(value) && type->tp_new != nullptr) {
    Step step{StepKind::TypedTuple};
    step.index = add(as_object(type));
    return add_with_attributes(value, add_items(value, std::move(step)));
  }
  return add_instance(value);
}

int ExitWriter::add_for_good(PyObject* value) {
  if (around_.is_fresh_class(value)) {
    return refuse(value);
  }
  bool of_cpython = PyType_Check(value) && !(reinterpret_cast<PyTypeObject*>(value)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  Step step{of_cpython ? StepKind::Constant : StepKind::Node};
  if (of_cpython) {
    step.object = share(value);
  } else {
    step.index = around_.watch(value);
  }
  return emit(value, std::move(step));
}

int ExitWriter::add_builtin_method(PyObject* value) {
  auto* method = reinterpret_cast<PyCFunctionObject*>(value);
  Ref<> like = steal(PyCMethod_New(method->m_ml, nullptr, method->m_module, nullptr));
  return like ? add_parts(value, StepKind::Builtin, {method->m_self}, like.get()) : refuse(value);
}

bool ExitWriter::add_part(Step* step, PyObject* value) {
  int part = add_or_none(value);
  step->parts.push_back(part);
  return value == nullptr || part >= 0;
}

bool ExitWriter::add_globals(Step* step, PyObject* globals) {
  if (!around_.note_globals(globals)) {
    refuse(globals);
    return false;
  }
  return add_part(step, globals);
}

int ExitWriter::add_parts(PyObject* value, StepKind kind, std::initializer_list<PyObject*> parts, PyObject* object) {
  Step step{kind};
  step.object = share(object);
  for (PyObject* part : parts) {
    if (!add_part(&step, part)) {
      return -1;
    }
  }
  return emit(value, std::move(step));
}

int ExitWriter::add_items(PyObject* value, Step step) {
  if (PyAnySet_Check(value)) {
    Ref<> items = steal(PySequence_List(value));
    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
      if (!add_part(&step, PyList_GET_ITEM(items.get(), i))) {
        return -1;
      }
    }
    return items ? emit(value, std::move(step)) : refuse(value);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
    if (!add_part(&step, PyTuple_GET_ITEM(value, i))) {
      return -1;
    }
  }
  return emit(value, std::move(step));
}

int ExitWriter::add_with_attributes(PyObject* value, int index) {
  if (index >= 0 && Py_TYPE(value)->tp_dictoffset != 0) {
    unfilled_.emplace_back(value, index);
  }
  return index;
}

int ExitWriter::add_empty(PyObject* value, StepKind kind, PyObject* object) {
  Step step{kind};
  step.object = share(object);
  int index = emit(value, std::move(step));
  // Hashes may depend on what is in an object: tables are filled when everything else is.
  (holds_hashed(value) ? unfilled_tables_ : unfilled_).emplace_back(value, index);
  return index;
}

int ExitWriter::add_function(PyObject* value) {
  auto* function = reinterpret_cast<PyFunctionObject*>(value);
  Step step{StepKind::NewFunction};
  step.object = share(function->func_code);
  if (!add_globals(&step, function->func_globals)) {
    return -1;
  }
  int index = emit(value, std::move(step));
  unfilled_.emplace_back(value, index);
  return index;
}

int ExitWriter::add_generator(PyObject* value) {
  auto* generator = reinterpret_cast<PyGenObject*>(value);
  PyObject* function = py::generator_function(generator);
  int index = add_empty_generator(value, reinterpret_cast<PyFunctionObject*>(function));
  if (function != nullptr) {
    unfilled_.emplace_back(value, index);
  } else if (index >= 0) {
    Step end{StepKind::EndGenerator};
    end.index = index;
    emit_fill(std::move(end));
  }
  return index;
}

int ExitWriter::add_empty_generator(PyObject* value, PyFunctionObject* function) {
  auto* generator = reinterpret_cast<PyGenObject*>(value);
  Step step{StepKind::NewGenerator};
  step.object = steal(PyTuple_Pack(3, generator->gi_code, generator->gi_name, generator->gi_qualname));
  if (!step.object) {
    return refuse(value);
  }
  if (function == nullptr) {
    step.parts.push_back(emit(nullptr, Step{StepKind::NewDict}));  // it has ended: whose globals nobody can ask
  } else if (!add_globals(&step, function->func_globals)) {
    return refuse(value);
  }
  return emit(value, std::move(step));
}

// Over a table from outside: begun and advanced before the effects, so that it sees what becomes of the table afterwards.
// One that was begun after the trace had changed the table cannot be made in this way. Over a table that the trace made:
// begun while that is empty, and put where it stood when everything is filled.
int ExitWriter::add_table_iterator(PyObject* value) {
  py::TableIteration iteration = py::iteration_of(value);
  PyObject* table = py::table_of(value);
  Step step{StepKind::TableIterator};
  step.object = share(as_object(iteration.type));
  step.index = iteration.kind;
  if (table == nullptr) {
    return emit(value, std::move(step));
  }
  if (around_.outside(table)) {
    PyObject* before = journal_.original(table);
    step.number = py::count_given(value);
    if (!py::began_with(value, PyObject_Size(before != nullptr ? before : table)) || step.number < 0) {
      forget_error();
      return refuse(value);
    }
    return add_part(&step, table) ? emit(value, std::move(step)) : -1;
  }
  if (py::count_given(value) < 0 || (PyAnySet_Check(table) && !is_laid_out_alike(table))) {
    return add_reduced(value);
  }
  py::TablePosition position = py::position_of(value);
  if (!add_part(&step, table)) {
    return -1;
  }
  Step filling{StepKind::FillPosition};
  filling.object = steal(Py_BuildValue("(nnn)", position.place, position.used, position.length));
  filling.parts = step.parts;
  int index = emit(value, std::move(step));
  filling.index = index;
  if (!filling.object) {
    return refuse(value);
  }
  emit(nullptr, std::move(filling));
  return index;
}

int ExitWriter::add_reduced(PyObject* value) {
  Ref<> reduced = steal(PyObject_CallMethod(value, "__reduce__", nullptr));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) < 2 ||
      !PyTuple_Check(PyTuple_GET_ITEM(reduced.get(), 1))) {
    return refuse(value);
  }
  PyObject* arguments = PyTuple_GET_ITEM(reduced.get(), 1);
  PyObject* state = PyTuple_GET_SIZE(reduced.get()) > 2 ? PyTuple_GET_ITEM(reduced.get(), 2) : Py_None;
  Step step{StepKind::Call};
  step.index = add(PyTuple_GET_ITEM(reduced.get(), 0));
  kept_.push_back(reduced.clone());
  if (step.index < 0) {
    return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    if (!add_part(&step, PyTuple_GET_ITEM(arguments, i))) {
      return -1;
    }
  }
  int index = emit(value, std::move(step));
  if (state != Py_None) {
    Step filling{StepKind::FillState};
    filling.index = index;
    if (!add_part(&filling, state)) {
      return -1;
    }
    emit(nullptr, std::move(filling));
  }
  return index;
}

int ExitWriter::add_traceback(PyObject* value) {
  py::TracebackParts parts = py::take_traceback_apart(value);
  Step step{StepKind::Traceback};
  step.object = steal(Py_BuildValue("(Oii)", parts.code, parts.lasti, parts.line));
  if (!step.object || !add_part(&step, parts.next) || !add_globals(&step, parts.globals)) {
    return refuse(value);
  }
  return emit(value, std::move(step));
}

int ExitWriter::add_instance(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (py::layout_base(type) == nullptr) {
    return refuse(value);
  }
  Step step{StepKind::NewInstance};
  step.index = add(as_object(type));
  if (PyExceptionInstance_Check(value)) {
    PyObject* arguments = reinterpret_cast<PyBaseExceptionObject*>(value)->args;
    if (!add_part(&step, arguments)) {
      return -1;
    }
  }
  int index = emit(value, std::move(step));
  (holds_hashed(value) ? unfilled_tables_ : unfilled_).emplace_back(value, index);
  return index;
}

}  // namespace alternator::exits
