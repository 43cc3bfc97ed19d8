// The extension module alternator._C: initialisation, and the functions that the Python package is made of.
#include "api/interpreted.h"

#include <cstdio>
#include <new>
#include <stdexcept>
#include <string_view>

#include "base/boundary.h"
#include "base/ref.h"
#include "interp/cache.h"
#include "interp/call.h"
#include "interp/evaluate.h"
#include "interp/hook.h"
#include "interp/replay.h"
#include "interp/snapshot.h"
#include "interp/watch.h"
#include "py/borrow.h"
#include "py/members.h"
#include "py/names.h"

namespace alternator::api {
namespace {

Ref<> call_or_execute(PyObject* const* arguments, Py_ssize_t count) {
  if (PyUnicode_Check(arguments[0]) && count == 2) {
    // A file, compiled and run as the interpreter does it: its errors are worded by the same code.
    Ref<> path = steal(PyUnicode_EncodeFSDefault(arguments[0]));
    std::FILE* file = path ? std::fopen(PyBytes_AS_STRING(path.get()), "rb") : nullptr;
    if (file == nullptr) {
      if (path) {
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, arguments[0]);
      }
      return nullptr;
    }
    return steal(
        PyRun_FileExFlags(file, PyBytes_AS_STRING(path.get()), Py_file_input, arguments[1], arguments[1], 1, nullptr));
  }
  return steal(PyObject_Vectorcall(arguments[0], arguments + 1, count - 1, nullptr));
}

// run_main(interpret, callable, *args) or run_main(interpret, path, globals): the body of `python -m alternator`. It runs as
// the interpreter's own main would: no frame above it, an uncaught exception printed (SystemExit ends the process); in our
// loop if `interpret` says so. Returns the exit status, or None for an uncaught KeyboardInterrupt, which the caller passes
// on as a signal.
PyObject* run_main(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 2) {
    PyErr_SetString(PyExc_TypeError, "run_main() takes a flag, a callable and its arguments");
    return nullptr;
  }
  if (arguments[0] == Py_True) {
    interp::interpret_process();
  }
  ++arguments;
  --count;
  Ref<> result;
  bool interrupted = false;
  {
    py::FreshStack fresh(py::current_thread());
    result = call_or_execute(arguments, count);
    if (!result) {
      interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
      PyErr_Print();
    }
  }
  if (interrupted) {
    Py_RETURN_NONE;
  }
  return PyLong_FromLong(result ? 0 : 1);
}

PyObject* set_idle_hook(PyObject*, PyObject* on) {
  static constinit bool held = false;
  int wanted = PyObject_IsTrue(on);
  if (wanted < 0) {
    return nullptr;
  }
  if (wanted && !held) {
    interp::acquire_hook();
  } else if (!wanted && held) {
    interp::release_hook();
  }
  held = wanted;
  Py_RETURN_NONE;
}

PyObject* is_interpreting(PyObject*, PyObject*) { return PyBool_FromLong(interp::is_interpreting()); }

PyObject* statistics(PyObject*, PyObject*) {
  return Py_BuildValue("{s:K,s:K}", "frames_interpreted", static_cast<unsigned long long>(interp::frames_interpreted),
                       "frames_handed_over", static_cast<unsigned long long>(interp::frames_handed_over));
}

