// What calls read and write. Python functions are entered by the loop; C functions need a row in the purity table.
#include <cstring>

#include "interp/hook.h"
#include "py/body.h"
#include "py/generator.h"
#include "py/iterator.h"
#include "py/lru_cache.h"
#include "record/operands.h"
#include "record/recorder.h"
#include "record/stand_in.h"

namespace alternator::record {

using source::Sort;

namespace {

// "module.function()". An object without a name is not asked for its text, which may be code of the program.
std::string describe_callable(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  bool cached = std::strcmp(type->tp_name, "functools._lru_cache_wrapper") == 0;
  bool named = cached || PyFunction_Check(callable) || PyCFunction_Check(callable) || PyType_Check(callable) ||
               type == &PyMethod_Type || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
               type == &PyClassMethodDescr_Type || is_method_wrapper(callable);
  Ref<> text = named ? steal(_PyObject_FunctionStr(callable)) : nullptr;
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  if (utf8 == nullptr) {
    return std::string("an object of class ") + type->tp_name;
  }
  std::string result = utf8;
  size_t record = result.find("pybind11_detail_function_record");  // what its functions are methods of
  if (size_t dot = result.find('.', record); record != std::string::npos && dot != std::string::npos) {
    result.erase(record, dot + 1 - record);
  }
  return cached ? result + ", which has a cache" : result;
}

PyObject* own_attribute_of_function(PyObject* function, const char* name) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return attributes ? PyDict_GetItemString(attributes, name) : nullptr;
}

// torch._dynamo.skip_frame.
bool asks_to_skip(PyObject* function) {
  Ref<> module = steal(PyObject_GetAttrString(function, "__module__"));
  PyErr_Clear();
  return module && PyUnicode_Check(module.get()) &&
         PyUnicode_CompareWithASCIIString(module.get(), "torch._dynamo.decorators") == 0 &&
         PyUnicode_CompareWithASCIIString(reinterpret_cast<PyFunctionObject*>(function)->func_name, "skip_frame") == 0;
}

// A call as the user may recognise it: texts among the arguments, and why the function was disabled.
std::string quote_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  std::string text = describe_callable(callable);
  std::string given;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref<> one = PyUnicode_CheckExact(arguments[i]) && PyUnicode_GET_LENGTH(arguments[i]) < 200
                    ? steal(PyObject_Repr(arguments[i]))
                    : steal(PyUnicode_FromString(Py_TYPE(arguments[i])->tp_name));
    const char* utf8 = one ? PyUnicode_AsUTF8(one.get()) : nullptr;
    given += (i > 0 ? ", " : "") + std::string(utf8 ? utf8 : "?");
  }
  if (text.ends_with("()")) {
    text.insert(text.size() - 1, given);
  }
  PyObject* why =
      PyFunction_Check(callable) ? own_attribute_of_function(callable, "_torchdynamo_disable_msg") : nullptr;
  if (why != nullptr && PyUnicode_Check(why)) {
    const char* utf8 = PyUnicode_AsUTF8(why);
    text += std::string(", which is disabled: ") + (utf8 ? utf8 : "?");
  }
  PyErr_Clear();
  return text;
}

// Python code gets the arguments, as they are.
bool passes_on_to_python(PyObject* callable) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__call__"), PyUnicode_InternFromString("__init__")};
  bool is_class = PyType_Check(callable);
  PyObject* found =
      _PyType_Lookup(is_class ? reinterpret_cast<PyTypeObject*>(callable) : Py_TYPE(callable), names[is_class]);
  return found != nullptr && PyFunction_Check(found);
}

// Calling it runs neither a function that is seen when it begins nor C code that has a row.
bool is_opaque_callable(PyObject* object) {
  return PyCallable_Check(object) && !PyFunction_Check(object) && !PyType_Check(object) && !PyCFunction_Check(object) &&
         !Py_IS_TYPE(object, &PyMethod_Type) && !Py_IS_TYPE(object, &PyMethodDescr_Type) &&
         !passes_on_to_python(object);
}

