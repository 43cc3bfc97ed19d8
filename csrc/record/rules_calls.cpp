// What calls read and write. Python functions are entered by the loop; C functions need a contract.
#include <cstring>

#include "base/shortage.h"
#include "interp/hook.h"
#include "py/body.h"
#include "py/generator.h"
#include "py/iterator.h"
#include "py/lru_cache.h"
#include "py/names.h"
#include "record/callable.h"
#include "record/recorder.h"
#include "record/stand_in.h"

namespace alternator::record {

using source::Sort;

namespace {

bool is_safe_constructor(PyTypeObject* type) {
  // Classes of the program: object's, a builtin container's or an exception's memory, then Python code. A finaliser would
  // be an effect.
  newfunc made_by = type->tp_new;
  bool known = made_by == PyBaseObject_Type.tp_new || made_by == PyDict_Type.tp_new || made_by == PyList_Type.tp_new ||
               made_by == PyTuple_Type.tp_new || made_by == PySet_Type.tp_new || made_by == PyFrozenSet_Type.tp_new ||
               made_by == PyLong_Type.tp_new || made_by == PyFloat_Type.tp_new || made_by == PyUnicode_Type.tp_new ||
               made_by == PyODict_Type.tp_new ||
               made_by == reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_new;
  PyObject* const dunder_new = py::names.__new__;
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
  const Contract* contract = contract_of(callable);
  bool keyed = contract != nullptr && contract->recorded_by == RecordedBy::Keyed;
  if (PyFunction_Check(callable) && (contract == nullptr || keyed)) {
    if (!is_of_real_module(callable) && !is_disabled(callable)) {
      return;  // its frame's start is seen
    }
    AbortReason reason = is_disabled(callable) ? AbortReason::DisabledCall : AbortReason::MustRun;
    return asks_to_skip(callable) ? record_skip_request() : abort(reason, quote_call(callable, arguments, count));
  }
  use_arguments(callable, contract, arguments, count);
  record_method_parts(callable);
  if (callable == reinterpret_cast<PyObject*>(&PySuper_Type) && count == 0) {
    record_super_operands();
  }
  if (contract != nullptr) {
    bool by_torch = contract->recorded_by == RecordedBy::Torch || contract->recorded_by == RecordedBy::State;
    // Torch's own Python code is not ours to capture: the call as a whole becomes a node. len(x), abs(x) likewise.
    opaque_ = opaque_ || by_torch || is_tensor_operation(arguments, count);
    return record_c_call(callable, *contract, arguments, count);
  }
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) != nullptr &&
      !PyModule_Check(PyCFunction_GET_SELF(callable))) {
    // A bound builtin method; the table has its function with self as the first argument.
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  if (PyType_Check(callable)) {
    return record_class_call(callable, arguments, count);
  }
  record_object_call(callable, arguments, count);
}

// An object that is no function and no class.
void Recorder::record_object_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  PyObject* const partial = py::names.functools_partial;
  if (!graph_.is_outside(callable) && PyUnicode_CompareWithASCIIString(partial, Py_TYPE(callable)->tp_name) == 0) {
    Ref<> inner = steal(PyObject_GetAttrString(callable, "func"));
    Ref<> given = steal(PyObject_GetAttrString(callable, "args"));
    forget_error();
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
    PyObject* const call = py::names.__call__;
    PyObject* method = _PyType_Lookup(Py_TYPE(callable), call);
    if (graph_.read_type(Py_TYPE(callable)) && method != nullptr && PyFunction_Check(method)) {
      note_class_value(Py_TYPE(callable), call, method);
      if (const Contract* known = contract_of(method)) {  // an operator of torch's dispatcher
        for (Py_ssize_t i = 0; i < count; ++i) {
          give_to_torch(arguments[i]);
        }
        opaque_ = known->recorded_by == RecordedBy::Torch;
        return record_c_call(method, *known, arguments, count);
      }
      return;
    }
  }
  if (!PyCallable_Check(callable) && graph_.read_type(Py_TYPE(callable))) {
    return use(callable);  // raises TypeError
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
  forget_error();
}

void Recorder::record_method_parts(PyObject* method) {
  int node = graph_.node_of(method);
  if (node < 0) {
    return;
  }
  PyObject* const name = py::names.__self__;
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
  PyObject* const names[] = {py::names.__new__, py::names.__init__, py::names.__call__};
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
  if (PyType_IsSubtype(type, &PyType_Type)) {
    return record_class_making(callable, arguments, count);
  }
  if (!is_safe_constructor(type)) {
    return abort(AbortReason::UnknownCall, describe_callable(callable));
  }
  // C code that takes the arguments reads what they hold. Exceptions keep them as they are.
  for (Py_ssize_t i = 0; !passes_on_to_python(callable) && !PyExceptionClass_Check(callable) && i < count; ++i) {
    expose(arguments[i], Reads::Iterated);
    expose(arguments[i], Reads::Compared);
  }
}

// The stand-in's first argument.
std::string Recorder::describe_called_cache() const { return describe_callable(position_.frame->localsplus[0]); }

// The functions for the stand-in of functools.lru_cache: of the cache, or a link; of its dict and a key; and of a result,
// limit and how many results were made before. Limits and the like are what they were when the cache was made.
void Recorder::record_cache(PyObject* const* arguments, size_t count) {
  PyObject* const names[] = {py::names.results, py::names.__wrapped__, py::names.result};
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

std::optional<py::CallSite> Recorder::call_site() const {
  return py::CallSite::at(position_.instruction, position_.frame->f_code, position_.stack_top);
}

void Recorder::record_vector_call(const py::CallSite& site) {
  computed_ = site.names == nullptr && call_symbols(*site.callable, site.arguments, site.count);
  bool known = computed_ && contract_of(*site.callable) == nullptr;  // it is C code, and all of it is done
  if (!known &&
      (computed_ || !put_stand_in(site.callable, site.arguments, site.count, site.positional(), site.names))) {
    record_call(*site.callable, site.arguments, site.count);
  }
  computed_ = false;
}

// True if the call is done with: another callable stands in its place, or the trace ends here.
bool Recorder::put_stand_in(PyObject** callable, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t positional,
                            PyObject* names) {
  substitute(callable);  // what a marker says
  auto* caller = reinterpret_cast<PyObject*>(position_.frame->f_func);
  std::optional<Ref<>> other = stand_in_for(*callable, arguments, count, positional, names, caller);
  forget_error();
  if (!other) {  // the genuine error says whose arguments they are
    abort(AbortReason::UnsupportedInstruction,
          "a call of " + describe_callable(*callable) + " with arguments that it does not take");
    return true;
  }
  bool put = static_cast<bool>(*other);
  if (put) {
    record_method_parts(*callable);
    Py_SETREF(*callable, other->release());
  }
  return put;
}

void Recorder::record_star_call(const py::CallSite& site) {
  PyObject* args = *site.star;
  bool tuple = PyTuple_Check(args) && Py_TYPE(args)->tp_iter == PyTuple_Type.tp_iter;
  if (!tuple && !(PyList_Check(args) && Py_TYPE(args)->tp_iter == PyList_Type.tp_iter)) {
    if (Py_TYPE(args)->tp_iter == nullptr && !PySequence_Check(args)) {
      return abort(AbortReason::UnsupportedInstruction, "a call with * of something that has no items");
    }
    // C code would take its items: a stand-in does so, and makes the call.
    Ref<> all = steal(PyTuple_Pack(2, *site.callable, args));
    Ref<> call = unpacking_call();
    if (!all || !call) {
      forget_error();
      return abort(AbortReason::UnsupportedInstruction, "a call with * of something that is no list or tuple");
    }
    Py_SETREF(*site.star, all.release());
    Py_SETREF(*site.callable, call.release());
    return;
  }
  expose(args, Reads::Iterated);
  PyObject* kwargs = site.keywords != nullptr ? *site.keywords : nullptr;
  if (kwargs != nullptr) {
    expose(kwargs, Reads::Iterated);
  }
  if (ended_) {
    return;
  }
  std::vector<PyObject*> all;
  for (Py_ssize_t i = 0; i < Py_SIZE(args); ++i) {
    all.push_back(tuple ? PyTuple_GET_ITEM(args, i) : PyList_GET_ITEM(args, i));
  }
  if (kwargs != nullptr) {
    if (!PyDict_Check(kwargs) || Py_TYPE(kwargs)->tp_iter != PyDict_Type.tp_iter) {
      return abort(AbortReason::UnsupportedInstruction, "a call with ** of something that is no dict");
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      all.push_back(value);
    }
  }
  Ref<> names = kwargs != nullptr ? steal(PySequence_Tuple(kwargs)) : Ref<>();
  if (kwargs != nullptr && !names) {
    forget_error();
    return abort(AbortReason::OutOfResources, "MemoryError");
  }
  if (!put_stand_in(site.callable, all.data(), static_cast<Py_ssize_t>(all.size()), Py_SIZE(args), names.get())) {
    record_call(*site.callable, all.data(), static_cast<Py_ssize_t>(all.size()));
  }
}

}  // namespace alternator::record
