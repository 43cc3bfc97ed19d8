// Where a trace stands, as the tracer sees it: the call or operator of the instruction in progress as the program wrote
// it, the frames that led there, the names that the program gives to tensors. None of it decides what is captured; it
// makes graphs that people can read.
#include <algorithm>

#include "interp/hook.h"
#include "py/frame.h"
#include "py/opcode.h"
#include "record/recorder.h"
#include "record/stand_in.h"

namespace alternator::record {

using py::Op;

namespace {

constexpr const char* kBinaryNames[] = {"add", "and_", "floordiv", "lshift", "matmul",  "mul", "mod",
                                        "or_", "pow",  "rshift",   "sub",    "truediv", "xor"};
constexpr const char* kInPlaceNames[] = {"iadd", "iand", "ifloordiv", "ilshift", "imatmul",  "imul", "imod",
                                         "ior",  "ipow", "irshift",   "isub",    "itruediv", "ixor"};
constexpr const char* kComparisonNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};

Ref<> find_operator(const char* name) {
  Ref<> module = steal(PyImport_ImportModule("operator"));
  return module ? steal(PyObject_GetAttrString(module.get(), name)) : nullptr;
}

// (operator, operands)
template <class... Operands>
Ref<> describe_operator(const char* name, Operands... operands) {
  Ref<> target = find_operator(name);
  Ref<> args = steal(PyTuple_Pack(sizeof...(operands), operands...));
  return target && args ? steal(PyTuple_Pack(3, target.get(), args.get(), Py_None)) : nullptr;
}

// A callable of the program is `function`, the one that torch dispatches: itself, or a method of it bound to an object.
bool is_call_of(PyObject* callable, PyObject* function, PyObject** self) {
  *self = nullptr;
  if (callable == function) {
    return true;
  }
  if (PyMethod_Check(callable) && PyMethod_GET_FUNCTION(callable) == function) {
    *self = PyMethod_GET_SELF(callable);
    return true;
  }
  if (PyCFunction_Check(callable) && Py_IS_TYPE(function, &PyMethodDescr_Type) &&
      reinterpret_cast<PyCFunctionObject*>(callable)->m_ml ==
          reinterpret_cast<PyMethodDescrObject*>(function)->d_method) {
    *self = PyCFunction_GET_SELF(callable);
    return *self != nullptr;
  }
  return false;
}

// Positional arguments as a tuple, `self` in front if there is one.
Ref<> pack_arguments(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Py_ssize_t extra = self != nullptr ? 1 : 0;
  Ref<> tuple = steal(PyTuple_New(count + extra));
  if (tuple && self != nullptr) {
    PyTuple_SET_ITEM(tuple.get(), 0, Py_NewRef(self));
  }
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), i + extra, Py_NewRef(arguments[i]));
  }
  return tuple;
}

Ref<> pack_call(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  Ref<> args = pack_arguments(self, arguments, count - named);
  Ref<> kwargs = steal(named > 0 ? PyDict_New() : Py_NewRef(Py_None));
  for (Py_ssize_t i = 0; kwargs && i < named; ++i) {
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(names, i), arguments[count - named + i]) < 0) {
      return nullptr;
    }
  }
  return args && kwargs ? steal(PyTuple_Pack(3, Py_None, args.get(), kwargs.get())) : nullptr;
}

// (None, args, kwargs), or None if it is a call of another function.
Ref<> describe_written_call(const py::CallSite& site, PyObject* function) {
  PyObject* self;
  if (!is_call_of(*site.callable, function, &self)) {
    return share(Py_None);
  }
  if (!site.is_star_call()) {
    return pack_call(self, site.arguments, site.count, site.names);
  }
  PyObject* args = *site.star;
  if (!PyTuple_CheckExact(args)) {
    return share(Py_None);
  }
  Ref<> all = pack_arguments(self, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args));
  PyObject* kwargs = site.keywords != nullptr ? *site.keywords : Py_None;
  return all ? steal(PyTuple_Pack(3, Py_None, all.get(), kwargs)) : nullptr;
}

}  // namespace