// Takes all items of what it is given, at once.
bool is_consumer(PyObject* callable) {
  return callable == reinterpret_cast<PyObject*>(&PyList_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyTuple_Type) ||
         callable == reinterpret_cast<PyObject*>(&PySet_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyFrozenSet_Type);
}

// Takes an argument as it is, without looking at it or at what it holds.
bool only_moves_argument(PyObject* callable, PyObject* const* arguments, Py_ssize_t index) {
  static PyObject* const append = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "append");
  if (callable == append) {
    return index == 1;
  }
  PyObject* given = arguments[index];
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    return PyLong_CheckExact(given);
  }
  return is_plain_sequence(given) && (callable == reinterpret_cast<PyObject*>(&PyList_Type) ||
                                      callable == reinterpret_cast<PyObject*>(&PyTuple_Type));
}

// One of the abstract classes of containers.
bool is_of_standard_library(PyObject* type) {
  Ref<> module = steal(PyObject_GetAttrString(type, "__module__"));
  PyErr_Clear();
  return module && PyUnicode_Check(module.get()) &&
         PyUnicode_CompareWithASCIIString(module.get(), "collections.abc") == 0;
}

// Its hash is where it is.
bool shows_address(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (shows_address(PyTuple_GET_ITEM(object, i))) {
        return true;
      }
    }
    return false;
  }
  return source::is_tensor(object) ||
         (source::sort_of(object) == Sort::Object && Py_TYPE(object)->tp_hash == PyBaseObject_Type.tp_hash);
}

bool is_safe_constructor(PyTypeObject* type) {
  // Classes of the program: object's, a builtin container's or an exception's memory, then Python code. A finaliser would
  // be an effect.
  newfunc made_by = type->tp_new;
  bool known = made_by == PyBaseObject_Type.tp_new || made_by == PyDict_Type.tp_new || made_by == PyList_Type.tp_new ||
               made_by == PyTuple_Type.tp_new || made_by == PySet_Type.tp_new || made_by == PyFrozenSet_Type.tp_new ||
               made_by == PyLong_Type.tp_new || made_by == PyFloat_Type.tp_new || made_by == PyUnicode_Type.tp_new ||
               made_by == PyODict_Type.tp_new ||
               made_by == reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_new;
  static PyObject* const dunder_new = PyUnicode_InternFromString("__new__");
  PyObject* python_new = _PyType_Lookup(type, dunder_new);
  bool python = python_new != nullptr && Py_TYPE(python_new) == &PyStaticMethod_Type;
  return (known || python) && type->tp_finalize == nullptr && type->tp_del == nullptr;
}

}  // namespace

