// The extension module alternator._capture: captured functions, and what the Python tracer asks of a trace.
#include "base/boundary.h"
#include "base/ref.h"

#include <structmember.h>

#include <utility>

#include "api/failing_memory.h"
#include "api/forwarder.h"
#include "base/phase.h"
#include "py/heap_object.h"
#include "py/instance.h"
#include "py/lru_cache.h"
#include "record/arguments.h"
#include "record/contract.h"
#include "record/fault.h"
#include "record/node_maker.h"
#include "record/session.h"
#include "record/stand_in.h"
#include "region/region.h"
#include "region/spoil.h"
#include "source/value.h"
#include "torch/facts.h"
#include "torch/python_fakes.h"

namespace alternator::api {
namespace {

struct CapturedObject {
  PyObject_HEAD PyObject* function;
  PyObject* dict;
  PyObject* weakrefs;
  vectorcallfunc vectorcall;
  region::Captured* captured;
};

CapturedObject* cast(PyObject* object) { return reinterpret_cast<CapturedObject*>(object); }

// The garbage collector has taken it apart.
PyObject* refuse_call() {
  PyErr_SetString(PyExc_RuntimeError, "alternator: there is nothing to call");
  return nullptr;
}

ALTERNATOR_WARM PyObject* call(PyObject* self, PyObject* const* arguments, size_t nargsf, PyObject* kwnames) {
  Ref<> held = share(self);  // and with it what it owns
  Ref<> function = share(cast(self)->function);
  return function ? cast(self)->captured->call(function.get(), arguments, nargsf, kwnames) : refuse_call();
}

// Captured(fn, begin, finish, report, admit, fullgraph, filter=None)
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *begin, *finish, *report, *admit, *filter = Py_None;
  int fullgraph;
  if (!PyArg_ParseTuple(args, "OOOOOp|O:Captured", &function, &begin, &finish, &report, &admit, &fullgraph, &filter)) {
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    cast(self)->function = Py_NewRef(function);
    cast(self)->vectorcall = boundary<call>;
    region::Frontend frontend{share(begin), share(finish), share(report), share(admit),
                              filter != Py_None ? share(filter) : nullptr};
    cast(self)->captured = new region::Captured(std::move(frontend), fullgraph);
  }
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->function);
  Py_VISIT(cast(self)->dict);
  return cast(self)->captured ? cast(self)->captured->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  Py_CLEAR(cast(self)->function);
  Py_CLEAR(cast(self)->dict);
  if (cast(self)->captured != nullptr) {
    cast(self)->captured->close();
  }
  return 0;
}

void release(PyObject* self) {
  clear(self);
  delete cast(self)->captured;
}

PyObject* reset(PyObject* self, PyObject*) {
  cast(self)->captured->clear();
  Py_RETURN_NONE;
}

// rebind(function): from now on its calls are calls of this function. Regions of another one stay.
PyObject* rebind(PyObject* self, PyObject* function) {
  Ref<> former = steal(std::exchange(cast(self)->function, Py_NewRef(function)));
  Py_RETURN_NONE;
}

