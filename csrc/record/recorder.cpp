#include "record/recorder.h"

#include "base/shortage.h"
#include "record/stand_in.h"

#include <algorithm>

#include "interp/watch.h"
#include "py/frame.h"
#include "py/generator.h"
#include "py/instance.h"
#include "py/iterator.h"
#include "py/members.h"
#include "py/names.h"
#include "py/opcode.h"
#include "record/fault.h"

namespace alternator::record {

using interp::Position;
using interp::Verdict;
using py::Op;

namespace {

// Instructions after which a trace ends at the next turn of a loop.
constexpr int64_t kLongTrace = 300000;

// Of the exception that is set, which stays set: "TypeError: .."
std::string error_text() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref<> text = steal(value ? PyObject_Str(value) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  forget_error();
  std::string name = type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "?";
  PyErr_Restore(type, value, traceback);
  return name + ": " + (utf8 ? utf8 : "?");
}

}  // namespace

void Recorder::enter(py::Frame* entry) {
  ++depth_;
  if (depth_ > 1 && is_stand_in(entry->f_globals)) {
    standing_in_.push_back(depth_);
  }
}

void Recorder::leave() {
  if (!standing_in_.empty() && standing_in_.back() == depth_) {
    standing_in_.pop_back();
    bool exhausted = PyErr_Occurred() == PyExc_StopIteration || PyErr_Occurred() == PyExc_GeneratorExit;
    if (PyErr_Occurred() && !exhausted && !ended_) {
      abort(AbortReason::RaisedByC, "");  // .. with its own words and traceback
    }
  }
  --depth_;
}

// The first instruction: the frames are in place.
void Recorder::begin() {
  for (py::Frame* frame = position_.frame;; frame = frame->previous) {
    base_.insert(base_.begin(), frame);
    if (frame == position_.entry) {
      break;
    }
  }
  kept_frames_ = base_.size();
  for (size_t i = kept_frames_; i < start_->frames().size(); ++i) {
    base_.push_back(py::frame_of(start_->generator_of(i)));
    const FrameSlots& slots = start_->frames()[i];
    lowest_.resize(i + 1);
    lowest_[i] = slots.end - slots.stack;
  }
  begun_.resize(base_.size());
  lowest_.resize(base_.size());
  for (size_t i = 0; i < kept_frames_; ++i) {
    begun_[i] = true;
    const FrameSlots& slots = start_->frames()[i];
    lowest_[i] = slots.end - slots.stack;
    if (slots.offset == 0) {
      graph_.add_constant(reinterpret_cast<PyObject*>(base_[i]->f_func), "fn");
    } else if (recorder_of(reinterpret_cast<PyObject*>(base_[i]->f_func)) == RecordedBy::Scope) {
      return abort(AbortReason::UnsupportedTorch, "the middle of a scope of torch's state");
    }
    for (int slot = slots.stack; slot < slots.end; ++slot) {
      read_slot(slot);  // instructions take their operands from there without further ado
    }
    if (start_->generator_of(i) != nullptr) {
      read_slot(slots.function +
                2);  // the exception that is handled in it or in what it called: a bare `raise` takes it
    }
  }
  if (start_->frames()[kept_frames_ - 1].offset != 0) {
    read_slot(start_->handled());
  }
  drops_.begin(*start_, graph_, journal_);
}

// The first instruction of a generator that hung on the frames.
void Recorder::begin_generator(int base) {
  if (base < 0 || begun_[base]) {
    return;
  }
  begun_[base] = true;
  const FrameSlots& slots = start_->frames()[base];
  for (int slot = slots.stack; slot < slots.end; ++slot) {
    read_slot(slot);
  }
  for (int part = 0; part < 3; ++part) {
    read_slot(slots.function + part);
  }
}

void Recorder::begin_hanging(PyObject* generator) {
  begin_generator(start_->frame_of(generator));
  for (PyObject* value : py::generator_state(reinterpret_cast<PyGenObject*>(generator)).stack) {
    if (value != nullptr && is_hanging(value)) {
      begin_hanging(value);
    }
  }
}

int Recorder::base_index(const py::Frame* frame) const {
  for (size_t i = base_.size(); i-- > 0;) {
    // A generator's frame is there as long as the generator, and comes back after a yield.
    if (base_[i] == frame && (i < kept_frames_ || py::is_generator_frame(frame))) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void Recorder::read_slot(int slot) {
  if (read_slots_[slot] || start_->has_copy(slot)) {
    return;
  }
  if (!varying_.empty() && varying_[slot]) {
    return abort(AbortReason::VaryingClass, start_->name_of(slot));
  }
  read_slots_[slot] = true;
  Ref<> name = steal(PyUnicode_FromString(start_->name_of(slot).c_str()));
  graph_.read_local(slot, name.get(), start_->at(slot));
}

void Recorder::read_base_local(int index) {
  int base = base_index(position_.frame);
  if (base < 0) {
    return;
  }
  int slot = start_->frames()[base].locals + index;
  if (!written_slots_[slot] && start_->at(slot) != nullptr) {
    read_slot(slot);
  }
}

// Keeps track of which of the first frames are still there and what of them was touched.
void Recorder::follow_frames(Op op, int oparg) {
  int base = base_index(position_.frame);
  if (base < 0) {
    return;
  }
  int depth = static_cast<int>(position_.stack_top - py::stack_base(position_.frame));
  lowest_[base] = std::min(lowest_[base], depth - py::count_touched(op, oparg));
  switch (op) {
    case Op::kSTORE_FAST:
    case Op::kDELETE_FAST:
    case Op::kMAKE_CELL: written_slots_[start_->frames()[base].locals + oparg] = true; break;
    case Op::kCOPY_FREE_VARS: {
      const FrameSlots& slots = start_->frames()[base];
      for (int i = 0; i < oparg; ++i) {
        written_slots_[slots.stack - 1 - i] = true;
      }
      break;
    }
    default: break;
  }
}

int Recorder::untouched_slot(size_t frame, int index, PyObject* value) const {
  if (frame >= start_->frames().size() || (frame >= kept_frames_ && start_->generator_of(frame) == nullptr)) {
    return -1;
  }
  const FrameSlots& slots = start_->frames()[frame];
  int slot = slots.locals + index;
  if (slot < slots.stack) {
    return written_slots_[slot] ? -1 : slot;
  }
  bool same = slot < slots.end && slot - slots.stack < lowest_[frame];
  return same && (value == start_->at(slot) || start_->slot_of_copy(value) == slot) ? slot : -1;
}

void Recorder::abort(AbortReason reason, std::string detail) {
  if (ended_) {
    return;
  }
  end();
  abort_ = Abort{reason, place_, std::move(detail), trail_};
  if (deciding_ && depth_ == 1) {
    stopped_ = interp::take_snapshot(position_);
  }
}

// Our own code lacked memory or stack: what it found out may be wrong, also if that has ended the trace already.
void Recorder::meet_shortage() {
  if (PyObject* error = PyErr_Occurred(); error != nullptr && is_shortage(error)) {
    forget_error();
  }
  if (count_shortages() != shortages_) {
    end();
    abort_ = Abort{AbortReason::OutOfResources, place_, "", trail_};
    stopped_.reset();
  }
}

void Recorder::end() {
  keep_place();
  ended_ = true;
}

// A body's first instruction is the one behind RETURN_GENERATOR.
void Recorder::note_generator() {
  const py::CodeUnit* at = position_.instruction;
  if (at == py::first_instruction(position_.frame->f_code) || py::canonical(at[-1]) != Op::kRETURN_GENERATOR) {
    return;
  }
  auto* generator = reinterpret_cast<PyObject*>(py::generator_of(position_.frame));
  record_frame_start();  // what is in front of it ran in CPython's loop
  if (start_->frame_of(generator) < 0) {
    globals_node(position_.frame->f_globals);
    generators_.push_back(steal(PyWeakref_NewRef(generator, nullptr)));
    forget_error();
  }
}

void Recorder::empty_generators() {
  std::vector<Ref<>> alive;  // all of them, until the last is empty: they may hold each other
  for (const Ref<>& reference : generators_) {
    PyObject* generator = reference ? PyWeakref_GET_OBJECT(reference.get()) : Py_None;
    if (generator != Py_None) {
      alive.push_back(share(generator));
    }
  }
  for (const Ref<>& generator : alive) {
    py::empty_generator(reinterpret_cast<PyGenObject*>(generator.get()));
  }
}

// Generators that die with the outermost frame are closed: what their `finally` does is part of the trace.
void Recorder::drop_generators(py::Frame* frame) {
  const Position here = position_;
  deciding_ = false;
  for (int i = 0; i < frame->f_code->co_nlocalsplus && !ended_; ++i) {
    PyObject* local = frame->localsplus[i];
    if (local != nullptr && PyGen_CheckExact(local) && Py_REFCNT(local) == 1 && !graph_.is_outside(local)) {
      // Not by dropping it: CPython would print what goes wrong in there, a trace that ends among it.
      Ref<> generator = steal(std::exchange(frame->localsplus[i], nullptr));
      Ref<> closed = steal(PyObject_CallMethod(generator.get(), "close", nullptr));
      if (!closed && !ended_) {
        abort(AbortReason::GeneratorEnd, "");
      }
      forget_error();
    }
  }
  position_ = here;
}

void Recorder::end_with_exception() {
  meet_shortage();
  if (!ended_) {
    abort_ = Abort{AbortReason::UserException, place(), "", trail()};
    ended_ = true;
  }
}

std::string Recorder::place() const {
  if (!place_.empty()) {
    return place_;
  }
  auto frames = frames_inwards();
  char buffer[512];
  return frames.empty() ? "?" : py::describe_place(frames.back().first, buffer, sizeof buffer);
}

void Recorder::keep_place() {
  trail_ = trail();
  place_ = place();
}

// Where the exception comes from: frames that it leaves are gone later on, and a handler that lets it pass (`with`, `finally`)
// raises it a second time.
void Recorder::keep_place_of_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type != nullptr && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE)) {
    PyErr_NormalizeException(&type, &value, &traceback);  // as a handler will; of a class that is C code
  }
  bool was_raised = traceback != nullptr || (value != nullptr && PyExceptionInstance_Check(value) &&
                                             reinterpret_cast<PyBaseExceptionObject*>(value)->traceback != nullptr);
  PyErr_Restore(type, value, traceback);
  if (value != nullptr && value == raised_ && was_raised) {
    trail_ = raised_trail_;
    place_ = raised_place_;
    return;
  }
  keep_place();
  raised_ = value;
  raised_trail_ = trail_;
  raised_place_ = place_;
}

