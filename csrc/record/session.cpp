#include "record/session.h"

#include <algorithm>
#include <utility>

#include "base/boundary.h"
#include "base/once.h"
#include "base/phase.h"
#include "base/shortage.h"
#include "interp/evaluate.h"
#include "interp/hook.h"
#include "py/lock.h"
#include "py/names.h"
#include "py/pending.h"
#include "record/fault.h"
#include "record/quick_calls.h"
#include "record/stand_in.h"
#include "torch/facts.h"

namespace alternator::record {
namespace {

thread_local Session* current_session = nullptr;
PyTypeObject* mode_type = nullptr;

struct Mode {
  PyObject_HEAD PyObject* tracer;
  QuickCalls* quick;  // of the session
};

PyObject* end_call(Ref<> result) {
  Session* session = current_session;
  if (!result && session != nullptr && !session->recorder().aborted()) {
    session->end_by_exception();
  }
  return result.release();
}

// Torch calls this for every overridable function while the mode is on its stack.
PyObject* torch_function(PyObject* self, PyObject* args, PyObject* kwargs) {
  interp::Unobserved native;
  Phased calls(Phase::Calls);
  PyObject* call_kwargs = PyTuple_GET_SIZE(args) > 3 ? PyTuple_GET_ITEM(args, 3) : nullptr;
  QuickCalls* quick = reinterpret_cast<Mode*>(self)->quick;
  if (quick != nullptr && kwargs == nullptr && PyTuple_GET_SIZE(args) >= 3 && current_session != nullptr) {
    Ref<> quickly = quick->call(PyTuple_GET_ITEM(args, 0), PyTuple_GET_ITEM(args, 2), call_kwargs);
    if (quickly || PyErr_Occurred()) {
      return end_call(std::move(quickly));
    }
  }
  Ref<> record = steal(PyObject_GetAttrString(reinterpret_cast<Mode*>(self)->tracer, "record"));
  Ref<> result = record ? steal(PyObject_Call(record.get(), args, kwargs)) : nullptr;
  return end_call(std::move(result));
}

void destroy_mode(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Mode*>(self)->tracer);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef mode_methods[] = {
    {"__torch_function__", as_method<torch_function>(), METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot mode_slots[] = {
    {Py_tp_methods, mode_methods},
    {Py_tp_dealloc, as_slot<destroy_mode>()},
    {0, nullptr},
};
PyType_Spec mode_spec = {"alternator._capture.Mode", sizeof(Mode), 0, Py_TPFLAGS_DEFAULT, mode_slots};

Ref<> torch_c_function(const char* name) {
  Ref<> module = steal(PyImport_ImportModule("torch._C"));
  return module ? steal(PyObject_GetAttrString(module.get(), name)) : nullptr;
}

}  // namespace

bool add_mode_type(PyObject* module) {
  mode_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&mode_spec));
  return mode_type != nullptr && PyModule_AddObjectRef(module, "Mode", reinterpret_cast<PyObject*>(mode_type)) == 0;
}

Session* Session::current() { return current_session; }

Ref<>& Session::lock() {
  static constinit Once<Ref<>*> lock;
  return *lock.get([] { return new Ref<>; });
}

// The tracer's mode on torch's stack: on while the program's instructions run.
class Session::ModeSwitch {
 public:
  explicit ModeSwitch(Recorder* recorder)
      : recorder_(recorder),
        push_(torch_c_function("_push_on_torch_function_stack")),
        pop_(push_ ? torch_c_function("_pop_torch_function_stack") : nullptr),
        mode_(pop_ ? steal(mode_type->tp_alloc(mode_type, 0)) : nullptr) {}
  ~ModeSwitch() {
    if (mode_) {
      mode()->quick = nullptr;
    }
  }
  ModeSwitch(const ModeSwitch&) = delete;
  ModeSwitch& operator=(const ModeSwitch&) = delete;

  bool is_ready() const { return static_cast<bool>(mode_); }
  bool begin(PyObject* tracer, QuickCalls* quick) {
    mode()->tracer = Py_NewRef(tracer);
    mode()->quick = quick;
    recorder_->set_mode_switch([this](bool on) {
      [[maybe_unused]] bool done = turn(on);
      ALTERNATOR_CHECK(done, "the tracer's mode can be taken off the stack and put back");
    });
    return turn(true);
  }
  bool turn(bool on) {
    return static_cast<bool>(
        steal(on ? PyObject_CallOneArg(push_.get(), mode_.get()) : PyObject_CallNoArgs(pop_.get())));
  }