void Recorder::record_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    std::vector<PyObject*> all{PyMethod_GET_SELF(callable)};
    all.insert(all.end(), arguments, arguments + count);
    record_method_parts(callable);
    return record_call(PyMethod_GET_FUNCTION(callable), all.data(), static_cast<Py_ssize_t>(all.size()));
  }
  std::optional<Purity> purity = purity_of(callable);
  if (PyFunction_Check(callable) && (!purity || purity == Purity::Keyed)) {
    if (!is_of_real_module(callable) && !is_disabled(callable)) {
      return;  // its frame's start is seen
    }
    AbortReason reason = is_disabled(callable) ? AbortReason::DisabledCall : AbortReason::MustRun;
    return asks_to_skip(callable) ? record_skip_request() : abort(reason, quote_call(callable, arguments, count));
  }
  bool for_torch = count > 0 && source::is_tensor(arguments[0]);
  bool by_torch = purity == Purity::Torch || (purity.has_value() && is_tensor_operation(arguments, count));
  keying_ = finds_by_address(purity, callable, arguments, count);
  for (Py_ssize_t i = 0; !computed_ && !passes_on_to_python(callable) && i < count; ++i) {
    if (by_torch) {
      give_to_torch(arguments[i]);
    } else if (for_torch || !(is_type_enough(purity, arguments[i]) || only_moves_argument(callable, arguments, i))) {
      use_deep(arguments[i]);
    }
  }
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) != nullptr) {
    use_deep(PyCFunction_GET_SELF(callable));
  }
  keying_ = false;
  record_method_parts(callable);
  if (callable == reinterpret_cast<PyObject*>(&PySuper_Type) && count == 0) {
    record_super_operands();
  }
  if (purity == Purity::Torch || purity == Purity::State) {
    opaque_ = true;  // torch's own Python code is not ours to capture: the call as a whole becomes a node
  }
  if (purity.has_value()) {
    opaque_ = opaque_ || is_tensor_operation(arguments, count);  // len(x), abs(x)
    return record_c_call(callable, *purity, arguments, count);
  }
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) != nullptr &&
      !PyModule_Check(PyCFunction_GET_SELF(callable))) {
    // A bound builtin method; the table has its function with self as the first argument.
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  if (PyType_Check(callable)) {
    return record_class_call(callable, arguments, count);
  }
  static PyObject* const partial = PyUnicode_InternFromString("functools.partial");
  if (!graph_.is_outside(callable) && PyUnicode_CompareWithASCIIString(partial, Py_TYPE(callable)->tp_name) == 0) {
    Ref<> inner = steal(PyObject_GetAttrString(callable, "func"));
    Ref<> given = steal(PyObject_GetAttrString(callable, "args"));
    PyErr_Clear();
    if (inner && given && PyTuple_Check(given.get())) {
      std::vector<PyObject*> all;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
        all.push_back(PyTuple_GET_ITEM(given.get(), i));
      }
      all.insert(all.end(), arguments, arguments + count);
      return record_call(inner.get(), all.data(), static_cast<Py_ssize_t>(all.size()));
    }
  }
  if (PyType_HasFeature(Py_TYPE(callable), Py_TPFLAGS_HEAPTYPE)) {
    static PyObject* const call = PyUnicode_InternFromString("__call__");
    PyObject* method = _PyType_Lookup(Py_TYPE(callable), call);
    if (graph_.read_type(Py_TYPE(callable)) && method != nullptr && PyFunction_Check(method)) {
      note_class_value(Py_TYPE(callable), call, method);
      if (std::optional<Purity> known = purity_of(method)) {  // an operator of torch's dispatcher
        for (Py_ssize_t i = 0; i < count; ++i) {
          give_to_torch(arguments[i]);
        }
        opaque_ = *known == Purity::Torch;
        return record_c_call(method, *known, arguments, count);
      }
      return;
    }
  }
  if (!PyCallable_Check(callable) && graph_.read_type(Py_TYPE(callable))) {
    return;  // raises TypeError
  }
  if (Py_IS_TYPE(callable, &_PyWeakref_RefType) && graph_.is_outside(callable) && count == 0) {
    return graph_.read(graph_.node_of(callable), guard::Kind::Referent, nullptr, 0, PyWeakref_GET_OBJECT(callable));
  }
  abort(AbortReason::UnknownCall, describe_callable(callable));
}

// A function that C code calls begins: a special method that is marked.
void Recorder::record_disabled_start(PyObject* function) {
  if (is_disabled(function)) {
    auto outside = std::make_shared<Trail>();  // its own frame says nothing to the user
    std::shared_ptr<const Trail> all = trail();
    for (const auto& [code, offset] : *all) {
      outside->emplace_back(share(code.get()), offset);
    }
    outside->pop_back();
    trail_ = std::move(outside);
    abort(AbortReason::DisabledCall, quote_call(function, nullptr, 0));
  }
}

void Recorder::substitute(PyObject** slot) {
  bool bound = Py_IS_TYPE(*slot, &PyMethod_Type);
  PyObject* other = substitute_of(bound ? PyMethod_GET_FUNCTION(*slot) : *slot);
  if (other == nullptr) {
    return;
  }
  graph_.add_constant(other, "fn");
  Ref<> replacement = share(other);
  if (bound) {
    record_method_parts(*slot);
    replacement = steal(PyMethod_New(other, PyMethod_GET_SELF(*slot)));
  }
  if (replacement) {
    Py_SETREF(*slot, replacement.release());
  }
  PyErr_Clear();
}