std::shared_ptr<const Trail> Recorder::trail() const {
  if (trail_ != nullptr) {
    return trail_;
  }
  auto trail = std::make_shared<Trail>();
  for (const auto& [frame, at] : frames_inwards()) {
    auto offset = static_cast<int>((at - py::first_instruction(frame->f_code)) * sizeof(py::CodeUnit));
    trail->emplace_back(share(reinterpret_cast<PyObject*>(frame->f_code)), offset);
  }
  return trail;
}

Verdict Recorder::before_instruction(const Position& position) {
  show_mode();
  if (ended_) {
    return Verdict::Abandon;
  }
  if (made_function_ && position.stack_top > py::stack_base(position.frame) &&
      PyFunction_Check(position.stack_top[-1])) {
    fresh_functions_.emplace(position.stack_top[-1], share(position.stack_top[-1]));
  }
  made_function_ = false;
  meet_result(position);
  meet_awaited(position);
  position_ = position;
  place_.clear();
  trail_.reset();
  if (py::is_generator_frame(position.frame)) {
    note_generator();
  }
  opaque_ = false;
  deciding_ = true;
  if (base_.empty()) {
    begin();
  }
  int base = base_index(position_.frame);
  if (depth_ == 1) {
    if (base >= 0) {
      // Those above it have returned. Known before anything can end the trace.
      kept_frames_ = std::min(kept_frames_, static_cast<size_t>(base) + 1);
    }
    if (stop_ && number_ == stop_->number) {
      abort_ = stop_->reason;
      stopped_ = interp::take_snapshot(position_);
      end();
      return Verdict::Abandon;
    }
    ++number_;
    interp::add_to_path(position);
    if (!drops_.is_idle() && meet_dropped()) {
      return Verdict::Abandon;
    }
  } else if (++nested_ > kLongTrace) {
    abort(AbortReason::LongTrace, "inside a builtin function; maybe an infinite generator");
    return Verdict::Abandon;
  }
  begin_generator(base);
  meet_class(position);
  if (ended_) {
    return Verdict::Abandon;
  }
  if (current_fault != nullptr && meet_fault()) {
    return ended_ ? Verdict::Abandon : Verdict::Raise;
  }
  if (spy_) {
    show_instruction();
    if (py::is_traced(position.ts)) {
      abort(AbortReason::UnsupportedInstruction, "a listener switched a profiler on");
      return Verdict::Abandon;
    }
  }
  py::Step step(position.instruction);
  auto [op, oparg] = std::pair(step.op, step.oparg);
  if (position.instruction == py::first_instruction(position.frame->f_code)) {
    record_frame_start();
    if (ended_) {
      return Verdict::Abandon;
    }
  }
  if (op == Op::kRETURN_VALUE && depth_ == 1 && position.frame == position.entry) {
    drop_generators(position.frame);
    if (!ended_) {
      result_ = share(peek(1));
      end();
    }
  } else {
    use_operands(op, oparg);
    if (!ended_) {
      record(op, oparg);
    }
    if (!ended_) {
      follow_frames(op, oparg);
    }
  }
  note_sites_of_guards();
  meet_shortage();
  deciding_ = false;
  torch_steps_ += opaque_;
  return ended_ ? Verdict::Abandon : opaque_ ? Verdict::Opaque : Verdict::Go;
}

