// Classes that are defined in the function. One that the trace made needs no guard, but its bases do; it lives as long as the
// trace, and an exit that would have to give it out, or an object of it, cannot be written.
#include "record/recorder.h"

namespace alternator::record {

using guard::Kind;

namespace {

// Making a subclass of it runs no code of the program's.
bool is_plain_base(PyObject* base) {
  static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
  if (!Py_IS_TYPE(base, &PyType_Type)) {
    return false;  // a metaclass, or something with __mro_entries__
  }
  PyObject* found = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), hook);
  return found == nullptr || !Py_IS_TYPE(found, &PyClassMethod_Type);
}

bool is_special(PyObject* name) {
  return PyUnicode_GET_LENGTH(name) > 4 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
}

}  // namespace

void Recorder::record_build_class() {
  static PyObject* const name = PyUnicode_InternFromString("__build_class__");
  PyObject* builtins = position_.frame->f_builtins;
  if (!PyDict_CheckExact(builtins)) {
    return abort(AbortReason::UnsupportedInstruction, "LOAD_BUILD_CLASS");
  }
  graph_.read(graph_.add_constant(builtins, "__builtins__"), Kind::DictItem, name, 0, py::dict_item(builtins, name));
}

// __build_class__(body, name, *bases): the body's frame is seen when it begins.
void Recorder::record_class_definition(PyObject* const* arguments, Py_ssize_t count) {
  std::optional<py::CallSite> site = call_site();
  bool plain = deciding_ && count >= 2 && site && site->names == nullptr && !site->is_star_call() &&
               is_fresh_function(arguments[0]);
  for (Py_ssize_t i = 2; plain && i < count; ++i) {
    plain = is_plain_base(arguments[i]) && graph_.read_type(reinterpret_cast<PyTypeObject*>(arguments[i]));
  }
  if (!plain) {
    return abort(AbortReason::UnsupportedInstruction, "LOAD_BUILD_CLASS");
  }
  defining_.push_back(position_.frame);
}

// The class is on top of the stack when its definition is over.
void Recorder::meet_class(const interp::Position& position) {
  if (defining_.empty() || defining_.back() != position.frame) {
    return;
  }
  defining_.pop_back();
  if (position.stack_top > py::stack_base(position.frame) && PyType_Check(position.stack_top[-1])) {
    graph_.add_fresh_class(position.stack_top[-1]);
  }
}

PyObject* Recorder::class_space() const {
  PyObject* space = position_.frame->f_locals;
  return space != nullptr && PyDict_CheckExact(space) && !graph_.is_outside(space) ? space : nullptr;
}

// Instructions of the body of a class, on its variables.
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
  // Special names (`__slots__`) are for the C code that makes the class.
  if (op == py::Op::kSTORE_NAME && is_special(name_at(oparg))) {
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