void Recorder::record_method_parts(PyObject* method) {
  int node = graph_.node_of(method);
  if (node < 0) {
    return;
  }
  static PyObject* const name = PyUnicode_InternFromString("__self__");
  if (PyObject* self = py::bound_to(method)) {
    Py_ssize_t definition = py::bound_definition_offset(method);
    graph_.read_word(node, definition, py::word_at_offset(method, definition));
    graph_.read(node, guard::Kind::Slot, name, py::bound_self_offset(method), self);
  } else if (Py_IS_TYPE(method, &PyMethod_Type)) {
    graph_.read(node, guard::Kind::MethodPart, nullptr, 0, PyMethod_GET_FUNCTION(method));
    graph_.read(node, guard::Kind::MethodPart, nullptr, 1, PyMethod_GET_SELF(method));
  }
}

// super() without arguments looks into the frame that calls it: at its first argument and at its cell `__class__`.
void Recorder::record_super_operands() {
  PyCodeObject* code = position_.frame->f_code;
  for (int i = 0; i < code->co_nlocalsplus; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    if (i == 0 || PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
      PyObject* cell = position_.frame->localsplus[i];
      cell != nullptr&& PyCell_Check(cell) ? read_cell(i) : read_base_local(i);
    }
  }
}

void Recorder::record_class_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  if (!graph_.read_type(type) || !graph_.read_type(Py_TYPE(callable))) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  static PyObject* const names[] = {PyUnicode_InternFromString("__new__"), PyUnicode_InternFromString("__init__"),
                                    PyUnicode_InternFromString("__call__")};
  for (PyObject* name : names) {
    note_class_value(type, name, _PyType_Lookup(type, name));
    PyObject* on_meta = _PyType_Lookup(Py_TYPE(callable), name);
    note_class_value(Py_TYPE(callable), name, on_meta);
  }
  PyObject* meta_call = _PyType_Lookup(Py_TYPE(callable), names[2]);
  if (meta_call != nullptr && PyFunction_Check(meta_call)) {
    return;  // the metaclass's own Python code
  }
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyExceptionClass_Check(callable)) {
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  if (!is_safe_constructor(type)) {
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  // C code that takes the arguments reads what they hold.
  for (Py_ssize_t i = 0; !passes_on_to_python(callable) && !PyExceptionClass_Check(callable) && i < count; ++i) {
    record_iteration(arguments[i]);
  }
}

void Recorder::record_c_call(PyObject* callable, Purity purity, PyObject* const* arguments, Py_ssize_t count) {
  // A builtin method bound to its object: the object is the first thing that it looks at.
  std::vector<PyObject*> all;
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self != nullptr && !PyModule_Check(self) && !PyType_Check(self)) {
      all.push_back(self);
    }
  }
  bool slot = Py_TYPE(callable) == &PyWrapperDescr_Type;
  if (is_method_wrapper(callable)) {
    slot = true;
    Ref<> self = steal(PyObject_GetAttrString(callable, "__self__"));
    PyErr_Clear();
    if (!self) {
      return abort(AbortReason::UnknownCall, describe_callable(callable));
    }
    all.push_back(self.get());  // the wrapper keeps it
    use_deep(self.get());
  }
  all.insert(all.end(), arguments, arguments + count);
  PyObject* first = all.empty() ? nullptr : all[0];
  static PyObject* const hash = PyDict_GetItemString(PyEval_GetBuiltins(), "hash");
  bool calls_back = purity == Purity::Shallow || purity == Purity::Deep || purity == Purity::Update;
  for (PyObject* argument : all) {
    if (calls_back && graph_.is_outside(argument) && is_opaque_callable(argument)) {
      return abort(AbortReason::UnknownCall, describe_callable(argument));  // C code would call what it holds
    }
  }
  switch (purity) {
    case Purity::Modes:
      mode_hidden_ = true;
      turn_mode_(false);
      [[fallthrough]];
    case Purity::Values:
    case Purity::Torch:
      for (PyObject* argument : all) {
        if (purity == Purity::Torch) {
          record_deep(argument, 0);
        } else if (source::sort_of(argument) == Sort::Object) {
          record_contents(argument);
        }
      }
      return;
    case Purity::Identity:
      if (purity_of(reinterpret_cast<PyObject*>(position_.frame->f_func)) == Purity::Identity) {
        return;  // the hash of a tensor; where the program asks for it, it does so by hash()
      }
      if (first != nullptr && (source::sort_of(first) != Sort::Pinned ||
                               (ReadGraph::has_parts(first) && !graph_.is_constant(graph_.node_of(first))))) {
        record_address(first);
      }
      return;
    case Purity::Shallow:
      for (PyObject* argument : all) {
        if (PyType_Check(callable) && !is_consumer(callable)) {
          record_iteration(argument);
        } else if (py::iterator_kind(argument) != py::IteratorKind::None) {
          record_exhaustion(argument);
        } else {
          record_iteration(argument);
        }
      }
      return;
    case Purity::Deep:
      for (PyObject* argument : all) {
        record_iteration(argument);
        record_deep(argument, 0, true);
        if (callable == hash && shows_address(argument)) {
          return abort(AbortReason::UnknownRead, "the address of an object");
        }
      }
      return;
    case Purity::Text: {
      static PyObject* const str = PyUnicode_InternFromString("__str__");
      static PyObject* const object_str = _PyType_Lookup(&PyBaseObject_Type, str);  // which asks for the __repr__
      for (PyObject* argument : all) {
        record_text(argument, 0, slot && key_of(callable) != object_str);
      }
      return;
    }
    case Purity::Length: return first ? record_length(first, slot) : void();
    case Purity::Truth:
      for (PyObject* argument : all) {
        record_truth(argument);
      }
      return;
    case Purity::ClassBody: return record_class_definition(arguments, count);
    case Purity::Primed: {
      interp::Unobserved native;
      Ref<> primed = steal(PyObject_Vectorcall(callable, arguments, static_cast<size_t>(count), nullptr));
      PyErr_Clear();
      return;
    }
    case Purity::Registry: {
      Ref<> module = steal(PyImport_ImportModule("_abc"));
      Ref<> getter = module ? steal(PyObject_GetAttrString(module.get(), "get_cache_token")) : nullptr;
      Ref<> token = getter ? steal(PyObject_CallNoArgs(getter.get())) : nullptr;
      PyErr_Clear();
      if (!token) {
        return abort(AbortReason::UnknownCall, describe_callable(callable));
      }
      graph_.read_setting(getter.get(), token.get());
      if (first != nullptr && is_of_standard_library(first)) {
        // What it has to find out it finds out now, and remembers: from the classes alone, by code that looks into them.
        interp::Unobserved native;
        Ref<> primed = steal(PyObject_Vectorcall(callable, arguments, static_cast<size_t>(count), nullptr));
        PyErr_Clear();
      }
    }
      [[fallthrough]];
    case Purity::TypeTest:
      for (PyObject* argument : all) {
        graph_.read_type(Py_TYPE(argument));
        if (PyType_Check(argument)) {
          graph_.read_type(reinterpret_cast<PyTypeObject*>(argument));
        }
        if (argument != first) {
          record_deep(argument, 0);  // classes in tuples
        }
      }
      return;
    case Purity::GetAttr:
      if (all.size() >= 2 && PyUnicode_Check(all[1])) {
        if (slot && source::sort_of(first) == Sort::Object) {
          return graph_.read_type(Py_TYPE(first)) ? record_instance_attribute(first, all[1], true)
                                                  : abort(AbortReason::UnknownRead, "a class");
        }
        return record_attribute(first, all[1]);
      }
      return abort(AbortReason::UnknownCall, describe_callable(callable));
    case Purity::GetDict: {
      static PyObject* const name = PyUnicode_InternFromString("__dict__");
      return first != nullptr ? record_attribute(first, name) : abort(AbortReason::UnknownCall, "vars()");
    }
    case Purity::SetAttr:
      if (all.size() < 2 || !PyUnicode_Check(all[1])) {
        return abort(AbortReason::UnknownCall, describe_callable(callable));
      }
      if (slot) {
        return source::is_tensor(first) || !graph_.read_type(Py_TYPE(first))
                   ? abort(AbortReason::UnsupportedTorch, "an attribute of a tensor is set")
                   : record_generic_attribute_write(first, all[1], all.size() == 2);
      }
      return record_attribute_write(first, all[1], all.size() == 2);
    case Purity::GetItem:
      return all.size() >= 2 ? record_item(first, all[1], true)
                             : abort(AbortReason::UnknownCall, describe_callable(callable));
    case Purity::Append:
    case Purity::PutItem:
    case Purity::Update:
      for (size_t i = 1; i < all.size(); ++i) {
        record_iteration(all[i]);
        if (purity == Purity::Update || (purity == Purity::PutItem && i == 1)) {
          record_key(all[i]);
        }
        if (first != nullptr && PyAnySet_Check(first)) {
          record_deep(all[i], 0, true);
        }
      }
      if (ended_ || first == nullptr) {
        return;
      }
      if (purity == Purity::PutItem && all.size() >= 2 && PyDict_Check(first)) {
        return record_item_write(first, all[1], false, true);
      }
      return record_container_write(first,
                                    purity == Purity::Append && !py::has_limit(first) ? Reach::Nothing : Reach::Whole);
    case Purity::Own:
      if (first != nullptr && is_hanging(first)) {
        return begin_hanging(first);
      }
      return first != nullptr && graph_.is_outside(first)
                 ? abort(AbortReason::WriteOutside, describe_callable(callable))
                 : void();
    case Purity::Iterator:
      for (PyObject* argument : all) {
        if (all.size() > 1 || py::iterator_kind(argument) == py::IteratorKind::None) {
          record_iteration(argument);
        }
      }
      return;
    case Purity::Advance: return first != nullptr ? record_next(first, depth_ == 1) : void();
    case Purity::Cache: return record_cache(all.data(), all.size());
    case Purity::Handled: {
      read_slot(start_->handled());
      PyObject* handled = py::topmost_handled_exception(position_.ts);
      // Of one from before, the traceback is not watched.
      return handled != nullptr && graph_.is_outside(handled)
                 ? abort(AbortReason::UnknownRead, "an exception that was there before")
                 : void();
    }
    case Purity::Item:
      if (first != nullptr && reads_items(first)) {
        return;
      }
      [[fallthrough]];
    case Purity::Real: return abort(AbortReason::MustRun, quote_call(callable, arguments, count));
    case Purity::State: return record_state_call(callable);
    case Purity::Keyed:
    case Purity::Scope: return;  // told when its frame begins
    case Purity::Inner:
      if (purity_of(reinterpret_cast<PyObject*>(position_.frame->f_func)) != Purity::Scope) {
        abort(AbortReason::UnknownCall, describe_callable(callable));
      }
      return;
    case Purity::Setting: {
      // Of a context variable: the method, bound to it.
      bool of_variable = count == 1 && PyContextVar_CheckExact(arguments[0]);
      Ref<> getter = of_variable ? steal(PyObject_GetAttrString(arguments[0], "get")) : share(callable);
      Ref<> value = count == 0 || of_variable ? steal(PyObject_CallNoArgs(getter.get())) : nullptr;
      PyErr_Clear();
      // A bare object() is a mark for "nothing".
      if (!value || (source::sort_of(value.get()) != Sort::Primitive && !Py_IS_TYPE(value.get(), &PyBaseObject_Type))) {
        return abort(AbortReason::UnknownCall, describe_callable(callable));
      }
      return graph_.read_setting(getter.get(), value.get());
    }
  }
}