// A lack of memory or stack is no part of the program: another run of it may have enough.
Verdict Recorder::on_exception(const Position& position) {
  show_mode();
  expected_result_ = nullptr;
  executed_ = Executed();
  std::erase(defining_, position.frame);
  keep_place_of_exception();
  for (PyObject* lack : {PyExc_MemoryError, PyExc_RecursionError}) {
    if (PyErr_ExceptionMatches(lack)) {
      abort(AbortReason::OutOfResources, reinterpret_cast<PyTypeObject*>(lack)->tp_name);
    }
  }
  if (opaque_) {
    abort(AbortReason::TorchException, error_text());  // on fakes: what it is for real is not known
  }
  if (!ended_) {
    record_raised(position);
  }
  return ended_ ? Verdict::Abandon : Verdict::Go;
}

bool Recorder::meet_fault() {
  Fault& fault = *current_fault;
  if (fault.instructions++ != fault.at || fault.fired) {
    return false;
  }
  fault.fired = true;
  if (fault.error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(fault.error.get())), fault.error.get());
  } else {
    abort(AbortReason::Testing, "");
  }
  return true;
}

// torch._dynamo.skip_frame() is called.
void Recorder::record_skip_request() {
  if (base_index(position_.frame) <= 0) {
    asks_to_be_skipped_ = Ref<PyCodeObject>::share(position_.frame->f_code);
  }
  abort(AbortReason::SkippedFrame, "torch._dynamo.skip_frame()");
}