Ref<> Recorder::describe_call(PyObject* function) const {
  py::Step step(position_.instruction);
  int oparg = step.oparg;
  switch (step.op) {
    case Op::kBINARY_OP: {
      int number = oparg >= NB_INPLACE_ADD ? oparg - NB_INPLACE_ADD : oparg;
      // `0 += x` changes nothing in place.
      bool in_place = oparg >= NB_INPLACE_ADD && source::is_tensor(peek(2));
      return describe_operator(in_place ? kInPlaceNames[number] : kBinaryNames[number], peek(2), peek(1));
    }
    case Op::kCOMPARE_OP: return describe_operator(kComparisonNames[oparg], peek(2), peek(1));
    case Op::kBINARY_SUBSCR: return describe_operator("getitem", peek(2), peek(1));
    case Op::kSTORE_SUBSCR: return describe_operator("setitem", peek(2), peek(1), peek(3));
    case Op::kUNARY_NEGATIVE: return describe_operator("neg", peek(1));
    case Op::kUNARY_POSITIVE: return describe_operator("pos", peek(1));
    case Op::kUNARY_INVERT: return describe_operator("invert", peek(1));
    case Op::kGET_ITER:
    case Op::kUNPACK_SEQUENCE:
    case Op::kUNPACK_EX: return steal(PyTuple_Pack(3, Py_Ellipsis, Py_None, Py_None));
    case Op::kCALL:
    case Op::kCALL_FUNCTION_EX: return describe_written_call(*call_site(), function);
    default: break;
  }
  return share(Py_None);
}

std::vector<std::pair<py::Frame*, const py::CodeUnit*>> Recorder::frames_inwards() const {
  std::vector<std::pair<py::Frame*, const py::CodeUnit*>> frames;
  for (py::Frame* frame = position_.frame; frame != nullptr; frame = frame->previous) {
    if (!is_stand_in(frame->f_globals)) {
      frames.emplace_back(frame, frame == position_.frame ? position_.instruction : frame->prev_instr);
    }
    if (base_.empty() || frame == base_.front()) {
      break;
    }
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

int Recorder::current_site() {
  int site = -1;
  for (const auto& [frame, at] : frames_inwards()) {
    bool module = reinterpret_cast<PyObject*>(frame->f_code) == module_call && frame->localsplus[0] != nullptr;
    PyObject* self = module ? frame->localsplus[0] : Py_None;
    int calls = module ? module_calls_[self] : 0;
    auto [found, fresh] = site_numbers_.try_emplace({site, at, self, calls}, static_cast<int>(sites_.size()));
    if (fresh) {
      auto offset = static_cast<int>((at - py::first_instruction(frame->f_code)) * sizeof(py::CodeUnit));
      sites_.push_back(steal(Py_BuildValue("(iOiOi)", site, frame->f_code, offset, self, calls)));
    }
    site = found->second;
  }
  return site;
}

Ref<> Recorder::list_sites() const {
  Ref<> list = steal(PyList_New(0));
  for (const Ref<>& site : sites_) {
    if (!site) {
      PyErr_NoMemory();
    }
    if (!list || !site || PyList_Append(list.get(), site.get()) < 0) {
      return nullptr;
    }
  }
  return list;
}

void Recorder::show(bool guards, PyObject* spy) {
  notes_sites_ = guards;
  spy_ = share(spy);
}

void Recorder::note_sites_of_guards() {
  if (notes_sites_ && graph_.has_guards_without_site()) {
    graph_.set_site(current_site());
  }
}

void Recorder::show_instruction() {
  if (is_stand_in(position_.frame->f_globals)) {
    return;
  }
  interp::Unobserved native;
  PyObject** stack = py::stack_base(position_.frame);
  Ref<> operands = steal(PyTuple_New(position_.stack_top - stack));
  for (Py_ssize_t i = 0; operands && i < PyTuple_GET_SIZE(operands.get()); ++i) {
    const char* name = stack[i] != nullptr ? Py_TYPE(stack[i])->tp_name : "NULL";
    PyTuple_SET_ITEM(operands.get(), i, PyUnicode_FromString(name));
  }
  PyCodeObject* code = position_.frame->f_code;
  auto offset = static_cast<int>((position_.instruction - py::first_instruction(code)) * sizeof(py::CodeUnit));
  auto depth = static_cast<int>(frames_inwards().size()) - 1;
  Ref<> done =
      operands ? steal(PyObject_CallFunction(spy_.get(), "OiiO", code, offset, depth, operands.get())) : nullptr;
  if (!done) {
    PyErr_WriteUnraisable(spy_.get());
  }
}

void Recorder::note_name(PyObject* value, PyObject* name) {
  if (source::is_tensor(value) && !graph_.is_outside(value) && !is_stand_in(position_.frame->f_globals)) {
    given_names_.emplace_back(share(value), share(name));
  }
}

Ref<> Recorder::take_names() {
  if (given_names_.empty()) {
    return share(Py_None);
  }
  Ref<> list = steal(PyList_New(0));
  for (auto& [tensor, name] : std::exchange(given_names_, {})) {
    Ref<> row = steal(PyTuple_Pack(2, tensor.get(), name.get()));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return list;
}

}  // namespace alternator::record
