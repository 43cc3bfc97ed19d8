// Classes that the trace makes, by a definition or by a call of type. One needs no guard, nor does anything in it that the trace
// made; its bases and its metaclass do. It lives as long as the trace: an exit that would have to give it out, or an object of
// it, cannot be written.
//
// What C code reads to make a class is read before it runs: the bases, the metaclass, the classes of the values in its dict.
// What it calls (__prepare__, __new__, __set_name__, __init_subclass__) has to be Python code, which is seen.
#include "base/shortage.h"
#include "py/names.h"
#include "record/recorder.h"

namespace alternator::record {

using guard::Kind;

namespace {

bool is_special(PyObject* name) {
  return PyUnicode_GET_LENGTH(name) > 4 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
}

// A classmethod or staticmethod around a Python function.
bool wraps_python(PyObject* descriptor) {
  if (!Py_IS_TYPE(descriptor, &PyClassMethod_Type) && !Py_IS_TYPE(descriptor, &PyStaticMethod_Type)) {
    return false;
  }
  Ref<> function = steal(PyObject_GetAttrString(descriptor, "__func__"));
  forget_error();
  return function && PyFunction_Check(function.get());
}

// Names are looked up in it as in a plain dict.
bool finds_like_a_dict(PyObject* space) {
  PyObject* const getitem = py::names.__getitem__;
  PyObject* const missing = py::names.__missing__;
  PyTypeObject* type = Py_TYPE(space);
  return PyDict_CheckExact(space) || (_PyType_Lookup(type, getitem) == _PyType_Lookup(&PyDict_Type, getitem) &&
                                      _PyType_Lookup(type, missing) == nullptr);
}

}  // namespace

void Recorder::record_build_class() {
  PyObject* const name = py::names.__build_class__;
  PyObject* builtins = position_.frame->f_builtins;
  if (!PyDict_CheckExact(builtins)) {
    return abort(AbortReason::UnsupportedInstruction, "LOAD_BUILD_CLASS");
  }
  if (!is_fresh_globals(builtins)) {
    graph_.read(graph_.add_constant(builtins, "__builtins__"), Kind::DictItem, name, 0, py::dict_item(builtins, name));
  }
}

bool Recorder::read_base(PyObject* base) {
  PyObject* const hook = py::names.__init_subclass__;
  auto* type = reinterpret_cast<PyTypeObject*>(base);
  if (!PyType_Check(base) || !graph_.read_type(type) || !read_metaclass(Py_TYPE(base))) {
    return false;
  }
  PyObject* found = _PyType_Lookup(type, hook);
  if (found != nullptr && !wraps_python(found) && contract_of(found) == nullptr) {
    return false;
  }
  if (found != nullptr) {
    note_class_value(type, hook, found);
  }
  return !ended_;
}

bool Recorder::read_metaclass(PyTypeObject* meta) {
  PyObject* const names[] = {py::names.__new__, py::names.__init__, py::names.__prepare__, py::names.mro};
  PyObject* const call = py::names.__call__;
  auto is_known = [&](PyTypeObject* type, PyObject* name) {
    PyObject* found = _PyType_Lookup(type, name);
    note_class_value(type, name, found);
    return found == _PyType_Lookup(&PyType_Type, name) ||
           (found != nullptr && (PyFunction_Check(found) || wraps_python(found)));
  };
  if (meta == &PyType_Type) {
    return true;
  }
  bool known = PyType_IsSubtype(meta, &PyType_Type) && graph_.read_type(meta) && graph_.read_type(Py_TYPE(meta));
  for (PyObject* name : names) {
    known = known && is_known(meta, name);
  }
  // mro() gets a class that is half made.
  return known && is_known(Py_TYPE(meta), call) &&
         _PyType_Lookup(meta, names[3]) == _PyType_Lookup(&PyType_Type, names[3]) && !ended_;
}

bool Recorder::read_class_space(PyObject* space) {
  PyObject* const hook = py::names.__set_name__;
  PyObject* const cell = py::names.__classcell__;
  PyObject* const slots = py::names.__slots__;
  PyObject* const module = py::names.__module__;
  PyObject* const name = py::names.__name__;
  if (space == nullptr || !PyDict_Check(space)) {
    return false;
  }
  expose(space, Reads::Iterated);
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (!ended_ && PyDict_Next(space, &position, &key, &value)) {
    PyTypeObject* type = Py_TYPE(value);
    if (PyCell_Check(value)) {
      continue;
    }
    PyObject* method = graph_.read_type(type) ? _PyType_Lookup(type, hook) : Py_None;
    const Contract* contract = method != nullptr ? contract_of(method) : nullptr;
    bool own = contract != nullptr && contract->writes == Writes::Itself && !graph_.is_outside(value);  // a property
    if (!PyUnicode_CheckExact(key) || (method != nullptr && !PyFunction_Check(method) && !own)) {
      return false;
    }
    note_class_value(type, hook, method);
  }
  PyObject* class_cell = py::dict_item(space, cell);
  if (class_cell != nullptr && graph_.is_outside(class_cell)) {
    return false;
  }
  expose(py::dict_item(space, slots), Reads::Deep);
  if (!ended_ && py::dict_item(space, module) == nullptr) {
    record_global(name);
  }
  return !ended_;
}

// __build_class__(body, name, *bases, metaclass=.., **kwargs): the body's frame is seen when it begins.
void Recorder::record_class_definition(PyObject* const* arguments, Py_ssize_t count) {
  PyObject* const entries = py::names.__mro_entries__;
  std::optional<py::CallSite> site = call_site();
  bool known = deciding_ && site && !site->is_star_call() && site->positional() >= 2 && is_fresh_function(arguments[0]);
  Py_ssize_t positional = known ? site->positional() : 0;
  for (Py_ssize_t i = 2; known && i < positional; ++i) {
    PyObject* base = arguments[i];
    if (PyType_Check(base)) {
      known = read_base(base);
      continue;
    }
    PyObject* method = _PyType_Lookup(Py_TYPE(base), entries);
    known = PyFunction_Check(base) || (method != nullptr && PyFunction_Check(method));
    if (known) {
      record_attribute(base, entries);
    }
  }
  for (Py_ssize_t i = positional; known && i < count; ++i) {
    bool meta = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(site->names, i - positional), "metaclass") == 0;
    known = !meta || (PyType_Check(arguments[i]) && read_metaclass(reinterpret_cast<PyTypeObject*>(arguments[i])));
  }
  if (!known) {
    return abort(AbortReason::UnsupportedInstruction, "LOAD_BUILD_CLASS");
  }
  graph_.count_classes();
  class_bodies_.emplace(arguments[0], share(arguments[0]));
  defining_.push_back(position_.frame);
}