// The call that led here becomes a break.
bool Recorder::meet_skipped(const py::Frame* frame) {
  if (skipped_ == nullptr || skipped_->count(frame->f_code) == 0 || base_index(frame) >= 0) {
    return false;
  }
  if (depth_ == 1) {
    --number_;
    deciding_ = false;
  }
  abort(AbortReason::SkippedFrame, "torch._dynamo.skip_frame()");
  return true;
}

// A function begins: what decides what it does, and the objects that its frame holds already.
void Recorder::record_frame_start() {
  py::Frame* frame = position_.frame;
  auto* function = frame->f_func;
  auto* object = reinterpret_cast<PyObject*>(function);
  if (depth_ > 1) {
    record_disabled_start(object);
  }
  if (ended_ || meet_skipped(frame)) {
    return;
  }
  name_arguments();
  if (reinterpret_cast<PyObject*>(frame->f_code) == module_call) {
    ++module_calls_[frame->localsplus[0]];
  }
  if (recorder_of(object) == RecordedBy::Scope) {
    record_scope_start(object);
  }
  meet_executed_text(frame);
  if (is_fresh_function(object) || is_stand_in(frame->f_globals)) {
    return;  // made by the trace; so are its cells and defaults, or they were read when it was made
  }
  // A special method has no node yet: C code found it on its class, which is watched.
  int node = graph_.node_of(object);
  if (node < 0) {
    node = graph_.add_constant(object, "fn");
  }
  record_function_parts(node, function);
}

