// The second half of the writer: what goes into the values that were made empty, and what objects from outside get.
#include <algorithm>

#include "base/shortage.h"
#include "exit/writer.h"
#include "py/generator.h"
#include "py/instance.h"
#include "py/members.h"

namespace alternator::exits {
namespace {

// The items of a dict in its order, by its base's own code.
Ref<> items_of(PyObject* dict) {
  if (!PyODict_Check(dict)) {
    return steal(PyDict_Items(dict));
  }
  Ref<> view = steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "items", "O", dict));
  return view ? steal(PySequence_List(view.get())) : nullptr;
}

}  // namespace

bool ExitWriter::fill_all() {
  while (!unfilled_.empty() || !unfilled_tables_.empty()) {
    auto& queue = !unfilled_.empty() ? unfilled_ : unfilled_tables_;
    auto [value, index] = queue.back();
    queue.pop_back();
    if (!fill(value, index)) {
      return false;
    }
  }
  // Tables (see add_empty()) last; positions of iterators even later.
  std::vector<Step> late;
  for (Step& step : program_.steps) {
    bool table = step.kind == StepKind::FillDict || step.kind == StepKind::FillSet;
    if (table || step.kind == StepKind::FillState || step.kind == StepKind::FillPosition) {
      (table ? late : program_.positions).push_back(std::move(step));
      step = Step{StepKind::Constant};
    }
  }
  for (Step& step : late) {
    program_.steps.push_back(std::move(step));
  }
  return true;
}

bool ExitWriter::emit_fill(Step step) {
  emit(nullptr, std::move(step));
  return true;
}

bool ExitWriter::fill(PyObject* value, int index) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyCell_Type) {
    if (PyCell_GET(value) == nullptr) {
      return true;
    }
    Step step{StepKind::FillCell};
    step.index = index;
    return add_part(&step, PyCell_GET(value)) && emit_fill(std::move(step));
  }
  if (PyFunction_Check(value)) {
    return fill_function(value, index);
  }
  if (source::is_tensor(value) || PyTuple_Check(value) || PyFrozenSet_Check(value)) {
    return fill_attributes(value, index);
  }
  if (type == &PyGen_Type) {
    return fill_generator(value, index);
  }
  if (type == &PyList_Type || type == &PyDict_Type || type == &PySet_Type) {
    return fill_items(value, index,
                      type == &PyList_Type   ? StepKind::FillList
                      : type == &PyDict_Type ? StepKind::FillDict
                                             : StepKind::FillSet);
  }
  return fill_instance(value, index);
}

bool ExitWriter::fill_items(PyObject* value, int index, StepKind kind) {
  Step step{kind};
  step.index = index;
  if (PyDict_Check(value)) {
    Ref<> list = items_of(value);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
      PyObject* pair = PyList_GET_ITEM(list.get(), i);
      if (!add_part(&step, PyTuple_GET_ITEM(pair, 0)) || !add_part(&step, PyTuple_GET_ITEM(pair, 1))) {
        return false;
      }
    }
    return list ? emit_fill(std::move(step)) : refuse(value) >= 0;
  }
  Ref<> list = steal(PySequence_List(value));
  step.object = kind == StepKind::FillSet ? steal(py::set_layout(value)) : nullptr;
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    if (!add_part(&step, PyList_GET_ITEM(list.get(), i))) {
      return false;
    }
  }
  return list ? emit_fill(std::move(step)) : refuse(value) >= 0;
}

bool ExitWriter::fill_function(PyObject* value, int index) {
  auto* function = reinterpret_cast<PyFunctionObject*>(value);
  Step step{StepKind::FillFunction};
  step.index = index;
  for (PyObject* part :
       {function->func_name, function->func_qualname, function->func_defaults, function->func_kwdefaults,
        function->func_closure, function->func_annotations, function->func_doc, function->func_module}) {
    if (!add_part(&step, part)) {
      return false;
    }
  }
  emit_fill(std::move(step));
  return function->func_dict == nullptr || fill_attributes(value, index);
}

bool ExitWriter::fill_generator(PyObject* value, int index) {
  py::GeneratorState state = py::generator_state(reinterpret_cast<PyGenObject*>(value));
  if (!state.resumable) {
    return refuse(value) >= 0;
  }
  Step step{StepKind::FillGenerator};
  step.index = index;
  step.object = steal(
      Py_BuildValue("(iiO)", state.created ? -1 : state.offset, static_cast<int>(state.locals.size()), state.code));
  int frame = around_.frame_of_generator(value);
  int position = 0;
  for (const auto* values : {&state.locals, &state.stack}) {
    for (PyObject* one : *values) {
      step.parts.push_back(-1);
      if (!add_position(frame, position++, one, &step.parts.back())) {
        return false;
      }
    }
  }
  return add_part(&step, state.handled) && add_part(&step, state.function) && emit_fill(std::move(step));
}