// type(name, bases, dict), type.__new__(metaclass, name, bases, dict), and calls of a metaclass.
void Recorder::record_class_making(PyObject* callable, PyObject* const* arguments, Py_ssize_t count) {
  std::optional<py::CallSite> site = call_site();
  bool by_new = !PyType_Check(callable);
  bool known = deciding_ && site && count >= 3 + by_new;
  if (known) {
    // The arguments, without those that have names.
    Py_ssize_t positional = site->is_star_call() ? Py_SIZE(*site->star) : site->positional();
    known = positional >= 3 + by_new;
  }
  PyObject* meta = known && by_new ? arguments[0] : callable;
  PyObject* bases = known ? arguments[1 + by_new] : nullptr;
  known = known && PyType_Check(meta) && read_metaclass(reinterpret_cast<PyTypeObject*>(meta)) &&
          PyUnicode_CheckExact(arguments[by_new]) && PyTuple_CheckExact(bases);
  if (known) {
    expose(bases, Reads::Iterated);
  }
  for (Py_ssize_t i = 0; known && i < PyTuple_GET_SIZE(bases); ++i) {
    known = read_base(PyTuple_GET_ITEM(bases, i));
  }
  if (!known || !read_class_space(arguments[2 + by_new])) {
    return abort(AbortReason::UnsupportedInstruction, "a class that is made by a call");
  }
  graph_.count_classes();
}

// The class is on top of the stack when its definition is over. Its bases may be others than those that were written down.
void Recorder::meet_class(const interp::Position& position) {
  if (defining_.empty() || defining_.back() != position.frame) {
    return;
  }
  defining_.pop_back();
  PyObject* made = position.stack_top > py::stack_base(position.frame) ? position.stack_top[-1] : nullptr;
  bool known = made != nullptr && PyType_Check(made) && read_metaclass(Py_TYPE(made));
  PyObject* bases = known ? reinterpret_cast<PyTypeObject*>(made)->tp_bases : nullptr;
  for (Py_ssize_t i = 0; known && i < PyTuple_GET_SIZE(bases); ++i) {
    known = read_base(PyTuple_GET_ITEM(bases, i));
  }
  if (!known) {
    abort(AbortReason::UnsupportedInstruction, "LOAD_BUILD_CLASS");
  }
}

PyObject* Recorder::class_space() const {
  PyObject* space = position_.frame->f_locals;
  bool known = space != nullptr && PyDict_Check(space) && !graph_.is_outside(space) && finds_like_a_dict(space);
  return known ? space : nullptr;
}

// Instructions of the body of a class, or of a text, on its variables.
void Recorder::record_class_body(py::Op op, int oparg) {
  PyObject* space = class_space();
  if (space == nullptr) {
    return abort(AbortReason::UnsupportedInstruction, py::op_row(op).name);
  }
  if (op == py::Op::kLOAD_NAME) {
    return record_name(name_at(oparg));
  }
  if (op == py::Op::kLOAD_CLASSDEREF) {
    PyObject* name = PyTuple_GET_ITEM(position_.frame->f_code->co_localsplusnames, oparg);
    return py::dict_item(space, name) != nullptr ? void() : read_cell(oparg);
  }
  if (!PyDict_CheckExact(space)) {
    PyObject* const annotations = py::names.__annotations__;
    PyObject* name = op == py::Op::kSETUP_ANNOTATIONS ? annotations : name_at(oparg);
    record_item_write(space, name, op == py::Op::kDELETE_NAME);
  }
  // Special names (`__slots__`) are for the C code that makes the class.
  if (!ended_ && op == py::Op::kSTORE_NAME && is_special(name_at(oparg))) {
    use_deep(peek(1));
    expose(peek(1), Reads::Deep);
  }
}

// A variable in the body of a class: its own, or a global one.
void Recorder::record_name(PyObject* name) {
  if (py::dict_item(class_space(), name) == nullptr) {
    record_global(name);
  }
}

}  // namespace alternator::record