// The stand-in's first argument.
std::string Recorder::describe_called_cache() const { return describe_callable(position_.frame->localsplus[0]); }

// The functions for the stand-in of functools.lru_cache: of the cache, or a link; of its dict and a key; and of a result,
// limit and how many results were made before. Limits and the like are what they were when the cache was made.
void Recorder::record_cache(PyObject* const* arguments, size_t count) {
  static PyObject* const names[] = {PyUnicode_InternFromString("results"), PyUnicode_InternFromString("__wrapped__"),
                                    PyUnicode_InternFromString("result")};
  PyObject* object = arguments[0];
  int node = graph_.node_of(object);
  if (count == 2) {
    return record_cache_search(object, arguments[1]);
  }
  if (count == 5) {
    Py_ssize_t limit = PyLong_AsSsize_t(arguments[3]);
    return record_cache_result(object, arguments[1], arguments[2], limit, PyLong_AsSsize_t(arguments[4]));
  }
  if (node < 0) {
    return;  // the trace made it
  }
  if (py::Cache* cache = py::as_cache(object)) {
    graph_.read_object(node, guard::Kind::Slot, names[0], offsetof(py::Cache, results), cache->results);
    graph_.read(node, guard::Kind::Slot, names[1], offsetof(py::Cache, function), cache->function);
  } else {
    graph_.read(node, guard::Kind::Slot, names[2], offsetof(py::CacheLink, result), py::result_of_link(object));
  }
}