bool ExitWriter::fill_attributes(PyObject* value, int index) {
  Ref<> attributes = steal(PyObject_GenericGetDict(value, nullptr));
  if (!attributes) {
    return refuse(value) >= 0;
  }
  constexpr Py_ssize_t kOwnAndHere = 2;
  if (Py_REFCNT(attributes.get()) > kOwnAndHere) {  // something else may be given out that has it: y.__dict__.update
    Step step{StepKind::FillNamespace};
    step.index = index;
    return add_part(&step, attributes.get()) && emit_fill(std::move(step));
  }
  Step step{StepKind::FillAttributes};
  step.index = index;
  PyObject *key, *item;
  Py_ssize_t position = 0;
  while (PyDict_Next(attributes.get(), &position, &key, &item)) {
    if (!add_part(&step, key) || !add_part(&step, item)) {
      return false;
    }
  }
  return emit_fill(std::move(step));
}

bool ExitWriter::fill_instance(PyObject* value, int index) {
  PyTypeObject* type = Py_TYPE(value);
  if (type->tp_dictoffset != 0 && !fill_attributes(value, index)) {
    return false;
  }
  if (std::vector<Py_ssize_t> offsets = py::slot_offsets(type); !offsets.empty()) {
    Step step{StepKind::FillSlots};
    step.index = index;
    step.object = steal(PyTuple_New(static_cast<Py_ssize_t>(offsets.size())));
    for (size_t i = 0; step.object && i < offsets.size(); ++i) {
      PyTuple_SET_ITEM(step.object.get(), i, PyLong_FromSsize_t(offsets[i]));
      if (!add_part(&step, py::object_at(value, offsets[i]))) {
        return false;
      }
    }
    emit_fill(std::move(step));
  }
  if (PyExceptionInstance_Check(value)) {
    auto* exception = reinterpret_cast<PyBaseExceptionObject*>(value);
    Step step{StepKind::FillException};
    step.index = index;
    step.object = share(exception->suppress_context ? Py_True : Py_False);
    return add_part(&step, exception->cause) && add_part(&step, exception->context) &&
           add_part(&step, exception->traceback) && emit_fill(std::move(step));
  }
  switch (py::body_kind(value)) {
    case py::BodyKind::List: return fill_items(value, index, StepKind::FillList);
    case py::BodyKind::Set: return fill_items(value, index, StepKind::FillSet);
    case py::BodyKind::Dict:
    case py::BodyKind::OrderedDict: {
      if (PyObject* factory = py::default_factory(value)) {
        Step step{StepKind::FillState};
        step.index = index;
        if (!add_part(&step, factory)) {
          return false;
        }
        emit_fill(std::move(step));
      }
      return fill_items(value, index, StepKind::FillDict);
    }
    case py::BodyKind::Deque: {
      Step limit{StepKind::Constant};
      limit.object =
          steal(py::deque_limit(value) < 0 ? Py_NewRef(Py_None) : PyLong_FromSsize_t(py::deque_limit(value)));
      Step step{StepKind::FillDeque};
      step.index = index;
      step.parts.push_back(emit(nullptr, std::move(limit)));
      Ref<> items = steal(PySequence_List(value));
      for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
        if (!add_part(&step, PyList_GET_ITEM(items.get(), i))) {
          return false;
        }
      }
      return items ? emit_fill(std::move(step)) : refuse(value) >= 0;
    }
    case py::BodyKind::None: break;
  }
  return true;
}

// ---- Effects -------------------------------------------------------------------------------------------------------

bool ExitWriter::add_effects() {
  auto node_of = [&](PyObject* owner) {
    std::optional<Step> step = around_.outside(owner);
    return step && step->kind == StepKind::Node ? step->index : -1;
  };
  for (const Ref<>& iterator : journal_.advances()) {
    int node = node_of(iterator.get());
    if (node < 0) {
      return refuse(iterator.get()) >= 0;
    }
    if (program_.effects.empty() || program_.effects.back().node != node) {
      program_.effects.emplace_back(EffectKind::Advance, node);
    }
    ++program_.effects.back().index;
  }
  for (const journal::Place* place : places_in_order()) {
    int node = node_of(place->owner.get());
    if (node < 0 || !add_place_effect(*place, node)) {
      refuse(place->owner.get());
      return false;
    }
  }
  for (const journal::Body& body : journal_.bodies()) {
    int node = node_of(body.owner.get());
    if (node < 0) {
      refuse(body.owner.get());
      return false;
    }
    bool done = false;
    switch (body.kind) {
      case py::BodyKind::List: done = add_list_effect(body, node); break;
      case py::BodyKind::Dict:
      case py::BodyKind::OrderedDict: done = add_dict_effect(body, node); break;
      case py::BodyKind::Deque: done = add_deque_effect(body, node); break;
      default: done = add_rewrite(body, node);
    }
    if (!done) {
      return false;
    }
  }
  return add_cache_effects();
}

