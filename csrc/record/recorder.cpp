#include "record/recorder.h"

#include "py/frame.h"
#include "py/members.h"
#include "py/opcode.h"

namespace alternator::record {

using interp::Position;
using interp::Verdict;
using py::Op;

void Recorder::enter(py::Frame* entry) {
  if (depth_++ == 0 && base_ == nullptr && entry->f_code == code_) {
    base_ = entry;
    graph_.add_constant(reinterpret_cast<PyObject*>(entry->f_func), "fn");
    int count = code_->co_argcount + code_->co_kwonlyargcount + ((code_->co_flags & CO_VARARGS) ? 1 : 0) +
                ((code_->co_flags & CO_VARKEYWORDS) ? 1 : 0);
    for (int i = 0; i < count; ++i) {
      entry_locals_.push_back(share(entry->localsplus[i]));
    }
  }
}

void Recorder::abort(AbortReason reason, std::string detail) {
  if (!ended_) {
    abort_ = Abort{reason, place(), std::move(detail)};
    ended_ = true;
  }
}

std::string Recorder::place() const {
  char buffer[512];
  return position_.frame ? py::describe_place(position_.frame, buffer, sizeof buffer) : "?";
}

Verdict Recorder::before_instruction(const Position& position) {
  if (ended_) {
    return Verdict::Abandon;
  }
  position_ = position;
  opaque_ = false;
  const py::CodeUnit* at = position.instruction;
  if (at == py::first_instruction(position.frame->f_code)) {
    record_frame_start();
  }
  int oparg = py::oparg_of(*at);
  while (py::canonical(*at) == Op::kEXTENDED_ARG) {
    oparg = oparg << 8 | py::oparg_of(*++at);
  }
  Op op = py::canonical(*at);
  if (op == Op::kKW_NAMES) {
    oparg = py::oparg_of(at[1]);  // of the PRECALL behind it: the count of arguments
  }
  if (op == Op::kRETURN_VALUE && position.frame == base_) {
    result_ = share(peek(1));
    ended_ = true;
  } else {
    record(op, oparg);
  }
  return ended_ ? Verdict::Abandon : opaque_ ? Verdict::Opaque : Verdict::Go;
}

// A function begins: what decides what it does, and the objects that its frame holds already.
void Recorder::record_frame_start() {
  py::Frame* frame = position_.frame;
  auto* function = frame->f_func;
  auto* object = reinterpret_cast<PyObject*>(function);
  name_arguments();
  if (reinterpret_cast<PyObject*>(frame->f_code) == module_call) {
    ++module_calls_[frame->localsplus[0]];
  }
  if (purity_of(object) == Purity::Scope) {
    record_scope_start(object);
  }
  if (!graph_.is_outside(object)) {
    return;  // made by the trace; so are its cells and defaults, or they were read when it was made
  }
  graph_.read_function(object);
  for (Py_ssize_t i = 0; function->func_closure && i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    PyObject* name = PyTuple_GET_ITEM(frame->f_code->co_localsplusnames,
                                      frame->f_code->co_nlocalsplus - PyTuple_GET_SIZE(function->func_closure) + i);
    const char* text = PyUnicode_AsUTF8(name);
    graph_.add_constant(PyTuple_GET_ITEM(function->func_closure, i), text ? text : "?");
  }
  // A default value is reached through the function, which is watched together with its tuple of defaults.
  for (Py_ssize_t i = 0; function->func_defaults && i < PyTuple_GET_SIZE(function->func_defaults); ++i) {
    PyObject* value = PyTuple_GET_ITEM(function->func_defaults, i);
    if (source::sort_of(value) != source::Sort::Primitive && !graph_.is_outside(value)) {
      graph_.add_constant(value, "default");
    }
  }
  if (function->func_kwdefaults != nullptr) {
    int node = graph_.add_constant(function->func_kwdefaults, "kwdefaults");
    graph_.read_dict_keys(node);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(function->func_kwdefaults, &position, &key, &value)) {
      graph_.read(node, guard::Kind::DictItem, key, 0, value);
    }
  }
}