// What decides what a call of a function does. It may be another function next time, with the same code.
void Recorder::record_function_parts(int node, PyFunctionObject* function) {
  PyObject* const names[] = {py::names.__code__, py::names.__globals__, py::names.__defaults__,
                             py::names.__kwdefaults__, py::names.__closure__};
  const size_t offsets[] = {offsetof(PyFunctionObject, func_code), offsetof(PyFunctionObject, func_globals),
                            offsetof(PyFunctionObject, func_defaults), offsetof(PyFunctionObject, func_kwdefaults),
                            offsetof(PyFunctionObject, func_closure)};
  PyObject* const parts[] = {function->func_code, function->func_globals, function->func_defaults,
                             function->func_kwdefaults, function->func_closure};
  if (graph_.was_read(node, guard::Kind::Slot, names[0], 0)) {
    return;
  }
  for (size_t i = 0; i < 5; ++i) {
    graph_.read(node, guard::Kind::Slot, names[i], static_cast<Py_ssize_t>(offsets[i]), parts[i]);
    if (i >= 2 && parts[i] != nullptr) {
      record_contents(parts[i]);
    }
  }
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  for (int i = 0; function->func_closure != nullptr && i < code->co_nfreevars; ++i) {
    int cell = graph_.node_of(PyTuple_GET_ITEM(function->func_closure, i));
    const char* name =
        PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, code->co_nlocalsplus - code->co_nfreevars + i));
    forget_error();
    if (cell >= 0 && name != nullptr) {
      graph_.rename(cell, name);
    }
  }
}

// A dict cannot be watched, but what holds it can: the module whose dict it is, or the function of a frame that began
// before the region.
int Recorder::globals_node(PyObject* globals) {
  if (int node = graph_.node_of(globals); node >= 0 || is_fresh_globals(globals)) {
    return node;
  }
  PyObject* const name = py::names.__name__;
  PyObject* const part = py::names.__globals__;
  PyObject* given = py::dict_item(globals, name);
  PyObject* module = given && PyUnicode_Check(given) ? py::dict_item(PyImport_GetModuleDict(), given) : nullptr;
  if (module != nullptr && PyModule_Check(module) && PyModule_GetDict(module) == globals) {
    graph_.read_object(graph_.add_constant(module, "G"), guard::Kind::InstanceDict, nullptr, 0, globals);
  }
  for (size_t i = 0; i < base_.size() && !graph_.is_outside(globals); ++i) {
    int slot = start_->frames()[i].function;
    auto* function = reinterpret_cast<PyFunctionObject*>(start_->at(slot));
    if (function != nullptr && function->func_globals == globals) {
      read_slot(slot);
      graph_.read_object(graph_.node_of(start_->at(slot)), guard::Kind::Slot, part,
                         offsetof(PyFunctionObject, func_globals), globals);
    }
  }
  int node = graph_.add_constant(globals, "G");
  graph_.rename(node, "G");
  return node;
}

