// The door to C code. Whatever leaves the recorder's sight, because C code gets it (an argument, a receiver, an operand, an index,
// a key, an item of f(*args)), passes Recorder::expose(), which reads it as the contract of the callee says (contract.def):
// through containers that the trace made as well, since what they hold may be from outside.
#include "base/shortage.h"
#include "interp/hook.h"
#include "py/body.h"
#include "py/generator.h"
#include "py/iterator.h"
#include "py/names.h"
#include "record/callable.h"
#include "record/recorder.h"

namespace alternator::record {

using source::Sort;

namespace {

// One of the abstract classes of containers.
bool is_of_standard_library(PyObject* type) {
  Ref<> module = steal(PyObject_GetAttrString(type, "__module__"));
  forget_error();
  return module && PyUnicode_Check(module.get()) &&
         PyUnicode_CompareWithASCIIString(module.get(), "collections.abc") == 0;
}

// Its hash is where it is, which is not the same in every call.
bool shows_address(PyObject* object, const ReadGraph& graph) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (shows_address(PyTuple_GET_ITEM(object, i), graph)) {
        return true;
      }
    }
    return false;
  }
  bool by_address = Py_TYPE(object)->tp_hash == PyBaseObject_Type.tp_hash;
  return source::is_tensor(object) || source::is_nan(object) ||
         (by_address && (source::sort_of(object) == Sort::Object || graph.is_fresh_class(object)));
}

// "{0.name}", "{key[0]}": C code would look into the values.
bool names_parts(PyObject* text) {
  bool field = false;
  for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(text); ++i) {
    Py_UCS4 character = PyUnicode_READ_CHAR(text, i);
    if (field && (character == '.' || character == '[')) {
      return true;
    }
    bool ends = character == '}' || character == ':' || character == '!';
    field = character == '{' || (field && !ends);
  }
  return false;
}

}  // namespace

void Recorder::expose(PyObject* object, Reads reads) {
  if (object == nullptr || ended_) {
    return;
  }
  switch (reads) {
    case Reads::Nothing:
    case Reads::Attribute:  // record_access(), with the name or key
    case Reads::Key: return;
    case Reads::Identity: return record_address_read(object);
    case Reads::Type:
      graph_.read_type(Py_TYPE(object));
      if (PyType_Check(object)) {
        graph_.read_type(reinterpret_cast<PyTypeObject*>(object));
      }
      return;
    case Reads::Length: return record_length(object);
    case Reads::Truth: return record_truth(object);
    case Reads::Text: return record_text(object);
    case Reads::Items:
      return py::iterator_kind(object) != py::IteratorKind::None ? record_exhaustion(object) : record_iteration(object);
    case Reads::Iterable:
      return py::iterator_kind(object) != py::IteratorKind::None ? void() : record_iteration(object);
    case Reads::Iterated: return record_iteration(object);
    case Reads::Deep: return record_deep(object, 0);
    case Reads::Hashed:
      if (shows_address(object, graph_)) {
        return abort(AbortReason::UnknownRead, "the address of an object");
      }
      [[fallthrough]];
    case Reads::Compared: record_iteration(object); return record_deep(object, 0, true);
  }
}

void Recorder::record_address_read(PyObject* object) {
  if (recorder_of_caller() == RecordedBy::Attributes) {
    return;  // the hash of a tensor; where the program asks for it, it does so by hash()
  }
  if (is_fresh_instance(object) || graph_.is_fresh_class(object) || is_fresh_function(object) ||
      source::sort_of(object) != Sort::Pinned ||
      (ReadGraph::has_parts(object) && !graph_.is_constant(graph_.node_of(object)))) {
    record_address(object);
  }
}

std::optional<RecordedBy> Recorder::recorder_of_caller() const {
  return recorder_of(reinterpret_cast<PyObject*>(position_.frame->f_func));
}