// The names that the KW_NAMES in front of a call gives to its last arguments.
PyObject* Recorder::call_names() const {
  py::Instruction instruction(position_.instruction);
  bool named = instruction.op == py::Op::kKW_NAMES;
  return named ? PyTuple_GET_ITEM(position_.frame->f_code->co_consts, instruction.oparg) : nullptr;
}

void Recorder::record_vector_call(PyObject** callable, Py_ssize_t count) {
  PyObject* names = call_names();
  Py_ssize_t positional = count - (names ? PyTuple_GET_SIZE(names) : 0);
  computed_ = call_symbols(*callable, callable + 1, count);
  bool known = computed_ && !purity_of(*callable);  // it is C code, and all of it is done
  if (!known && (computed_ || !put_stand_in(callable, callable + 1, count, positional))) {
    record_call(*callable, callable + 1, count);
  }
  computed_ = false;
}

bool Recorder::put_stand_in(PyObject** callable, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t positional) {
  substitute(callable);  // what a marker says
  auto* caller = reinterpret_cast<PyObject*>(position_.frame->f_func);
  Ref<> other = stand_in_for(*callable, arguments, count, positional, caller);
  PyErr_Clear();
  bool put = static_cast<bool>(other);
  if (put) {
    record_method_parts(*callable);
    Py_SETREF(*callable, other.release());
  }
  return put;
}