int Recorder::module_dict_node(PyObject* module) {
  PyObject* dict = PyModule_GetDict(module);
  if (int node = graph_.node_of(module); node >= 0) {
    graph_.read_object(node, guard::Kind::InstanceDict, nullptr, 0, dict);
  }
  return globals_node(dict);
}

void Recorder::record_with(PyObject* manager) {
  PyTypeObject* type = Py_TYPE(manager);
  if (!graph_.read_type(type)) {
    return abort(AbortReason::UnknownRead, "a class");
  }
  PyObject* const names[] = {py::names.__enter__, py::names.__exit__};
  for (PyObject* name : names) {
    PyObject* method = _PyType_Lookup(type, name);
    const Contract* contract = method != nullptr ? contract_of(method) : nullptr;
    bool own = contract != nullptr && contract->writes == Writes::Itself && is_fresh_instance(manager);  // a lock
    if (method != nullptr && !PyFunction_Check(method) && !own) {
      return abort(AbortReason::UnsupportedContext, std::string("an object of type ") + type->tp_name);
    }
    note_class_value(type, name, method);
  }
}

void Recorder::read_cell(int index) {
  read_base_local(index);
  PyObject* cell = position_.frame->localsplus[index];
  if (int node = graph_.node_of(cell); node >= 0) {
    read_place(node, guard::Kind::CellContents, cell, nullptr, PyCell_GET(cell));
  }
}

void Recorder::record(Op op, int oparg) {
  const py::OpRow& row = py::op_row(op);
  opaque_ = is_tensor_operation(position_.stack_top - row.torch_operands, row.torch_operands);
  leaves_what_it_reads_ = op == Op::kLOAD_ATTR || op == Op::kLOAD_GLOBAL || op == Op::kLOAD_DEREF ||
                          (op == Op::kBINARY_SUBSCR && PyDict_CheckExact(peek(2)) && PyUnicode_CheckExact(peek(1)));
  switch (row.recording) {
    case py::Recording::Harmless: return;
    case py::Recording::Rule: return record_by_rule(op, oparg);
    case py::Recording::Break: break;
  }
  abort(AbortReason::UnsupportedInstruction, row.name);
}