// Numbers that are followed: what C code looks at is relied on.
void Recorder::use_arguments(PyObject* callable, const Contract* contract, PyObject* const* arguments,
                             Py_ssize_t count) {
  PyObject* receiver = receiver_of(callable);
  if (computed_ || !follows_anything()) {
    return;
  }
  bool by_torch =
      contract != nullptr && (contract->recorded_by == RecordedBy::Torch || is_tensor_operation(arguments, count));
  bool for_torch = count > 0 && source::is_tensor(arguments[0]);
  keying_ = finds_by_address(contract, callable, arguments, count);
  for (Py_ssize_t i = 0; !passes_on_to_python(callable) && i < count; ++i) {
    size_t number = static_cast<size_t>(i) + (receiver != nullptr);
    if (by_torch) {
      give_to_torch(arguments[i]);
    } else if (for_torch || contract == nullptr || !takes_unseen(callable, *contract, number, arguments[i])) {
      use_deep(arguments[i]);
    } else if (callable == reinterpret_cast<PyObject*>(&PyLong_Type)) {
      read_class_of_number(arguments[i]);  // int(3) is 3, whatever the number is
    }
  }
  if (receiver != nullptr && !(contract != nullptr && finds_by_key(*contract, receiver))) {
    use_deep(receiver);
  }
  keying_ = false;
}

// Of a dict, what is found by a key is not looked at, and keys were relied on when they were put there.
bool Recorder::finds_by_key(const Contract& contract, PyObject* container) {
  return contract.first == Reads::Key && PyDict_CheckExact(container);
}

// Whether the callable takes a value without looking at it.
bool Recorder::takes_unseen(PyObject* callable, const Contract& contract, size_t number, PyObject* value) const {
  if (contract.recorded_by != RecordedBy::Attributes && contract.recorded_by != RecordedBy::Class) {
    return false;
  }
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    return number == 0 && PyLong_CheckExact(value);
  }
  Reads reads = contract.reads(number);
  bool names = number == 1 && (contract.first == Reads::Attribute || contract.first == Reads::Key ||
                               contract.writes == Writes::Attribute || changes_entry(contract));
  if (reads == Reads::Type) {
    return source::is_plain_sequence(value) || (followed_.count(value) != 0 && is_moving(value));
  }
  if (number == 0 && finds_by_key(contract, value)) {
    return true;
  }
  return !names && (reads == Reads::Nothing || (reads == Reads::Length && !is_followed(value)) ||
                    (reads == Reads::Items && source::is_plain_sequence(value)));
}

void Recorder::record_c_call(PyObject* callable, const Contract& contract, PyObject* const* arguments,
                             Py_ssize_t count) {
  std::vector<PyObject*> values;
  if (PyObject* receiver = receiver_of(callable)) {
    values.push_back(receiver);
  }
  values.insert(values.end(), arguments, arguments + count);
  for (PyObject* value : values) {
    if (contract.calls_back && graph_.is_outside(value) && is_opaque_callable(value)) {
      return abort(AbortReason::UnknownCall, describe_callable(value));  // C code would call what it holds
    }
  }
  switch (contract.recorded_by) {
    case RecordedBy::Modes:
      mode_hidden_ = true;
      turn_mode_(false);
      break;
    case RecordedBy::Template:
      if (!values.empty() && PyUnicode_Check(values[0]) && names_parts(values[0])) {
        return abort(AbortReason::UnknownRead, "an attribute or item that a format names");
      }
      break;
    case RecordedBy::Registry:
      if (!record_registry(callable, arguments, count)) {
        return;
      }
      break;
    case RecordedBy::Attributes:
    case RecordedBy::Torch: break;
    default: return record_special_call(callable, contract.recorded_by, values, arguments, count);
  }
  bool slot = Py_IS_TYPE(callable, &PyWrapperDescr_Type) || is_method_wrapper(callable);
  for (size_t i = 0; i < values.size(); ++i) {
    if (slot && contract.reads(i) == Reads::Text) {
      PyObject* const str = py::names.__str__;
      PyObject* const object_str = _PyType_Lookup(&PyBaseObject_Type, str);  // which asks for the __repr__
      record_text(values[i], 0, key_of(callable) != object_str);
    } else if (slot && contract.reads(i) == Reads::Length) {
      record_length(values[i], true);
    } else {
      expose(values[i], contract.reads(i));
    }
  }
  if (!ended_) {
    record_access(callable, contract, slot, values);
  }
  if (!ended_ && !values.empty()) {
    record_written(contract, slot, values);
  }
  expect_result(contract);
}