// regions(): for each region its guards as rows (kind, expectation, None, key, index, text).
PyObject* regions(PyObject* self, PyObject*) {
  Ref<> list = steal(PyList_New(0));
  for (const std::shared_ptr<region::Region>& region : cast(self)->captured->regions()) {
    Ref<> rows = region::describe_guards(region->guards, nullptr);
    if (!rows || PyList_Append(list.get(), rows.get()) < 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* inspect_call(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* kwnames, bool rows) {
  Ref<> function = share(cast(self)->function);
  auto given = static_cast<size_t>(count);
  return function ? cast(self)->captured->inspect(function.get(), arguments, given, kwnames, rows) : refuse_call();
}

// check(*args, **kwargs): what the guards say of such a call, without making it.
PyObject* check(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* kwnames) {
  return inspect_call(self, arguments, count, kwnames, false);
}

// inspect(*args, **kwargs): the same, with the guards and the objects that they look at.
PyObject* inspect(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* kwnames) {
  return inspect_call(self, arguments, count, kwnames, true);
}

// Bytes that are copied before the graph runs; -1: that depends on the call.
Py_ssize_t count_copied(const tensor::Undoing& undoing) {
  Py_ssize_t total = 0;
  for (const tensor::Range& range : undoing.ranges) {
    if (range.end == tensor::Range::kToTheEnd) {
      return -1;
    }
    total += range.end - range.begin;
  }
  return total;
}

// counts(): for each region how its guards are checked, and what is kept in case its graph fails.
PyObject* counts(PyObject* self, PyObject*) {
  Ref<> list = steal(PyList_New(0));
  for (const std::shared_ptr<region::Region>& region : cast(self)->captured->regions()) {
    guard::Checker::Counts counts = region->checker.counts();
    Ref<> row = steal(Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "guards", region->guards.guards.size(),
                                    "lists", counts.lists, "words", counts.words, "walked", counts.walked, "hits",
                                    counts.hits, "walks", counts.walks, "copied", count_copied(region->later.undoing),
                                    "looked_at", region->later.undoing.checks.size()));
    if (!row || PyList_Append(list.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* last_miss(PyObject* self, PyObject*) {
  return PyUnicode_FromString(cast(self)->captured->last_miss().c_str());
}

// count_parts(kind) -> for each region, how many guards, steps, effects or positions it has (region/spoil.h)
PyObject* count_parts(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  std::optional<region::Part> part = text ? region::find_part(text) : std::nullopt;
  Ref<> list = part ? steal(PyList_New(0)) : nullptr;
  if (!list) {
    return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "regions have no %s", text);
  }
  for (const std::shared_ptr<region::Region>& region : cast(self)->captured->regions()) {
    Ref<> number = steal(PyLong_FromSize_t(region::count_parts(*region, *part)));
    if (!number || PyList_Append(list.get(), number.get()) < 0) {
      return nullptr;
    }
  }
  return list.release();
}

// spoil(kind, region, index, error or None): region/spoil.h
PyObject* spoil(PyObject* self, PyObject* args) {
  const char* text;
  Py_ssize_t number, index;
  PyObject* error;
  if (!PyArg_ParseTuple(args, "snnO:spoil", &text, &number, &index, &error)) {
    return nullptr;
  }
  std::optional<region::Part> part = region::find_part(text);
  auto regions = cast(self)->captured->regions();
  bool found = part && static_cast<size_t>(number) < regions.size() &&
               static_cast<size_t>(index) < region::count_parts(*regions[number], *part);
  if (!found || (*part != region::Part::Guard && !PyExceptionInstance_Check(error))) {
    return PyErr_Format(PyExc_ValueError, "no such part of a region, or no exception to raise");
  }
  region::spoil(regions[number], *part, static_cast<size_t>(index), error);
  Py_RETURN_NONE;
}

PyObject* mend(PyObject*, PyObject*) {
  region::mend();
  Py_RETURN_NONE;
}

PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(CapturedObject, function), READONLY, "the function that is captured"},
    {"__dictoffset__", T_PYSSIZET, offsetof(CapturedObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CapturedObject, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CapturedObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef object_methods[] = {
    {"reset", as_method<reset>(), METH_NOARGS, "Forget what was captured."},
    {"rebind", as_method<rebind>(), METH_O, "Capture the calls of another function."},
    {"regions", as_method<regions>(), METH_NOARGS, "The guards of each captured region."},
    {"check", as_method<check>(), METH_FASTCALL | METH_KEYWORDS,
     "Check the guards for such a call, without making it: for each region the number of a guard that fails, or None."},
    {"inspect", as_method<inspect>(), METH_FASTCALL | METH_KEYWORDS,
     "The same: for each region (number or None, its guards as rows)."},
    {"counts", as_method<counts>(), METH_NOARGS,
     "How the guards of each region are checked, and what is kept in case its graph fails."},
    {"last_miss", as_method<last_miss>(), METH_NOARGS, "Why no region fitted, the last time that none did."},
    {"count_parts", as_method<count_parts>(), METH_O,
     "For tests: how many guards, steps, effects or positions each region has."},
    {"spoil", as_method<spoil>(), METH_VARARGS,
     "For tests: let a guard fail once, or a part of an exit raise an exception."},
    {"mend", as_method<mend>(), METH_NOARGS, "For tests: put the part of an exit back that was spoiled."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A function whose calls are captured as graphs.")},
    {Py_tp_new, as_slot<make>()},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, as_slot<traverse>()},
    {Py_tp_clear, as_slot<clear>()},
    {Py_tp_dealloc, as_slot<py::destroy_object<release>>()},
    {Py_tp_descr_get, as_slot<py::bind_as_function>()},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {Py_tp_methods, object_methods},
    {0, nullptr},
};
PyType_Spec spec = {"alternator._capture.Captured", sizeof(CapturedObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

record::Session* session_or_error() {
  record::Session* session = record::Session::current();
  if (session == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "alternator: no trace is running in this thread");
  }
  return session;
}

// watch(tensor, dimensions that may have any size) -> its name, or None for a tensor that the trace did not get from
// outside.
PyObject* watch(PyObject*, PyObject* args) {
  PyObject *tensor, *dimensions;
  record::Session* session = session_or_error();
  if (session == nullptr || !PyArg_ParseTuple(args, "OO!:watch", &tensor, &PyTuple_Type, &dimensions)) {
    return nullptr;
  }
  std::vector<int> free;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dimensions); ++i) {
    free.push_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(dimensions, i))));
  }
  const std::string* name = PyErr_Occurred() ? nullptr : session->watch(tensor, free);
  return PyErr_Occurred() ? nullptr : name ? PyUnicode_FromString(name->c_str()) : Py_NewRef(Py_None);
}

// rely_on_offset(fake): where it begins in its storage is relied on.
PyObject* rely_on_offset(PyObject*, PyObject* fake) {
  record::Session* session = session_or_error();
  if (session == nullptr) {
    return nullptr;
  }
  session->rely_on_offset(fake);
  return Py_NewRef(Py_None);
}

// relies_on_offset(tensor) -> whether the trace relied on where a tensor from outside begins in its storage
PyObject* relies_on_offset(PyObject*, PyObject* tensor) {
  record::Session* session = session_or_error();
  return session ? PyBool_FromLong(session->relies_on_offset(tensor)) : nullptr;
}

// moving_sizes(name) -> the dimensions of that tensor which had other sizes in earlier calls
PyObject* moving_sizes(PyObject*, PyObject* name) {
  record::Session* session = session_or_error();
  const char* text = session ? PyUnicode_AsUTF8(name) : nullptr;
  Ref<> found = text ? steal(PyList_New(0)) : nullptr;
  const std::set<int>* dimensions = found ? session->moving_sizes(text) : nullptr;
  if (dimensions != nullptr) {
    for (int dimension : *dimensions) {
      Ref<> number = steal(PyLong_FromLong(dimension));
      if (!number || PyList_Append(found.get(), number.get()) < 0) {
        return nullptr;
      }
    }
  }
  return found.release();
}

// is_static() -> whether the trace is to have no symbols
PyObject* is_static(PyObject*, PyObject*) {
  record::Session* session = session_or_error();
  return session ? PyBool_FromLong(session->is_static()) : nullptr;
}

// has_fixed_floats() -> whether the trace is to have no symbols for floats
PyObject* has_fixed_floats(PyObject*, PyObject*) {
  record::Session* session = session_or_error();
  return session ? PyBool_FromLong(session->has_fixed_floats()) : nullptr;
}

// node_of(object) -> its number; -1 for one that the trace did not get from outside
PyObject* node_of(PyObject*, PyObject* object) {
  record::Session* session = session_or_error();
  return session ? PyLong_FromLong(session->recorder().graph().node_of(object)) : nullptr;
}

// follow(number, symbol) -> an equal number that has the symbol
PyObject* follow(PyObject*, PyObject* args) {
  PyObject *number, *symbol;
  record::Session* session = session_or_error();
  if (session == nullptr || !PyArg_ParseTuple(args, "OO:follow", &number, &symbol)) {
    return nullptr;
  }
  return session->recorder().follow_symbol(number, symbol).release();
}

// symbol_of(number) -> its symbol, or None
PyObject* symbol_of(PyObject*, PyObject* number) {
  record::Session* session = record::Session::current();
  PyObject* symbol = session ? session->recorder().symbol_of(number) : nullptr;
  return Py_NewRef(symbol ? symbol : Py_None);
}

// add_input(tensor): the watched tensor becomes the next input of the graph.
PyObject* add_input(PyObject*, PyObject* tensor) {
  record::Session* session = session_or_error();
  return session ? PyBool_FromLong(session->add_input(tensor)) : nullptr;
}

// name_of(object) -> the name of an object from outside, or None.
PyObject* name_of(PyObject*, PyObject* object) {
  record::Session* session = session_or_error();
  if (session == nullptr) {
    return nullptr;
  }
  int node = session->recorder().graph().node_of(object);
  return node >= 0 ? PyUnicode_FromString(session->recorder().graph().name_of(node).c_str()) : Py_NewRef(Py_None);
}

// describe_call(function) -> (the call as the program wrote it, its site, the names given since the last call)
PyObject* describe_call(PyObject*, PyObject* function) {
  record::Session* session = session_or_error();
  if (session == nullptr) {
    return nullptr;
  }
  Ref<> call = session->recorder().describe_call(function);
  Ref<> names = call ? session->recorder().take_names() : nullptr;
  return names ? Py_BuildValue("(OiO)", call.get(), session->recorder().current_site(), names.get()) : nullptr;
}

PyObject* list_sites(PyObject*, PyObject*) {
  record::Session* session = session_or_error();
  return session ? session->recorder().list_sites().release() : nullptr;
}

// map_tensors(value, function[, table, member]): record/arguments.h
PyObject* map_tensors(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 && count != 4) {
    return PyErr_Format(PyExc_TypeError, "map_tensors() takes 2 or 4 arguments");
  }
  record::TensorMap map(args[1], count == 4 ? args[2] : nullptr, count == 4 ? args[3] : nullptr);
  return record::map_tensors(args[0], map).release();
}

PyObject* take_names(PyObject*, PyObject*) {
  record::Session* session = session_or_error();
  return session ? session->recorder().take_names().release() : nullptr;
}

PyObject* current_place(PyObject*, PyObject*) {
  record::Session* session = session_or_error();
  return session ? PyUnicode_FromString(session->recorder().place().c_str()) : nullptr;
}

// abort(reason, detail): ends the trace; the caller raises. The reason is the name of a row of abort.def.
PyObject* abort_trace(PyObject*, PyObject* args) {
  const char *name, *detail;
  record::Session* session = session_or_error();
  if (session == nullptr || !PyArg_ParseTuple(args, "ss:abort", &name, &detail)) {
    return nullptr;
  }
  if (std::optional<AbortReason> reason = find_abort(name)) {
    session->recorder().abort(*reason, detail);
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_ValueError, "no reason to abort: %s", name);
}

// set_substitute(callable, other or None): what is called in its place while tracing. For callables that are no Python
// functions.
PyObject* set_substitute(PyObject*, PyObject* args) {
  PyObject *callable, *other;
  if (!PyArg_ParseTuple(args, "OO:set_substitute", &callable, &other)) {
    return nullptr;
  }
  record::set_substitute(callable, other == Py_None ? nullptr : other);
  Py_RETURN_NONE;
}

// substitute_of(callable): the same, None if there is none.
PyObject* substitute_of(PyObject*, PyObject* callable) {
  PyObject* other = record::substitute_of(callable);
  return Py_NewRef(other ? other : Py_None);
}

// read_setting(getter, value): the region depends on what the getter, without arguments, told when the trace began.
PyObject* read_setting(PyObject*, PyObject* args) {
  PyObject *getter, *value;
  record::Session* session = session_or_error();
  if (session == nullptr || !PyArg_ParseTuple(args, "OO:read_setting", &getter, &value)) {
    return nullptr;
  }
  session->recorder().graph().read_setting(getter, value);
  Py_RETURN_NONE;
}

// set_disabling_code(code): of the wrappers of torch._disable_dynamo (record/contract.h).
PyObject* set_disabling_code(PyObject*, PyObject* code) {
  record::set_disabling_code(code);
  Py_RETURN_NONE;
}

// set_stance(native, variant): whether compiled functions are called natively from now on; which of their graphs they use.
PyObject* set_stance(PyObject*, PyObject* args) {
  int native, variant;
  if (!PyArg_ParseTuple(args, "pi:set_stance", &native, &variant)) {
    return nullptr;
  }
  region::Captured::all_native = native != 0;
  region::Captured::variant = variant;
  Py_RETURN_NONE;
}

// set_locks(turn, trace): region/region.h, record/session.h
PyObject* set_locks(PyObject*, PyObject* args) {
  PyObject *turn, *trace;
  if (!PyArg_ParseTuple(args, "OO:set_locks", &turn, &trace)) {
    return nullptr;
  }
  region::Captured::turn() = share(turn);
  record::Session::lock() = share(trace);
  Py_RETURN_NONE;
}

// set_waiting(waits): whether a thread waits for its turn to compile; if not, its call runs eagerly.
PyObject* set_waiting(PyObject*, PyObject* waits) {
  region::Captured::waits_for_turn = waits == Py_True;
  Py_RETURN_NONE;
}

// set_interest(level, steps, spy or None): what listeners want to be told (region/tell.cpp).
PyObject* set_interest(PyObject*, PyObject* args) {
  int level, steps;
  PyObject* spy;
  if (!PyArg_ParseTuple(args, "ipO:set_interest", &level, &steps, &spy)) {
    return nullptr;
  }
  region::Captured::interest = static_cast<region::Interest>(level);
  region::Captured::steps_are_told = steps != 0;
  region::Captured::spy() = share(spy == Py_None ? nullptr : spy);
  Py_RETURN_NONE;
}

// take_profile() -> {phase: seconds that captures of this thread spent there since the last time}
PyObject* take_profile(PyObject*, PyObject*) {
  Ref<> result = steal(PyDict_New());
  std::array<int64_t, kPhases> spent = Phased::take();
  for (size_t i = 0; result && i < kPhases; ++i) {
    Ref<> seconds = steal(PyFloat_FromDouble(static_cast<double>(spent[i]) * 1e-9));
    if (!seconds || PyDict_SetItemString(result.get(), kPhaseNames[i], seconds.get()) < 0) {
      return nullptr;
    }
  }
  return result.release();
}

// run_backend(backend, module, examples): calls it. The random numbers that it draws are not the program's.
PyObject* run_backend(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "run_backend() takes 3 arguments");
    return nullptr;
  }
  Phased backend(Phase::Backend);
  tensor::RandomState random;
  Ref<> run = steal(PyObject_Vectorcall(args[0], args + 1, 2, nullptr));
  random.restore();
  return run.release();
}