// replay(report, start, every, fn, args, kwargs): see interp/replay.h. Fills the dict `report` in any case.
PyObject* replay(PyObject*, PyObject* args) {
  PyObject *report, *callable, *call_args, *call_kwargs;
  unsigned long long start, every;
  if (!PyArg_ParseTuple(args, "O!KKOO!O!:replay", &PyDict_Type, &report, &start, &every, &callable, &PyTuple_Type,
                        &call_args, &PyDict_Type, &call_kwargs)) {
    return nullptr;
  }
  interp::ReplayReport filled;
  Ref<> result = interp::replay(callable, call_args, call_kwargs, start, every, &filled);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<> refused = steal(PyList_New(0));
  for (const std::string& reason : filled.refused) {
    Ref<> text = steal(PyUnicode_DecodeUTF8(reason.data(), static_cast<Py_ssize_t>(reason.size()), "replace"));
    if (!refused || !text || PyList_Append(refused.get(), text.get()) < 0) {
      break;
    }
  }
  Ref<> update = steal(Py_BuildValue("{s:K,s:K,s:O}", "instructions", filled.instructions, "recreated",
                                     filled.recreated, "refused", refused ? refused.get() : Py_None));
  bool kept = update && PyDict_Update(report, update.get()) == 0;
  if (result && !kept) {
    return nullptr;
  }
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return result.release();
}

const char* how_text(py::How how) {
  switch (how) {
    case py::How::Own: return "own";
    case py::How::Borrow: return "borrow";
    default: return "hand_over";
  }
}

const char* recording_text(py::Recording recording) {
  switch (recording) {
    case py::Recording::Harmless: return "harmless";
    case py::Recording::Rule: return "rule";
    default: return "break";
  }
}

// The rows of opcode.def: {name: (number, caches, how, jumps, leaves, recording, operands)}, for tests and documentation.
PyObject* opcodes(PyObject*, PyObject*) {
  Ref<> table = steal(PyDict_New());
  for (int i = 1; table && i < static_cast<int>(py::Op::Count); ++i) {
    auto op = static_cast<py::Op>(i);
    const py::OpRow& row = py::op_row(op);
    Ref<> entry = steal(Py_BuildValue("(iisOOss)", py::number_table[i], py::cache_units(op), how_text(row.how),
                                      row.jump != py::Jump::None ? Py_True : Py_False,
                                      row.next == py::Next::Leaves ? Py_True : Py_False, recording_text(row.recording),
                                      row.operands));
    if (!entry || PyDict_SetItemString(table.get(), row.name, entry.get()) < 0) {
      return nullptr;
    }
  }
  return table.release();
}

// canonical(number): the name of the canonical opcode for an opcode byte, specialised or not; None if there is none.
PyObject* canonical(PyObject*, PyObject* number) {
  long byte = PyLong_AsLong(number);
  if (byte == -1 && PyErr_Occurred()) {
    return nullptr;
  }
  if (byte < 0 || byte > 255) {
    PyErr_SetString(PyExc_ValueError, "an opcode is a byte");
    return nullptr;
  }
  py::Op op = py::canonical_table[byte];
  if (op == py::Op::Unknown) {
    Py_RETURN_NONE;
  }
  return PyUnicode_FromString(py::op_row(op).name);
}

PyObject* stack_effect(PyObject*, PyObject* args) {
  int number, oparg, jumps;
  if (!PyArg_ParseTuple(args, "iip:stack_effect", &number, &oparg, &jumps)) {
    return nullptr;
  }
  return PyLong_FromLong(py::stack_effect(py::canonical_table[number & 255], oparg, jumps));
}

// count_touched(number, oparg): how many values from the top an instruction touches.
PyObject* count_touched(PyObject*, PyObject* args) {
  int number, oparg;
  if (!PyArg_ParseTuple(args, "ii:count_touched", &number, &oparg)) {
    return nullptr;
  }
  return PyLong_FromLong(py::count_touched(py::canonical_table[number & 255], oparg));
}

// stack_depths(code): the depth of the value stack before each instruction, -1 where it cannot be reached.
PyObject* stack_depths(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) {
    PyErr_SetString(PyExc_TypeError, "stack_depths() takes a code object");
    return nullptr;
  }
  auto* object = reinterpret_cast<PyCodeObject*>(code);
  Ref<> depths = steal(PyList_New(0));
  for (int i = 0; depths && i < py::instruction_count(object); ++i) {
    Ref<> depth = steal(PyLong_FromLong(interp::stack_shape(object, i).depth));
    if (!depth || PyList_Append(depths.get(), depth.get()) < 0) {
      return nullptr;
    }
  }
  return depths.release();
}