void Recorder::read_place(int node, guard::Kind kind, PyObject* owner, PyObject* key, PyObject* value) {
  if (!journal_.is_noted(owner, key)) {
    graph_.read(node, kind, key, 0, value);
  }
}

void Recorder::record_write(journal::PlaceKind kind, PyObject* owner, PyObject* key) {
  int node = graph_.node_of(owner);
  if (node < 0) {
    return;  // fresh
  }
  if (journal_.is_noted(owner, key)) {
    return;
  }
  // What was there is watched: an exit that leaves it as it was has nothing to do, and a new key keeps its place.
  bool known = true;
  switch (kind) {
    case journal::PlaceKind::Attribute:
      graph_.read(node, guard::Kind::OwnAttribute, key, 0, py::own_attribute(owner, key, &known));
      break;
    case journal::PlaceKind::DictItem:
      graph_.read(node, guard::Kind::DictItem, key, 0, py::dict_item(owner, key));
      break;
    case journal::PlaceKind::Cell: graph_.read(node, guard::Kind::CellContents, nullptr, 0, PyCell_GET(owner)); break;
  }
  if (!known || !journal_.note(kind, owner, key)) {
    abort(AbortReason::WriteOutside, std::string("an object of type ") + Py_TYPE(owner)->tp_name);
  }
}

void Recorder::record_attribute_write(PyObject* object, PyObject* name, bool deletes) {
  PyTypeObject* type = Py_TYPE(object);
  if (source::is_tensor(object)) {
    return abort(AbortReason::UnsupportedTorch, "an attribute of a tensor is set");
  }
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  if (!graph_.is_outside(object) && source::sort_of(object) != source::Sort::Pinned) {
    return;  // fresh
  }
  static PyObject* const setattr = PyUnicode_InternFromString("__setattr__");
  PyObject* python_setattr = _PyType_Lookup(type, setattr);
  if (!deletes && type->tp_setattro != PyObject_GenericSetAttr && python_setattr != nullptr &&
      PyFunction_Check(python_setattr)) {
    graph_.note_class_value(type, setattr, python_setattr);
    return;  // Python code, which the loop runs
  }
  record_generic_attribute_write(object, name, deletes);
}

void Recorder::record_generic_attribute_write(PyObject* object, PyObject* name, bool deletes) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* descriptor = _PyType_Lookup(type, name);
  bool data = descriptor != nullptr && Py_TYPE(descriptor)->tp_descr_set != nullptr;
  if (data && Py_TYPE(descriptor) == &PyProperty_Type) {
    graph_.note_class_value(type, name, descriptor);
    return;  // Python code
  }
  if (!graph_.is_outside(object) && source::sort_of(object) != source::Sort::Pinned) {
    return;
  }
  if (deletes || data || source::sort_of(object) != source::Sort::Object || !py::has_managed_dict(type)) {
    return abort(AbortReason::WriteOutside, std::string("an object of type ") + type->tp_name);
  }
  record_write(journal::PlaceKind::Attribute, object, name);
}

bool Recorder::require_fresh(PyObject* object) {
  source::Sort sort = source::sort_of(object);
  if (graph_.is_outside(object) || sort == source::Sort::Pinned) {
    abort(AbortReason::WriteOutside, std::string("an object of type ") + Py_TYPE(object)->tp_name);
    return false;
  }
  return true;
}

namespace {

// The operands that decide who executes an instruction: with a tensor among them, torch's own code does.
int count_deciding_operands(Op op) {
  switch (op) {
    case Op::kBINARY_OP:
    case Op::kCOMPARE_OP:
    case Op::kBINARY_SUBSCR:
    case Op::kCONTAINS_OP:
    case Op::kSTORE_SUBSCR: return 2;
    case Op::kUNARY_NEGATIVE:
    case Op::kUNARY_POSITIVE:
    case Op::kUNARY_INVERT:
    case Op::kUNARY_NOT:
    case Op::kPOP_JUMP_FORWARD_IF_FALSE:
    case Op::kPOP_JUMP_FORWARD_IF_TRUE:
    case Op::kPOP_JUMP_BACKWARD_IF_FALSE:
    case Op::kPOP_JUMP_BACKWARD_IF_TRUE:
    case Op::kJUMP_IF_FALSE_OR_POP:
    case Op::kJUMP_IF_TRUE_OR_POP:
    case Op::kLOAD_ATTR:
    case Op::kLOAD_METHOD:
    case Op::kGET_ITER:
    case Op::kUNPACK_SEQUENCE:
    case Op::kUNPACK_EX: return 1;
    default: return 0;
  }
}

}  // namespace