 private:
  Mode* mode() { return reinterpret_cast<Mode*>(mode_.get()); }

  Recorder* recorder_;
  Ref<> push_;
  Ref<> pop_;
  Ref<> mode_;
};

bool Session::run() {
  py::Hold tracing(lock().get(), true);
  if (!tracing.is_held()) {
    return false;
  }
  py::Undisturbed undisturbed(py::current_thread());
  const uint64_t foreign = tensor::count_foreign();
  const uint64_t draws = tensor::count_draws();
  ModeSwitch modes(&recorder_);
  tracer_ = modes.is_ready() ? steal(PyObject_CallNoArgs(begin_.get())) : nullptr;
  if (!tracer_ || tracer_.get() == Py_None) {
    return false;
  }
  QuickCalls quick(tracer_.get(), &recorder_);
  recorder_.set_tracer(tracer_.get());
  Ref<> all = steal(PyObject_CallMethod(tracer_.get(), "has_moving_numbers", nullptr));
  recorder_.set_all_moving(all.get() == Py_True && !is_static_);
  // A listener may have switched a profiler on, which is to see the program run.
  if (py::is_traced(py::current_thread()) || !all || !modes.begin(tracer_.get(), &quick)) {
    end_tracer(false);
    return false;
  }
  Session* outer = std::exchange(current_session, this);
  {
    Phased tracing(Phase::Trace);
    interp::Interpreting interpreting(&recorder_);
    writes_.open();
    Ref<> result = interp::recreate(start_.make_trace_state());
  }
  Phased ending(Phase::Exit);
  recorder_.show_mode();
  recorder_.end_with_exception();
  PyErr_Clear();  // the mark of the abandoned run, or the program's own exception, which it will raise for real
  exit_ = write_exit();
  recorder_.meet_shortage();
  announce_roll_back();
  recorder_.journal().roll_back();
  start_.restore_generators();
  {
    interp::Interpreting discarding(&recorder_);
    recorder_.empty_generators();
  }
  bool popped = modes.turn(false);
  bool ended = end_tracer(exit_.has_value());
  writes_.close();
  draws_ = tensor::count_draws() != draws;
  repeatable_ = repeatable_ && tensor::count_foreign() == foreign && (!draws_ || tensor::RandomState::is_only());
  current_session = outer;
  recorder_.meet_shortage();
  if (recorder_.lacked_resources()) {
    abort_.reset();
    exit_.reset();
  }
  if (popped && ended && interruption_) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(interruption_.get())), interruption_.get());
    return false;
  }
  return popped && ended;
}

// Everything that is asked of the tracer is asked here, where no signal's exception can come in between.
bool Session::end_tracer(bool finished) {
  auto ask = [&](const char* question) -> Ref<> {
    return steal(PyObject_CallMethod(tracer_.get(), question, nullptr));
  };
  Ref<> operations, deferring;
  if (finished) {
    operations = ask("has_operations");
    deferring = operations ? ask("is_deferring") : nullptr;
    finished = operations && deferring;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  // end(whether there will be a graph) -> the inputs that the graph writes to; None: it changes what does not tell
  Ref<> ended = steal(PyObject_CallMethodOneArg(tracer_.get(), py::names.end, finished ? Py_True : Py_False));
  if (type != nullptr) {
    PyErr_Restore(type, value, traceback);
    return false;
  }
  for (Py_ssize_t i = 0; ended && PyList_Check(ended.get()) && i < PyList_GET_SIZE(ended.get()); ++i) {
    written_.push_back(static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(ended.get(), i))));
  }
  if (ended.get() == Py_None || !written_.empty()) {
    storages_ = tensor::group_by_storage(input_tensors_);
  }
  if (finished) {
    rely_on_offsets();
  }
  keep_tensors_apart(ended.get() == Py_None);
  has_operations_ = operations.get() == Py_True;
  // Calls that are put off behind the graph are made once.
  repeatable_ = ended && deferring.get() == Py_False;
  plan_undoing(ended.get() != Py_None);
  return static_cast<bool>(ended);
}

