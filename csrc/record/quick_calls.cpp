#include "record/quick_calls.h"

#include "base/shortage.h"
#include "py/names.h"
#include "py/opcode.h"
#include "record/arguments.h"
#include "record/node_maker.h"
#include "record/recorder.h"
#include "torch/ignored_warnings.h"
#include "torch/python_fakes.h"

namespace alternator::record {
namespace {

// Tracer.quick_parts, in its order.
enum Part {
  kUnusual,     // a list: while there is anything in it, no call is quick
  kRules,       // function -> rule
  kRecordCall,  // the rule that makes a node
  kMetadata,    // the rule that only tells something
  kKnown,       // id of a tensor -> Known
  kKnownClass,
  kFake,  // members of it
  kNode,
  kFakeOf,  // methods of the tracer
  kNodeOf,
  kKnownNode,
  kMode,  // for running on fakes
  kNameTarget,
  kNodeMaker,
  kCalls,  // lists of the graph's writer
  kSites,
  kExampleClass,
  kTargets,  // what kNameTarget said
  kParts,
};

// Arguments that make a call something else than a node for its result.
bool has_special_keyword(PyObject* kwargs) {
  PyObject* const names[] = {py::names.out, py::names.requires_grad};
  for (PyObject* name : names) {
    if (kwargs != nullptr && PyDict_GetItemWithError(kwargs, name) != nullptr) {
      return true;
    }
  }
  // A tensor in the place of a number: torch would ask for its value (alternator/torch_numbers.py).
  PyObject* const numbers[] = {py::names.value, py::names.alpha};
  for (PyObject* name : numbers) {
    PyObject* number = kwargs != nullptr ? PyDict_GetItemWithError(kwargs, name) : nullptr;
    if (number != nullptr && source::is_tensor(number)) {
      return true;
    }
  }
  return false;
}

}  // namespace

QuickCalls::QuickCalls(PyObject* tracer, Recorder* recorder) : recorder_(recorder), tracer_(tracer) {
  parts_ = steal(PyObject_CallMethod(tracer, "quick_parts", nullptr));
  forget_error();
  if (parts_ && !(PyTuple_CheckExact(parts_.get()) && PyTuple_GET_SIZE(parts_.get()) == kParts)) {
    parts_.reset();
  }
}

Ref<> QuickCalls::call(PyObject* function, PyObject* args, PyObject* kwargs) {
  if (!parts_ || PyList_GET_SIZE(part(kUnusual)) > 0 || !PyTuple_CheckExact(args)) {
    return nullptr;
  }
  kwargs = kwargs == Py_None || (kwargs != nullptr && PyDict_GET_SIZE(kwargs) == 0) ? nullptr : kwargs;
  PyObject* rule = PyDict_GetItemWithError(part(kRules), function);
  if (rule == nullptr) {
    forget_error();
    return nullptr;
  }
  py::Op op = py::Step(recorder_->position().instruction).op;
  bool rows = op == py::Op::kGET_ITER || op == py::Op::kUNPACK_SEQUENCE || op == py::Op::kUNPACK_EX;
  if ((rule != part(kRecordCall) && rule != part(kMetadata)) || has_special_keyword(kwargs) || rows) {
    return nullptr;
  }
  const uint64_t warnings = tensor::IgnoredWarnings::count();
  Ref<> result = compute(function, args, kwargs);
  if (result && rule == part(kMetadata) && tensor::IgnoredWarnings::count() != warnings) {
    return nullptr;  // no graph would give the warning
  }
  if (result && (rule == part(kRecordCall) || source::is_tensor(result.get()))) {
    result = write(function, args, kwargs, result.get());
  }
  if (!result && !PyErr_ExceptionMatches(PyExc_MemoryError) && !PyErr_ExceptionMatches(PyExc_RecursionError) &&
      PyErr_ExceptionMatches(PyExc_Exception)) {
    forget_error();  // it will come again, and Tracer.record has words for it
  }
  return result;
}

Ref<> QuickCalls::compute(PyObject* function, PyObject* args, PyObject* kwargs) {
  TensorMap fakes(part(kFakeOf), part(kKnown), part(kFake));
  Ref<> fake_args = map_tensors(args, fakes);
  Ref<> fake_kwargs = fake_args && kwargs != nullptr ? map_tensors(kwargs, fakes) : nullptr;
  if (!fake_args || (kwargs != nullptr && !fake_kwargs)) {
    return nullptr;
  }
  if (PyList_GET_SIZE(part(kUnusual)) > 0) {
    return nullptr;  // a tensor was met that is
  }
  return steal(tensor::call_on_fakes(part(kMode), function, fake_args.get(), fake_kwargs.get()));
}

bool QuickCalls::name_nodes() {
  TensorMap nodes(part(kKnownNode), part(kKnown), part(kNode));
  for (const auto& [tensor, name] : recorder_->take_given_names()) {
    Ref<> node = nodes.of(tensor.get());
    if (!node || (node.get() != Py_None && !name_node(as_node_maker(part(kNodeMaker)), node.get(), name.get()))) {
      return false;
    }
  }
  return true;
}

// As the program wrote it if it made the call itself.
bool QuickCalls::describe(PyObject* function, PyObject* args, PyObject* kwargs, Written* written) {
  PyObject* known = PyDict_GetItemWithError(part(kTargets), function);
  Ref<> target = known ? share(known) : steal(PyObject_CallOneArg(part(kNameTarget), function));  // (kind, target)
  Ref<> call = target ? recorder_->describe_call(function) : nullptr;  // None or (operator, args, kwargs)
  if (!call || !name_nodes()) {
    return false;
  }
  written->kind = share(PyTuple_GET_ITEM(target.get(), 0));
  written->target = share(PyTuple_GET_ITEM(target.get(), 1));
  if (call.get() != Py_None) {
    PyObject* operation = PyTuple_GET_ITEM(call.get(), 0);
    PyObject* operands = PyTuple_GET_ITEM(call.get(), 1);
    bool on_tensors = false;
    for (Py_ssize_t i = 0; operation != Py_None && i < PyTuple_GET_SIZE(operands); ++i) {
      on_tensors = on_tensors || source::is_tensor(PyTuple_GET_ITEM(operands, i));
    }
    if (operation == Py_None || on_tensors) {
      args = operands;
      kwargs = operation == Py_None ? PyTuple_GET_ITEM(call.get(), 2) : Py_None;
      kwargs = kwargs == Py_None ? nullptr : kwargs;
    }
    if (on_tensors) {
      PyObject* const function_call = py::names.call_function;
      written->kind = share(function_call);
      written->target = share(operation);
    }
  }
  TensorMap nodes(part(kNodeOf), part(kKnown), part(kNode));
  written->args = map_tensors(args, nodes);
  if (written->args) {
    written->kwargs = kwargs != nullptr ? map_tensors(kwargs, nodes) : steal(PyDict_New());
  }
  return static_cast<bool>(written->kwargs);
}

Ref<> QuickCalls::write(PyObject* function, PyObject* args, PyObject* kwargs, PyObject* result) {
  Written written;
  if (!describe(function, args, kwargs, &written)) {
    return nullptr;
  }
  Ref<> site = steal(PyLong_FromLong(recorder_->current_site()));
  Ref<> name;
  Ref<> node = make_node(as_node_maker(part(kNodeMaker)), written.kind.get(), written.target.get(), written.args.get(),
                         written.kwargs.get(), &name);
  Ref<> origin = site && node ? steal(PyTuple_Pack(2, site.get(), name.get())) : nullptr;
  if (!origin || PyList_Append(part(kCalls), node.get()) < 0 || PyList_Append(part(kSites), origin.get()) < 0) {
    return nullptr;
  }
  return adopt(result, node.get(), site.get());
}

Ref<> QuickCalls::adopt(PyObject* result, PyObject* node, PyObject* site) {
  if (!source::is_tensor(result)) {
    return steal(PyObject_CallMethod(tracer_, "adopt_items", "OOO", result, node, site));
  }
  Ref<> id = steal(PyLong_FromVoidPtr(result));
  if (!id || PyDict_GetItemWithError(part(kKnown), id.get()) != nullptr || !tensor::is_ordinary_result(result)) {
    return PyErr_Occurred() ? nullptr : steal(PyObject_CallMethod(tracer_, "adopt", "OO", result, node));
  }
  PyObject* const meta = py::names.meta;
  PyObject* const example_value = py::names.example_value;
  PyObject* parts[] = {Py_None, result, node};
  Ref<> entry = steal(PyObject_Vectorcall(part(kKnownClass), parts, 3, nullptr));
  Ref<> example = entry ? steal(tensor::make_example_of(result, part(kExampleClass))) : nullptr;
  Ref<> facts = example ? steal(PyObject_GetAttr(node, meta)) : nullptr;
  if (!facts || PyDict_SetItem(facts.get(), example_value, example.get()) < 0 ||
      PyDict_SetItem(part(kKnown), id.get(), entry.get()) < 0) {
    return nullptr;
  }
  return share(result);
}

}  // namespace alternator::record