bool ExitWriter::add_cache_effects() {
  for (const journal::CacheCalls& made : journal_.cache_calls()) {
    std::optional<Step> step = around_.outside(made.cache.get());
    int node = step && step->kind == StepKind::Node ? step->index : -1;
    for (Py_ssize_t i = 0; node >= 0 && i < PyList_GET_SIZE(made.calls.get()); ++i) {  // else the trace made the cache
      PyObject* call = PyList_GET_ITEM(made.calls.get(), i);
      Effect effect{EffectKind::CallCache, node};
      for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(call); ++j) {
        effect.steps.push_back(add(PyTuple_GET_ITEM(call, j)));
        if (effect.steps.back() < 0) {
          return false;
        }
      }
      program_.effects.push_back(std::move(effect));
    }
  }
  return true;
}

bool ExitWriter::add_place_effect(const journal::Place& place, int node) {
  PyObject* now = journal::Journal::current(place);
  auto emit_effect = [&](int step) {
    Effect effect{EffectKind::SetPlace, node};
    effect.place = place.kind;
    effect.key = place.key.clone();
    effect.index = place.offset;
    if (step >= 0) {
      effect.steps.push_back(step);
    }
    program_.effects.push_back(std::move(effect));
  };
  if (now == place.old.get() && (place.was_read || now == nullptr) && !place.deleted) {
    return true;  // as it was; what was there is guarded
  }
  if (place.old && (now == nullptr || place.deleted)) {
    emit_effect(-1);
  }
  int step = now != nullptr ? add(now) : 0;
  if (now != nullptr && step >= 0) {
    emit_effect(step);
  }
  return step >= 0;
}

// An attribute that was deleted and set again stands behind those that were set in between: in the order of the end.
std::vector<const journal::Place*> ExitWriter::places_in_order() const {
  std::vector<const journal::Place*> places, moved;
  auto is_moved = [&](const journal::Place& place) {
    return place.kind == journal::PlaceKind::Attribute && (place.deleted || !place.old) &&
           std::any_of(journal_.places().begin(), journal_.places().end(), [&](const journal::Place& other) {
             return other.deleted && other.owner.get() == place.owner.get();
           });
  };
  for (const journal::Place& place : journal_.places()) {
    (is_moved(place) ? moved : places).push_back(&place);
  }
  auto rank = [](const journal::Place* place) {
    Ref<> dict = steal(PyObject_GenericGetDict(place->owner.get(), nullptr));
    Ref<> keys = dict ? steal(PyDict_Keys(dict.get())) : nullptr;
    Py_ssize_t index = keys ? PySequence_Index(keys.get(), place->key.get()) : -1;
    forget_error();
    return index;
  };
  std::stable_sort(moved.begin(), moved.end(), [&](auto* a, auto* b) { return rank(a) < rank(b); });
  places.insert(places.end(), moved.begin(), moved.end());
  return places;
}

bool ExitWriter::add_list_effect(const journal::Body& body, int node) {
  PyObject* now = body.owner.get();
  PyObject* old = body.twin.get();
  Py_ssize_t old_size = PyList_GET_SIZE(old);
  Py_ssize_t size = PyList_GET_SIZE(now);
  Py_ssize_t same = 0;
  while (same < size && same < old_size && PyList_GET_ITEM(now, same) == PyList_GET_ITEM(old, same)) {
    ++same;
  }
  if (same == size && same == old_size) {
    return true;
  }
  if (same < old_size) {
    around_.read_length(body.owner.get());
  }
  if (same < old_size && size == old_size) {
    for (Py_ssize_t i = same; i < size; ++i) {
      if (PyList_GET_ITEM(now, i) == PyList_GET_ITEM(old, i)) {
        continue;
      }
      Effect effect{EffectKind::SetIndex, node};
      effect.index = i;
      effect.steps.push_back(add(PyList_GET_ITEM(now, i)));
      if (effect.steps[0] < 0) {
        return false;
      }
      program_.effects.push_back(std::move(effect));
    }
    return true;
  }
  Effect effect{same == old_size ? EffectKind::Extend : EffectKind::Splice, node};
  effect.index = same;
  if (effect.kind == EffectKind::Splice && !around_.read_whole(body.owner.get())) {
    return refuse(now) >= 0;
  }
  for (Py_ssize_t i = same; i < size; ++i) {
    effect.steps.push_back(add(PyList_GET_ITEM(now, i)));
    if (effect.steps.back() < 0) {
      return false;
    }
  }
  program_.effects.push_back(std::move(effect));
  return true;
}