PyObject* count_regions_without_graph(PyObject*, PyObject*) {
  return PyLong_FromLongLong(region::Captured::regions_without_graph);
}

// add_contract(name, callable): one more callable for a contract.
PyObject* add_contract(PyObject*, PyObject* args) {
  const char* row;
  PyObject* callable;
  if (!PyArg_ParseTuple(args, "sO:add_contract", &row, &callable) || !record::add_contract(row, callable)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

// has_contract(callable) -> True, or None.
PyObject* has_contract(PyObject*, PyObject* callable) {
  return Py_NewRef(record::contract_of(callable) != nullptr ? Py_True : Py_None);
}

// count_writes(): a number that grows with what this thread's trace changes.
PyObject* count_writes(PyObject*, PyObject*) {
  record::Session* session = record::Session::current();
  return PyLong_FromSize_t(session != nullptr ? session->recorder().count_writes() : 0);
}

// count_draws(): how often fakes drew random numbers.
PyObject* count_draws(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(tensor::count_draws()); }

// call_behind(object that stands for the result, function, arguments): a call that the region's exit makes.
PyObject* call_behind(PyObject*, PyObject* args) {
  PyObject *result, *function, *arguments;
  if (!PyArg_ParseTuple(args, "OOO!:call_behind", &result, &function, &PyTuple_Type, &arguments)) {
    return nullptr;
  }
  if (record::Session* session = record::Session::current()) {
    session->recorder().journal().note_late_call({share(result), share(function), share(arguments)});
  }
  Py_RETURN_NONE;
}

// count_foreign(): how often operators that are not torch's ran on fakes.
PyObject* count_foreign(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(tensor::count_foreign()); }

// note_draw(): the random generator is set.
PyObject* note_draw(PyObject*, PyObject*) {
  tensor::note_draw();
  Py_RETURN_NONE;
}

PyObject* is_tracing(PyObject*, PyObject*) { return PyBool_FromLong(record::Session::current() != nullptr); }

// set_fault(at, then or None: error, begins, rolling_back, rolled_back): record/fault.h; for the traces of this thread from
// now on.
PyObject* set_fault(PyObject*, PyObject* args) {
  long long at;
  PyObject *error, *begins, *rolling_back, *rolled_back;
  if (!PyArg_ParseTuple(args, "LOOOO:set_fault", &at, &error, &begins, &rolling_back, &rolled_back)) {
    return nullptr;
  }
  if (record::current_fault != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "alternator: this thread has a fault already");
    return nullptr;
  }
  auto given = [](PyObject* object) { return object == Py_None ? Ref<>() : share(object); };
  record::current_fault = new record::Fault{at, given(error), given(begins), given(rolling_back), given(rolled_back)};
  Py_RETURN_NONE;
}

// take_fault() -> (instructions seen, whether it came to the fault)
PyObject* take_fault(PyObject*, PyObject*) {
  std::unique_ptr<record::Fault> fault(std::exchange(record::current_fault, nullptr));
  return fault ? Py_BuildValue("LO", fault->instructions, fault->fired ? Py_True : Py_False)
               : Py_BuildValue("LO", 0LL, Py_False);
}

// look_into(object): for stand-ins. The table of purities says what it reads; there is nothing else to it.
PyObject* look_into(PyObject*, PyObject*) { Py_RETURN_NONE; }

// cache_parts(functools.lru_cache) -> (its dict, its function, whether its keys have types, the mark in front of keywords,
// its limit, the results that the trace made, its calls). For its stand-in.
PyObject* cache_parts(PyObject*, PyObject* object) {
  record::Session* session = session_or_error();
  py::Cache* cache = py::as_cache(object);
  if (session == nullptr || cache == nullptr) {
    return session ? PyErr_Format(PyExc_TypeError, "no functools.lru_cache") : nullptr;
  }
  const journal::CacheCalls* made = session->recorder().journal().calls_of(object);
  return made ? Py_BuildValue("(OOOOnOO)", cache->results, cache->function, cache->typed ? Py_True : Py_False,
                              cache->mark, cache->limit, made->results.get(), made->calls.get())
              : nullptr;
}

// find_cached(dict of a cache, key) -> the link or result; Ellipsis if there is none
PyObject* find_cached(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject* found = PyDict_GetItemWithError(args[0], args[1]);
  return found ? Py_NewRef(found) : PyErr_Occurred() ? nullptr : Py_NewRef(Py_Ellipsis);
}

// keep_cached(dict, key, result, limit, how many were kept before) -> the result
PyObject* keep_cached(PyObject*, PyObject* const* args, Py_ssize_t) { return Py_NewRef(args[2]); }

// cached_result(link)
PyObject* cached_result(PyObject*, PyObject* link) { return Py_NewRef(py::result_of_link(link)); }

// set_up(contracts, stand-ins, modules that run for real, tensor class, types compared by value, types compared by
// identity, code of module calls, torch.nn.Module.__getattr__ or None, torch.Tensor.__hash__ or None)
PyObject* set_up(PyObject*, PyObject* args) {
  PyObject *rows, *stand_ins, *modules, *tensor, *by_value, *by_identity, *module_call, *module_getattr, *tensor_hash;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O!OO:set_up", &PyDict_Type, &rows, &PyDict_Type, &stand_ins, &PyTuple_Type,
                        &modules, &PyType_Type, &tensor, &PyTuple_Type, &by_value, &PyTuple_Type, &by_identity,
                        &PyCode_Type, &module_call, &module_getattr, &tensor_hash)) {
    return nullptr;
  }
  py::as_cache(Py_None);  // tries out what caches are like, which runs Python code: not while tracing
  record::set_real_modules(modules);
  record::Recorder::module_call = Py_NewRef(module_call);
  auto keep = [](PyObject* function, PyObject** to, PyObject** code) {
    if (PyFunction_Check(function)) {
      *to = Py_NewRef(function);
      *code = Py_NewRef(PyFunction_GET_CODE(function));
    }
  };
  keep(module_getattr, &record::Recorder::module_getattr, &record::Recorder::module_getattr_code);
  keep(tensor_hash, &record::Recorder::tensor_hash, &record::Recorder::tensor_hash_code);
  source::set_torch_types(reinterpret_cast<PyTypeObject*>(tensor), by_value, by_identity);
  if (!record::fill_contracts(rows) || !record::fill_stand_ins(stand_ins) || !record::prepare_rules()) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_up", as_method<set_up>(), METH_VARARGS, nullptr},
    {"look_into", as_method<look_into>(), METH_O, nullptr},
    {"cache_parts", as_method<cache_parts>(), METH_O, nullptr},
    {"find_cached", as_method<find_cached>(), METH_FASTCALL, nullptr},
    {"keep_cached", as_method<keep_cached>(), METH_FASTCALL, nullptr},
    {"cached_result", as_method<cached_result>(), METH_O, nullptr},
    {"watch", as_method<watch>(), METH_VARARGS, nullptr},
    {"rely_on_offset", as_method<rely_on_offset>(), METH_O, nullptr},
    {"relies_on_offset", as_method<relies_on_offset>(), METH_O, nullptr},
    {"moving_sizes", as_method<moving_sizes>(), METH_O, nullptr},
    {"is_static", as_method<is_static>(), METH_NOARGS, nullptr},
    {"has_fixed_floats", as_method<has_fixed_floats>(), METH_NOARGS, nullptr},
    {"node_of", as_method<node_of>(), METH_O, nullptr},
    {"follow", as_method<follow>(), METH_VARARGS, nullptr},
    {"symbol_of", as_method<symbol_of>(), METH_O, nullptr},
    {"add_input", as_method<add_input>(), METH_O, nullptr},
    {"name_of", as_method<name_of>(), METH_O, nullptr},
    {"describe_call", as_method<describe_call>(), METH_O, nullptr},
    {"take_names", as_method<take_names>(), METH_NOARGS, nullptr},
    {"list_sites", as_method<list_sites>(), METH_NOARGS, nullptr},
    {"map_tensors", as_method<map_tensors>(), METH_FASTCALL, nullptr},
    {"current_place", as_method<current_place>(), METH_NOARGS, nullptr},
    {"abort", as_method<abort_trace>(), METH_VARARGS, nullptr},
    {"run_backend", as_method<run_backend>(), METH_FASTCALL, nullptr},
    {"take_profile", as_method<take_profile>(), METH_NOARGS, nullptr},
    {"count_regions_without_graph", as_method<count_regions_without_graph>(), METH_NOARGS, nullptr},
    {"add_contract", as_method<add_contract>(), METH_VARARGS, nullptr},
    {"set_substitute", as_method<set_substitute>(), METH_VARARGS, nullptr},
    {"read_setting", as_method<read_setting>(), METH_VARARGS, nullptr},
    {"substitute_of", as_method<substitute_of>(), METH_O, nullptr},
    {"set_disabling_code", as_method<set_disabling_code>(), METH_O, nullptr},
    {"set_stance", as_method<set_stance>(), METH_VARARGS, nullptr},
    {"set_locks", as_method<set_locks>(), METH_VARARGS, nullptr},
    {"set_waiting", as_method<set_waiting>(), METH_O, nullptr},
    {"set_interest", as_method<set_interest>(), METH_VARARGS, nullptr},
    {"has_contract", as_method<has_contract>(), METH_O, nullptr},
    {"set_fault", as_method<set_fault>(), METH_VARARGS, nullptr},
    {"take_fault", as_method<take_fault>(), METH_NOARGS, nullptr},
    {"count_memory", as_method<count_memory>(), METH_VARARGS, nullptr},
    {"release_memory", as_method<release_memory>(), METH_NOARGS, nullptr},
    {"is_tracing", as_method<is_tracing>(), METH_NOARGS, nullptr},
    {"count_writes", as_method<count_writes>(), METH_NOARGS, nullptr},
    {"count_draws", as_method<count_draws>(), METH_NOARGS, nullptr},
    {"call_behind", as_method<call_behind>(), METH_VARARGS, nullptr},
    {"count_foreign", as_method<count_foreign>(), METH_NOARGS, nullptr},
    {"note_draw", as_method<note_draw>(), METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "alternator._capture", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr,
};

PyObject* initialise() {
  // alternator._C prepares the loop.
  Ref<> core = steal(PyImport_ImportModule("alternator._C"));
  bool prepared = core && py::prepare_types();
  Ref<> module = prepared ? steal(PyModule_Create(&definition)) : nullptr;
  Ref<> type = module ? steal(PyType_FromSpec(&spec)) : nullptr;
  Ref<> fakes = type ? steal(tensor::make_fakes_module()) : nullptr;
  if (!fakes || PyModule_AddObjectRef(module.get(), "fakes", fakes.get()) < 0 ||
      PyModule_AddObjectRef(module.get(), "Captured", type.get()) < 0 || !record::add_mode_type(module.get()) ||
      !record::add_node_maker(module.get()) || !add_forwarder(module.get())) {
    return nullptr;
  }
  record::set_wrapper_type(reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get())));
  return module.release();
}

}  // namespace
}  // namespace alternator::api

PyMODINIT_FUNC PyInit__capture() { return alternator::boundary<alternator::api::initialise>(); }