// set_watch(at_instruction, at_region), or set_watch(None, None): interp/watch.h, for this thread.
PyObject* set_watch(PyObject*, PyObject* args) {
  PyObject *at_instruction, *at_region;
  if (!PyArg_ParseTuple(args, "OO:set_watch", &at_instruction, &at_region)) {
    return nullptr;
  }
  delete std::exchange(interp::current_watch, nullptr);
  if (at_instruction != Py_None) {
    interp::current_watch = new interp::Watch{share(at_instruction), share(at_region), nullptr};
  }
  Py_RETURN_NONE;
}

// run_watched(fn, args, kwargs)
PyObject* run_watched(PyObject*, PyObject* args) {
  PyObject *callable, *call_args, *call_kwargs;
  if (!PyArg_ParseTuple(args, "OO!O!:run_watched", &callable, &PyTuple_Type, &call_args, &PyDict_Type, &call_kwargs)) {
    return nullptr;
  }
  return interp::run_watched(callable, call_args, call_kwargs).release();
}

PyObject* describe_frames(PyObject*, PyObject* missing) { return interp::describe_frames(missing).release(); }

// describe_generator(generator, missing)
PyObject* describe_generator(PyObject*, PyObject* args) {
  PyObject *generator, *missing;
  if (!PyArg_ParseTuple(args, "OO:describe_generator", &generator, &missing)) {
    return nullptr;
  }
  return interp::describe_generator(generator, missing).release();
}

PyObject* own_attributes(PyObject*, PyObject* object) { return py::own_attributes(object).release(); }

// throw_exception("memory" or a text): for tests of the boundary.
PyObject* throw_exception(PyObject*, PyObject* what) {
  const char* text = PyUnicode_AsUTF8(what);
  if (text == nullptr) {
    return nullptr;
  }
  if (std::string_view(text) == "memory") {
    throw std::bad_alloc();
  }
  throw std::runtime_error(text);
}

PyMethodDef methods[] = {
    {"run_main", as_method<run_main>(), METH_FASTCALL, nullptr},
    {"set_idle_hook", as_method<set_idle_hook>(), METH_O, nullptr},
    {"is_interpreting", as_method<is_interpreting>(), METH_NOARGS, nullptr},
    {"statistics", as_method<statistics>(), METH_NOARGS, nullptr},
    {"replay", as_method<replay>(), METH_VARARGS, nullptr},
    {"opcodes", as_method<opcodes>(), METH_NOARGS, nullptr},
    {"canonical", as_method<canonical>(), METH_O, nullptr},
    {"count_touched", as_method<count_touched>(), METH_VARARGS, nullptr},
    {"stack_effect", as_method<stack_effect>(), METH_VARARGS, nullptr},
    {"stack_depths", as_method<stack_depths>(), METH_O, nullptr},
    {"own_attributes", as_method<own_attributes>(), METH_O, nullptr},
    {"set_watch", as_method<set_watch>(), METH_VARARGS, nullptr},
    {"run_watched", as_method<run_watched>(), METH_VARARGS, nullptr},
    {"describe_frames", as_method<describe_frames>(), METH_O, nullptr},
    {"describe_generator", as_method<describe_generator>(), METH_VARARGS, nullptr},
    {"throw_exception", as_method<throw_exception>(), METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "alternator._C", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr,
};

PyObject* initialise() {
  py::fill_opcode_tables();
  Ref<> module = steal(PyModule_Create(&definition));
  if (!module || !py::prepare_names() || !py::prepare_borrowed() || !interp::prepare_calls() ||
      !interp::prepare_caches() || !interp::prepare_snapshots() || !add_interpreted_type(module.get())) {
    return nullptr;
  }
  return module.release();
}

}  // namespace
}  // namespace alternator::api

PyMODINIT_FUNC PyInit__C() { return alternator::boundary<alternator::api::initialise>(); }