bool ExitWriter::add_dict_effect(const journal::Body& body, int node) {
  PyObject* now = body.owner.get();
  PyObject* old = body.twin.get();
  Ref<> keys = steal(PySequence_List(now));
  Ref<> old_keys = steal(PySequence_List(old));
  if (!keys || !old_keys) {
    return refuse(now) >= 0;
  }
  // The order after deleting what is gone and adding what is new; if it is not the real one, the dict is written again.
  std::vector<PyObject*> expected, gone;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(old_keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(old_keys.get(), i);
    (py::dict_item(now, key) && !body.is_removed(key) ? expected : gone).push_back(key);
  }
  Py_ssize_t at = 0;
  for (; at < PyList_GET_SIZE(keys.get()) && at < static_cast<Py_ssize_t>(expected.size()); ++at) {
    if (PyList_GET_ITEM(keys.get(), at) != expected[at]) {
      return add_rewrite(body, node);
    }
  }
  for (PyObject* key : gone) {
    Effect effect{EffectKind::DeleteItem, node};
    effect.body = body.kind;
    effect.steps.push_back(add(key));
    if (effect.steps[0] < 0) {
      return false;
    }
    program_.effects.push_back(std::move(effect));
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    PyObject* value = py::dict_item(now, key);
    if (value == py::dict_item(old, key) && !body.is_overwritten(key) && !body.is_removed(key)) {
      continue;
    }
    Effect effect{EffectKind::SetItem, node};
    effect.body = body.kind;
    effect.steps = {add(key), add(value)};
    if (effect.steps[0] < 0 || effect.steps[1] < 0) {
      return false;
    }
    program_.effects.push_back(std::move(effect));
  }
  kept_.push_back(std::move(keys));
  kept_.push_back(std::move(old_keys));
  return true;
}

bool ExitWriter::add_deque_effect(const journal::Body& body, int node) {
  Ref<> now = steal(PySequence_List(body.owner.get()));
  Ref<> old = steal(PySequence_List(body.twin.get()));
  if (!now || !old) {
    return refuse(body.owner.get()) >= 0;
  }
  Py_ssize_t size = PyList_GET_SIZE(now.get());
  Py_ssize_t old_size = PyList_GET_SIZE(old.get());
  for (Py_ssize_t shift = 0; shift <= old_size; ++shift) {
    Py_ssize_t kept = old_size - shift;
    bool same = kept <= size;
    for (Py_ssize_t i = 0; same && i < kept; ++i) {
      same = PyList_GET_ITEM(now.get(), i) == PyList_GET_ITEM(old.get(), shift + i);
    }
    if (!same || (kept == 0 && old_size > 0)) {
      continue;
    }
    if (shift > 0 || py::deque_limit(body.owner.get()) >= 0) {
      around_.read_length(body.owner.get());
    }
    Effect effect{EffectKind::Shift, node};
    effect.index = shift;
    for (Py_ssize_t i = kept; i < size; ++i) {
      effect.steps.push_back(add(PyList_GET_ITEM(now.get(), i)));
      if (effect.steps.back() < 0) {
        return false;
      }
    }
    kept_.push_back(std::move(now));
    if (shift > 0 || !effect.steps.empty()) {
      program_.effects.push_back(std::move(effect));
    }
    return true;
  }
  return add_rewrite(body, node);
}

bool ExitWriter::add_rewrite(const journal::Body& body, int node) {
  if (!around_.read_whole(body.owner.get())) {
    return refuse(body.owner.get()) >= 0;
  }
  Effect effect{EffectKind::Rewrite, node};
  effect.body = body.kind;
  effect.key = body.kind == py::BodyKind::Set ? steal(py::set_layout(body.owner.get())) : nullptr;
  bool dict = PyDict_Check(body.owner.get());
  Ref<> list = dict ? items_of(body.owner.get()) : steal(PySequence_List(body.owner.get()));
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(list.get(), i);
    if (dict) {
      effect.steps.push_back(add(PyTuple_GET_ITEM(item, 0)));
      effect.steps.push_back(effect.steps.back() < 0 ? -1 : add(PyTuple_GET_ITEM(item, 1)));
    } else {
      effect.steps.push_back(add(item));
    }
    if (effect.steps.back() < 0) {
      return false;
    }
  }
  if (!list) {
    return refuse(body.owner.get()) >= 0;
  }
  kept_.push_back(std::move(list));
  program_.effects.push_back(std::move(effect));
  return true;
}

}  // namespace alternator::exits