void Recorder::record_by_rule(Op op, int oparg) {
  switch (op) {
    case Op::kLOAD_FAST:
    case Op::kMAKE_CELL:  // an argument that becomes a cell: the cell itself is fresh
    case Op::kLOAD_CLOSURE: return read_base_local(oparg);
    case Op::kLOAD_DEREF: return read_cell(oparg);
    case Op::kSTORE_DEREF:
    case Op::kDELETE_DEREF:
      if (op == Op::kSTORE_DEREF) {
        note_name(peek(1), PyTuple_GET_ITEM(position_.frame->f_code->co_localsplusnames, oparg));
      }
      read_base_local(oparg);
      return record_write(journal::PlaceKind::Cell, position_.frame->localsplus[oparg], nullptr);
    case Op::kSTORE_FAST:
      return note_name(peek(1), PyTuple_GET_ITEM(position_.frame->f_code->co_localsplusnames, oparg));
    case Op::kDELETE_FAST: return;  // follow_frames() sees that it is gone
    case Op::kPOP_TOP: return minds_being_dropped(peek(1)) ? abort(AbortReason::GeneratorEnd, "") : void();
    case Op::kLOAD_GLOBAL: return record_global(name_at(oparg >> 1));
    case Op::kSTORE_GLOBAL:
      globals_node(position_.frame->f_globals);
      return record_write(journal::PlaceKind::DictItem, position_.frame->f_globals, name_at(oparg));
    case Op::kDELETE_GLOBAL: return abort(AbortReason::WriteOutside, "a global variable is deleted");
    case Op::kLOAD_ATTR:
    case Op::kLOAD_METHOD:
      found_in_registry_ = false;
      record_attribute(peek(1), name_at(oparg));
      opaque_ = opaque_ || found_in_registry_;
      return;
    case Op::kSTORE_ATTR:
      if (source::is_tensor(peek(1))) {
        use(peek(2));
      }
      [[fallthrough]];
    case Op::kDELETE_ATTR: return record_attribute_write(peek(1), name_at(oparg), op == Op::kDELETE_ATTR);
    case Op::kJUMP_BACKWARD: return depth_ == 1 && number_ > kLongTrace ? abort(AbortReason::LongTrace, "") : void();
    case Op::kRETURN_VALUE:
      if (class_bodies_.count(reinterpret_cast<PyObject*>(position_.frame->f_func)) != 0 &&
          !read_class_space(position_.frame->f_locals)) {
        abort(AbortReason::UnsupportedInstruction, "LOAD_BUILD_CLASS");
      }
      return;
    case Op::kYIELD_VALUE: return;  // of another frame than the outermost; use_operands() has seen what C code gets
    case Op::kCALL: return record_vector_call(*call_site());
    case Op::kCALL_FUNCTION_EX: return record_star_call(*call_site());
    case Op::kMAKE_FUNCTION:
      globals_node(position_.frame->f_globals);  // which an exit that makes the function needs
      for (int depth = 2; depth <= py::count_touched(op, oparg); ++depth) {
        expose(peek(depth), Reads::Iterated);  // defaults and cells, in a tuple that may have come through a break
      }
      made_function_ = true;
      return;
    case Op::kIMPORT_NAME: return record_import(name_at(oparg), peek(2));
    case Op::kIMPORT_FROM: return record_attribute(peek(1), name_at(oparg));
    case Op::kRAISE_VARARGS:
    case Op::kRERAISE: record_raise(op, oparg); [[fallthrough]];
    case Op::kPUSH_EXC_INFO: return depth_ == 1 ? read_slot(start_->handled()) : void();
    case Op::kCHECK_EXC_MATCH: return record_exception_match(peek(2), peek(1));
    case Op::kCHECK_EG_MATCH: return record_group_match(peek(2), peek(1));
    case Op::kPREP_RERAISE_STAR: return record_group_reraise(peek(2), peek(1));
    case Op::kWITH_EXCEPT_START:
      record_context_exit(peek(4));
      return ended_ ? void() : record_call(peek(4), nullptr, 0);
    case Op::kBEFORE_WITH: record_with(peek(1)); return ended_ ? void() : record_context_enter(peek(1));
    case Op::kMATCH_MAPPING:
    case Op::kMATCH_SEQUENCE: return record_type_flag(peek(1));
    case Op::kMATCH_KEYS: return record_match_keys(peek(2), peek(1));
    case Op::kMATCH_CLASS: return record_match_class(peek(3), peek(2), oparg, peek(1));
    case Op::kLOAD_BUILD_CLASS: return record_build_class();
    case Op::kLOAD_NAME:
    case Op::kSTORE_NAME:
    case Op::kDELETE_NAME:
    case Op::kSETUP_ANNOTATIONS:
    case Op::kLOAD_CLASSDEREF: return record_class_body(op, oparg);
    default: return record_operation(op, oparg);
  }
}