void Recorder::record_star_call(PyObject** callable, PyObject** given, PyObject* kwargs) {
  if (!PyTuple_Check(*given) && !PyList_Check(*given)) {
    // C code would take its items: a stand-in does so, and makes the call.
    Ref<> all = steal(PyTuple_Pack(2, *callable, *given));
    Ref<> call = unpacking_call();
    if (!all || !call) {
      PyErr_Clear();
      return abort(AbortReason::UnsupportedInstruction, "a call with * of something that is no list or tuple");
    }
    Py_SETREF(*given, all.release());
    Py_SETREF(*callable, call.release());
    return;
  }
  PyObject* args = *given;
  record_iteration(args);
  if (kwargs != nullptr) {
    record_iteration(kwargs);
  }
  if (ended_) {
    return;
  }
  std::vector<PyObject*> all;
  for (Py_ssize_t i = 0; i < Py_SIZE(args); ++i) {
    all.push_back(PyList_Check(args) ? PyList_GET_ITEM(args, i) : PyTuple_GET_ITEM(args, i));
  }
  if (kwargs != nullptr) {
    if (!PyDict_Check(kwargs)) {
      return abort(AbortReason::UnsupportedInstruction, "a call with ** of something that is no dict");
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      all.push_back(value);
    }
  }
  if (!put_stand_in(callable, all.data(), static_cast<Py_ssize_t>(all.size()), Py_SIZE(args))) {
    record_call(*callable, all.data(), static_cast<Py_ssize_t>(all.size()));
  }
}

}  // namespace alternator::record