void Recorder::record(Op op, int oparg) {
  int deciding = count_deciding_operands(op);
  opaque_ = is_tensor_operation(position_.stack_top - deciding, deciding);
  switch (op) {
    case Op::kLOAD_FAST:
      if (position_.frame == base_ && oparg < static_cast<int>(entry_locals_.size()) &&
          base_->localsplus[oparg] == entry_locals_[oparg].get()) {
        graph_.read_local(oparg, PyTuple_GET_ITEM(code_->co_localsplusnames, oparg), base_->localsplus[oparg]);
      }
      return;
    case Op::kMAKE_CELL:
      // An argument that becomes a cell: read now, the cell itself is fresh.
      if (position_.frame == base_ && oparg < static_cast<int>(entry_locals_.size())) {
        graph_.read_local(oparg, PyTuple_GET_ITEM(code_->co_localsplusnames, oparg), base_->localsplus[oparg]);
      }
      return;
    case Op::kLOAD_DEREF: {
      PyObject* cell = position_.frame->localsplus[oparg];
      if (int node = graph_.node_of(cell); node >= 0) {
        read_place(node, guard::Kind::CellContents, cell, nullptr, PyCell_GET(cell));
      }
      return;
    }
    case Op::kSTORE_DEREF:
      note_name(peek(1), PyTuple_GET_ITEM(position_.frame->f_code->co_localsplusnames, oparg));
      return record_write(journal::PlaceKind::Cell, position_.frame->localsplus[oparg], nullptr);
    case Op::kDELETE_DEREF: require_fresh(position_.frame->localsplus[oparg]); return;
    case Op::kLOAD_GLOBAL: return record_global(name_at(oparg >> 1));
    case Op::kSTORE_GLOBAL:
      graph_.add_constant(position_.frame->f_globals, "G");
      return record_write(journal::PlaceKind::DictItem, position_.frame->f_globals, name_at(oparg));
    case Op::kDELETE_GLOBAL: return abort(AbortReason::WriteOutside, "a global variable is deleted");
    case Op::kLOAD_ATTR:
    case Op::kLOAD_METHOD: return record_attribute(peek(1), name_at(oparg));
    case Op::kSTORE_ATTR:
    case Op::kDELETE_ATTR: return record_attribute_write(peek(1), name_at(oparg), op == Op::kDELETE_ATTR);
    case Op::kBINARY_SUBSCR: return record_item(peek(2), peek(1));
    case Op::kSTORE_SUBSCR:
    case Op::kDELETE_SUBSCR:
      if (source::is_tensor(peek(2))) {
        return;
      }
      if (op == Op::kSTORE_SUBSCR && PyDict_CheckExact(peek(2)) && PyUnicode_CheckExact(peek(1))) {
        return record_write(journal::PlaceKind::DictItem, peek(2), peek(1));
      }
      require_fresh(peek(2));
      return;
    case Op::kBINARY_OP: return record_binary(peek(2), peek(1), oparg >= NB_INPLACE_ADD);
    case Op::kUNARY_NEGATIVE:
    case Op::kUNARY_POSITIVE:
    case Op::kUNARY_INVERT: return record_binary(peek(1), peek(1), false);
    case Op::kCOMPARE_OP: return record_comparison(peek(2), peek(1));
    case Op::kIS_OP: return record_identity(peek(2), peek(1));
    case Op::kCONTAINS_OP: return record_membership(peek(1), peek(2));
    case Op::kUNARY_NOT:
    case Op::kPOP_JUMP_FORWARD_IF_FALSE:
    case Op::kPOP_JUMP_FORWARD_IF_TRUE:
    case Op::kPOP_JUMP_BACKWARD_IF_FALSE:
    case Op::kPOP_JUMP_BACKWARD_IF_TRUE:
    case Op::kJUMP_IF_FALSE_OR_POP:
    case Op::kJUMP_IF_TRUE_OR_POP: return record_truth(peek(1));
    case Op::kGET_ITER:
    case Op::kGET_YIELD_FROM_ITER:
    case Op::kUNPACK_SEQUENCE:
    case Op::kUNPACK_EX:
    case Op::kLIST_EXTEND:
    case Op::kSET_UPDATE:
    case Op::kDICT_UPDATE:
    case Op::kDICT_MERGE: return record_iteration(peek(1));
    case Op::kFOR_ITER:
      if (graph_.is_outside(peek(1))) {
        abort(AbortReason::IteratorOutside, Py_TYPE(peek(1))->tp_name);
      }
      return;
    case Op::kCALL:
    case Op::kKW_NAMES: {
      PyObject* const* arguments = position_.stack_top - oparg;
      PyObject* method = arguments[-2];
      return method != nullptr ? record_call(method, arguments - 1, oparg + 1)
                               : record_call(arguments[-1], arguments, oparg);
    }
    case Op::kCALL_FUNCTION_EX: {
      bool has_kwargs = oparg & 1;
      return record_star_call(peek(has_kwargs ? 3 : 2), peek(has_kwargs ? 2 : 1), has_kwargs ? peek(1) : nullptr);
    }
    case Op::kSTORE_FAST:
      return note_name(peek(1), PyTuple_GET_ITEM(position_.frame->f_code->co_localsplusnames, oparg));
    case Op::kWITH_EXCEPT_START: return record_context_exit(peek(4));
    case Op::kBEFORE_WITH:
      record_context_enter(peek(1));
      if (!graph_.read_type(Py_TYPE(peek(1)))) {
        abort(AbortReason::UnknownRead, "a class");
      }
      if (!PyType_HasFeature(Py_TYPE(peek(1)), Py_TPFLAGS_HEAPTYPE)) {
        abort(AbortReason::UnknownCall, std::string(Py_TYPE(peek(1))->tp_name) + ".__enter__");
      }
      return;
    case Op::kFORMAT_VALUE:
      if (source::sort_of(peek(oparg & 4 ? 2 : 1)) != source::Sort::Primitive) {
        abort(AbortReason::UnknownRead, "an object is formatted");
      }
      return;
    case Op::kIMPORT_NAME: return record_import(name_at(oparg), peek(2));
    case Op::kIMPORT_FROM: return record_attribute(peek(1), name_at(oparg));
    case Op::kLOAD_NAME:
    case Op::kSTORE_NAME:
    case Op::kDELETE_NAME:
    case Op::kLOAD_CLASSDEREF:
    case Op::kLOAD_BUILD_CLASS:
    case Op::kSETUP_ANNOTATIONS:
    case Op::kIMPORT_STAR:
    case Op::kPRINT_EXPR:
    case Op::kMATCH_CLASS:
    case Op::kMATCH_KEYS:
    case Op::kCHECK_EG_MATCH:
    case Op::kPREP_RERAISE_STAR:
    case Op::kBEFORE_ASYNC_WITH:
    case Op::kGET_AITER:
    case Op::kGET_ANEXT:
    case Op::kGET_AWAITABLE:
    case Op::kASYNC_GEN_WRAP:
    case Op::kEND_ASYNC_FOR: return abort(AbortReason::UnsupportedInstruction, py::op_row(op).name);
    case Op::kGET_LEN: return record_length(peek(1));
    case Op::kSEND:
      if (graph_.is_outside(peek(2))) {
        abort(AbortReason::IteratorOutside, Py_TYPE(peek(2))->tp_name);
      }
      return;
    default: return;  // the stack, fast locals, jumps, building of containers, raising and catching
  }
}

}  // namespace alternator::record