// Where a tensor begins in its storage matters if the program asked, or if a graph writes to memory that inputs share.
void Session::rely_on_offsets() {
  for (auto [tensor, facts] : watched_) {
    bool shares = false;
    for (size_t i = 0; !storages_.empty() && i < input_tensors_.size(); ++i) {
      shares =
          shares || (input_tensors_[i] == tensor && std::count(storages_.begin(), storages_.end(), storages_[i]) > 1);
    }
    if (shares || writes_.relies_on_offset(tensor)) {
      facts->rely_on_offset();
    }
  }
}

// What the graph writes to may change its form. What is changed around the graph (requires_grad, data, grad) belongs to the
// very object.
void Session::keep_tensors_apart(bool may_write_to_all) {
  std::vector<int> changed;
  for (int input : written_) {
    changed.push_back(inputs_[input]);
  }
  recorder_.graph().read_distinct_tensors(may_write_to_all ? inputs_ : std::move(changed), inputs_);
  Ref<> altered = steal(PyObject_GetAttrString(tracer_.get(), "altered"));
  changed.clear();
  for (Py_ssize_t i = 0; altered && i < PyList_GET_SIZE(altered.get()); ++i) {
    int node = recorder_.graph().node_of(PyList_GET_ITEM(altered.get(), i));
    if (node >= 0 && std::find(changed.begin(), changed.end(), node) == changed.end()) {
      changed.push_back(node);
    }
  }
  forget_error();
  recorder_.graph().read_distinct_tensors(std::move(changed), {});
}

// `is_told`: version counters say whether an input was written to.
void Session::plan_undoing(bool is_told) {
  Ref<> shapes = steal(PyObject_GetAttrString(tracer_.get(), "shapes"));
  forget_error();
  const bool has_symbols = shapes.get() != Py_None;
  for (bool keeps_order : {false, true}) {
    for (tensor::Risks risks : {tensor::Risks::OfValues, tensor::Risks::All}) {
      undoing_[risks == tensor::Risks::All][keeps_order] =
          writes_.plan(input_tensors_, risks, keeps_order, has_symbols);
    }
    repeatable_ = repeatable_ && (is_told || undoing_[false][keeps_order].is_complete);
  }
}

bool Session::keeps_order() const {
  Ref<> answer = steal(PyObject_GetAttrString(tracer_.get(), "keeps_order"));
  forget_error();
  return answer.get() == Py_True;
}

bool Session::has_floats() const {
  Ref<> answer = steal(PyObject_CallMethod(tracer_.get(), "has_floats", nullptr));
  PyErr_Clear();
  return answer.get() == Py_True;
}