// What is found by the name or key that is the second value.
void Recorder::record_access(PyObject* callable, const Contract& contract, bool slot,
                             const std::vector<PyObject*>& values) {
  if (contract.first == Reads::Attribute) {
    PyObject* const dict = py::names.__dict__;
    PyObject* name = values.size() == 1 ? dict : values.empty() ? nullptr : values[1];  // vars(x)
    if (name == nullptr || !PyUnicode_Check(name)) {
      return abort(AbortReason::UnknownCall, describe_callable(callable));
    }
    if (slot && source::sort_of(values[0]) == Sort::Object) {
      return graph_.read_type(Py_TYPE(values[0])) ? record_instance_attribute(values[0], name, true)
                                                  : abort(AbortReason::UnknownRead, "a class");
    }
    return record_attribute(values[0], name);
  }
  if (contract.first == Reads::Key) {
    return values.size() >= 2 ? record_item(values[0], values[1], true)
                              : abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  if (contract.writes == Writes::Attribute && (values.size() < 2 || !PyUnicode_Check(values[1]))) {
    abort(AbortReason::UnknownCall, describe_callable(callable));
  }
}

// What a contract says that is changed of the first value.
void Recorder::record_written(const Contract& contract, bool slot, const std::vector<PyObject*>& values) {
  PyObject* first = values[0];
  switch (contract.writes) {
    case Writes::Nothing: return;
    case Writes::Attribute:
      if (slot && PyType_Check(first)) {
        return record_class_attribute_write(first, values[1], values.size() == 2);
      }
      if (slot) {
        return source::is_tensor(first) || !graph_.read_type(Py_TYPE(first))
                   ? abort(AbortReason::UnsupportedTorch, "an attribute of a tensor is set")
                   : record_generic_attribute_write(first, values[1], values.size() == 2);
      }
      return record_attribute_write(first, values[1], values.size() == 2);
    case Writes::End: return record_container_write(first, py::has_limit(first) ? Reach::Whole : Reach::Nothing);
    case Writes::Entry:
    case Writes::Removed:
      if (values.size() < 2) {
        return;  // raises TypeError
      }
      if (values.size() > 2) {
        record_stored(values[1], values[2]);
      }
      if (source::is_tensor(first) || PyDict_Check(first)) {
        bool removes = contract.writes == Writes::Removed && PyDict_Check(first);
        return record_item_write(first, values[1], removes, true);
      }
      expose(values[1], Reads::Compared);
      return ended_ ? void() : record_container_write(first, Reach::Whole);
    case Writes::Contents: return record_container_write(first, Reach::Whole);
    case Writes::Position: return record_next(first, depth_ == 1);
    case Writes::Itself:
      if (is_hanging(first)) {
        return begin_hanging(first);
      }
      return graph_.is_outside(first) ? abort(AbortReason::WriteOutside, Py_TYPE(first)->tp_name) : void();
  }
}

// container[key] = value: a slice takes the items of the value.
void Recorder::record_stored(PyObject* key, PyObject* value) {
  if (PySlice_Check(key)) {
    expose(value, Reads::Iterated);
  }
}

// The registered classes of an abstract class decide. False if the trace ended.
bool Recorder::record_registry(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (!read_registrations()) {
    abort(AbortReason::UnknownCall, describe_callable(callable));
    return false;
  }
  if (count > 0 && is_of_standard_library(arguments[0])) {
    // What it has to find out it finds out now, and remembers: from the classes alone, by code that looks into them.
    interp::Unobserved native;
    Ref<> primed = steal(PyObject_Vectorcall(callable, arguments, static_cast<size_t>(count), nullptr));
    forget_error();
  }
  return true;
}

// Which classes are registered with abstract ones.
bool Recorder::read_registrations() {
  Ref<> module = steal(PyImport_ImportModule("_abc"));
  Ref<> getter = module ? steal(PyObject_GetAttrString(module.get(), "get_cache_token")) : nullptr;
  Ref<> token = getter ? steal(PyObject_CallNoArgs(getter.get())) : nullptr;
  forget_error();
  if (token) {
    graph_.read_setting(getter.get(), token.get());
  }
  return static_cast<bool>(token);
}

void Recorder::record_special_call(PyObject* callable, RecordedBy recorder, const std::vector<PyObject*>& values,
                                   PyObject* const* arguments, Py_ssize_t count) {
  switch (recorder) {
    case RecordedBy::ClassBody: return record_class_definition(arguments, count);
    case RecordedBy::Class:
      return count == 1 ? expose(arguments[0], Reads::Type) : record_class_making(callable, arguments, count);
    case RecordedBy::Text: return record_executed_text(callable, arguments, count);
    case RecordedBy::Thread: return record_thread_request();
    case RecordedBy::Frame: return record_frame_request(callable, arguments, count);
    case RecordedBy::Primed: {
      interp::Unobserved native;
      Ref<> primed = steal(PyObject_Vectorcall(callable, arguments, static_cast<size_t>(count), nullptr));
      return forget_error();
    }
    case RecordedBy::Cache: return record_cache(values.data(), values.size());
    case RecordedBy::Handled: {
      read_slot(start_->handled());
      PyObject* handled = py::topmost_handled_exception(position_.ts);
      // Of one from before, the traceback is not watched.
      return handled != nullptr && graph_.is_outside(handled)
                 ? abort(AbortReason::UnknownRead, "an exception that was there before")
                 : void();
    }
    case RecordedBy::Item:
      if (!values.empty() && reads_items(values[0])) {
        return;
      }
      [[fallthrough]];
    case RecordedBy::Eager: return abort(AbortReason::MustRun, quote_call(callable, arguments, count));
    case RecordedBy::State: return record_state_call(callable);
    case RecordedBy::Keyed:
    case RecordedBy::Scope: return;  // told when its frame begins
    case RecordedBy::Inner:
      return recorder_of_caller() == RecordedBy::Scope ? void()
                                                       : abort(AbortReason::UnknownCall, describe_callable(callable));
    case RecordedBy::Setting: return record_setting(callable, arguments, count);
    default: return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
}

void Recorder::record_setting(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  // Of a context variable: the method, bound to it.
  bool of_variable = count == 1 && PyContextVar_CheckExact(arguments[0]);
  Ref<> getter = of_variable ? steal(PyObject_GetAttrString(arguments[0], "get")) : share(callable);
  Ref<> value = getter && (count == 0 || of_variable) ? steal(PyObject_CallNoArgs(getter.get())) : nullptr;
  forget_error();
  // A bare object() is a mark for "nothing".
  if (!value || (source::sort_of(value.get()) != Sort::Primitive && !Py_IS_TYPE(value.get(), &PyBaseObject_Type))) {
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  graph_.read_setting(getter.get(), value.get());
}

// The result is on top of the stack when the next instruction begins: checked builds compare it with what the contract says.
void Recorder::expect_result([[maybe_unused]] const Contract& contract) {
#if defined(ALTERNATOR_CHECKS)
  if (deciding_ && !opaque_ && !ended_) {
    expected_result_ = &contract;
    expecting_ = position_.frame;
  }
#endif
}

void Recorder::meet_result([[maybe_unused]] const interp::Position& position) {
#if defined(ALTERNATOR_CHECKS)
  const Contract* contract = std::exchange(expected_result_, nullptr);
  if (contract == nullptr || position.frame != expecting_ || contract->returns != Returns::Fresh ||
      contract->calls_back) {
    return;
  }
  PyObject* result = position.stack_top > py::stack_base(position.frame) ? position.stack_top[-1] : nullptr;
  ALTERNATOR_CHECK(result == nullptr || source::sort_of(result) != Sort::Object || !graph_.is_outside(result),
                   "a C function whose contract says that it returns a new object does so");
#endif
}

}  // namespace alternator::record