// Instructions that compute with values: operators, items, iteration, containers that are built.
void Recorder::record_operation(Op op, int oparg) {
  switch (op) {
    case Op::kBINARY_SUBSCR: return record_item(peek(2), peek(1));
    case Op::kSTORE_SUBSCR: record_stored(peek(1), peek(3)); [[fallthrough]];
    case Op::kDELETE_SUBSCR: return ended_ ? void() : record_item_write(peek(2), peek(1), op == Op::kDELETE_SUBSCR);
    case Op::kBINARY_OP: return record_binary(peek(2), peek(1), oparg);
    case Op::kUNARY_NEGATIVE:
    case Op::kUNARY_POSITIVE:
    case Op::kUNARY_INVERT: return record_operands(peek(1), peek(1), false);
    case Op::kCOMPARE_OP: return record_comparison(peek(2), peek(1));
    case Op::kIS_OP: return record_identity(peek(2), peek(1));
    case Op::kCONTAINS_OP: return record_membership(peek(1), peek(2));
    case Op::kPOP_JUMP_FORWARD_IF_TRUE:
      if (source::is_tensor(peek(1)) && record_tensor_assert()) {
        return;
      }
      [[fallthrough]];
    case Op::kUNARY_NOT:
    case Op::kPOP_JUMP_FORWARD_IF_FALSE:
    case Op::kPOP_JUMP_BACKWARD_IF_FALSE:
    case Op::kPOP_JUMP_BACKWARD_IF_TRUE:
    case Op::kJUMP_IF_FALSE_OR_POP:
    case Op::kJUMP_IF_TRUE_OR_POP:
      return source::is_tensor(peek(1)) ? abort(AbortReason::DataDependentBranch, "the truth of a tensor")
                                        : expose(peek(1), Reads::Truth);
    case Op::kGET_ITER: return expose(peek(1), Reads::Iterable);
    case Op::kGET_YIELD_FROM_ITER:
    case Op::kUNPACK_SEQUENCE:
    case Op::kUNPACK_EX: return expose(peek(1), Reads::Iterated);
    case Op::kFOR_ITER: return is_hanging(peek(1)) ? void() : record_next(peek(1), true);
    case Op::kSEND: return is_hanging(peek(2)) ? void() : record_next(peek(2), false);
    case Op::kLIST_TO_TUPLE:
      return expose(peek(1), Reads::Items);  // it may have come through a break, half made
    // Into a container further down the stack: one that is being built, maybe since before a break.
    case Op::kLIST_APPEND: return record_container_write(peek(oparg + 1), Reach::Nothing);
    case Op::kLIST_EXTEND:
      expose(peek(1), Reads::Iterated);
      return ended_ ? void() : record_container_write(peek(oparg + 1), Reach::Nothing);
    case Op::kSET_ADD:
    case Op::kSET_UPDATE:
    case Op::kDICT_UPDATE:
    case Op::kDICT_MERGE: {
      bool set = op == Op::kSET_ADD || op == Op::kSET_UPDATE;
      expose(peek(1), set ? Reads::Compared : Reads::Iterated);
      return ended_ ? void() : record_container_write(peek(oparg + 1), Reach::Whole);
    }
    case Op::kMAP_ADD: record_key(peek(2)); return record_container_write(peek(oparg + 2), Reach::Item, peek(2));
    case Op::kBUILD_SET:
    case Op::kBUILD_MAP:
      for (int depth = 1; depth <= py::count_touched(op, oparg); ++depth) {
        if (py::role_of(op, depth) == py::Role::LookedInto) {
          record_key(peek(depth));
        }
      }
      return;
    case Op::kFORMAT_VALUE: return defer_text(oparg) ? void() : expose(peek(oparg & 4 ? 2 : 1), Reads::Text);
    case Op::kGET_LEN: return expose(peek(1), Reads::Length);
    default: return abort(AbortReason::UnsupportedInstruction, py::op_row(op).name);
  }
}

}  // namespace alternator::record