void Session::end_by_exception() {
  recorder_.on_exception(recorder_.position());
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (!PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
    interruption_ = share(value);
  }
  Ref<> text = steal(value ? PyObject_Str(value) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  forget_error();
  recorder_.abort(AbortReason::UnsupportedTorch, utf8 ? utf8 : "an error in torch");
  PyErr_Restore(type, value, traceback);
}

std::optional<exits::ExitProgram> Session::write_exit() {
  if (recorder_.aborted() && recorder_.stopped() == nullptr) {
    return std::nullopt;
  }
  auto output_of = [&](PyObject* tensor) {
    Ref<> index = steal(PyObject_CallMethod(tracer_.get(), "output_of", "O", tensor));
    long value = index ? PyLong_AsLong(index.get()) : -1;
    forget_error();
    return static_cast<int>(value);
  };
  exits::Surroundings around;
  around.outside = [&](PyObject* object) { return recorder_.outside(object); };
  around.arithmetic_of = [&](PyObject* value) { return recorder_.arithmetic_of(value); };
  around.watch = [&](PyObject* object) { return recorder_.graph().add_constant(object, "constant"); };
  around.output_of = output_of;
  around.output_of_number = [&](PyObject* number) {
    PyObject* symbol = recorder_.symbol_of(number);
    return symbol != nullptr ? output_of(symbol) : -1;
  };
  around.read_whole = [&](PyObject* container) { return recorder_.read_whole(container); };
  around.read_length = [&](PyObject* container) { recorder_.read_original_length(container); };
  around.note_globals = [&](PyObject* globals) {
    return !is_stand_in(globals) && !recorder_.is_fresh_globals(globals) &&
           recorder_.graph().add_constant(globals, "G") >= 0;
  };
  around.is_fresh_function = [&](PyObject* function) { return recorder_.is_fresh_function(function); };
  around.is_fresh_class = [&](PyObject* type) { return recorder_.graph().is_fresh_class(type); };
  around.is_address = [&](PyObject* value) { return recorder_.is_address(value); };
  around.untouched = [&](size_t frame, int index, PyObject* value) {
    return recorder_.untouched_slot(frame, index, value);
  };
  around.frame_of_generator = [&](PyObject* generator) { return recorder_.frame_of_generator(generator); };
  std::vector<PyObject*> generators;
  for (const FrameSlots& frame : start_.frames()) {
    PyObject* generator = start_.at(frame.function + 1);
    if (generator != nullptr && recorder_.frame_of_generator(generator) >= 0) {
      generators.push_back(generator);
    }
  }
  exits::ExitWriter writer(std::move(around), recorder_.journal());
  std::optional<exits::ExitProgram> program =
      recorder_.stopped() ? writer.write_break(*recorder_.stopped(), recorder_.kept_frames(), generators)
                          : writer.write_return(recorder_.result(), generators);
  unwritable_ = !program || (recorder_.stopped() && holds_texts());
  // An exception of the program's own stays the reason.
  if (!program && !(recorder_.aborted() && recorder_.aborted()->reason == AbortReason::UserException)) {
    abort_ = Abort{AbortReason::UnsupportedResult, recorder_.place(), writer.reason(), recorder_.trail()};
  }
  if (unwritable_) {
    return std::nullopt;
  }
  for (const journal::Place& place : recorder_.journal().places()) {
    recorder_.graph().read_distinct_from_all(place.owner.get());
  }
  for (const journal::Body& body : recorder_.journal().bodies()) {
    recorder_.graph().read_distinct_from_all(body.owner.get());
  }
  recorder_.read_distinct_keys();
  return program;
}

// Marks that stand for texts (rules_texts.cpp) are on a stack.
bool Session::holds_texts() const {
  if (!recorder_.deferred_texts()) {
    return false;
  }
  Ref<> answer = steal(PyObject_CallMethod(tracer_.get(), "holds_texts", nullptr));
  forget_error();
  return answer.get() != Py_False;
}

std::optional<Recorder::Stop> Session::again() const {
  bool again = recorder_.aborted() && recorder_.stopped() == nullptr && recorder_.number() > 0;
  return again ? std::optional(recorder_.stop_again()) : std::nullopt;
}

Ref<> Session::finish(PyObject* finish) {
  Phased graph(Phase::Graph);
  return steal(PyObject_CallOneArg(finish, tracer_.get()));
}

bool Session::read_symbols(std::vector<guard::Quantity>* arguments, guard::Conditions* conditions) {
  // (conditions, [quantity]); None where all is constant
  Ref<> symbols = steal(PyObject_GetAttrString(tracer_.get(), "symbols"));
  if (!symbols || symbols.get() == Py_None) {
    return static_cast<bool>(symbols);
  }
  PyObject *rows, *call;
  if (!PyArg_ParseTuple(symbols.get(), "OO!", &rows, &PyList_Type, &call) || !conditions->parse(rows)) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(call); ++i) {
    if (!guard::parse_quantity(PyList_GET_ITEM(call, i), &arguments->emplace_back())) {
      return false;
    }
  }
  return true;
}

const std::string* Session::watch(PyObject* tensor, const std::vector<int>& free) {
  int node = recorder_.graph().node_of(tensor);
  if (node < 0) {
    return nullptr;
  }
  if (tensor::Facts* facts = recorder_.graph().read_tensor(node, tensor::facts_of(tensor, free))) {
    watched_.emplace_back(tensor, facts);
  }
  recorder_.note_sites_of_guards();
  return &recorder_.graph().name_of(node);
}

bool Session::add_input(PyObject* tensor) {
  int node = recorder_.graph().node_of(tensor);
  if (node >= 0) {
    inputs_.push_back(node);
    input_tensors_.push_back(tensor);
  }
  return node >= 0;
}

}  // namespace alternator::record
