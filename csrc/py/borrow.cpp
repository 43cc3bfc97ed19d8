#include "py/borrow.h"

#include <iterator>

#include "base/error.h"

namespace alternator::py {

PyObject* borrowed_globals = nullptr;

namespace {

struct Borrowable {
  Op op;
  int operands;
  PyObject* function;
};

// Must list every row of opcode.def that says Borrow (tests/py compares).
Borrowable borrowables[] = {
    {Op::kPREP_RERAISE_STAR, 2, nullptr},
    {Op::kASYNC_GEN_WRAP, 1, nullptr},
};

PyObject* empty_function = nullptr;

Ref<> define(const char* source, const char* name) {
  Ref<> ran = steal(PyRun_String(source, Py_file_input, borrowed_globals, borrowed_globals));
  if (!ran) {
    return nullptr;
  }
  Ref<> function = share(PyDict_GetItemString(borrowed_globals, name));
  if (!function) {
    PyErr_SetString(PyExc_SystemError, "alternator: a function for borrowed instructions was not defined");
  }
  return function;
}

// Turns a function of two arguments into the one-instruction program.
bool assemble(Borrowable* row) {
  Ref<> function = define("def borrowed(a, b): pass\n", "borrowed");
  if (!function) {
    return false;
  }
  std::string bytes;
  auto emit = [&](Op op, int oparg) {
    bytes += static_cast<char>(number_table[static_cast<int>(op)]);
    bytes += static_cast<char>(oparg);
  };
  for (int i = 0; i < row->operands; ++i) {
    emit(Op::kLOAD_FAST, i);
  }
  emit(row->op, 0);
  emit(Op::kRETURN_VALUE, 0);
  Ref<> code = steal(PyObject_GetAttrString(function.get(), "__code__"));
  Ref<> replace = code ? steal(PyObject_GetAttrString(code.get(), "replace")) : nullptr;
  Ref<> none = steal(PyTuple_New(0));
  // An async generator's flag satisfies the assertions that CPython makes of ASYNC_GEN_WRAP; not needed in release
  // builds, and it would turn the call into a generator: so the flags stay a plain function's.
  Ref<> changes = steal(Py_BuildValue("{s:y#,s:i,s:y}", "co_code", bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                      "co_stacksize", row->operands + 1, "co_exceptiontable", ""));
  if (!replace || !none || !changes) {
    return false;
  }
  Ref<> assembled = steal(PyObject_Call(replace.get(), none.get(), changes.get()));
  if (!assembled || PyObject_SetAttrString(function.get(), "__code__", assembled.get()) < 0) {
    return false;
  }
  row->function = function.release();
  return true;
}

}  // namespace

bool prepare_borrowed() {
  borrowed_globals = PyDict_New();
  if (borrowed_globals == nullptr || PyDict_SetItemString(borrowed_globals, "__builtins__", PyEval_GetBuiltins()) < 0) {
    return false;
  }
  empty_function = define("def empty(): pass\n", "empty").release();
  if (empty_function == nullptr) {
    return false;
  }
  for (Borrowable& row : borrowables) {
    if (!assemble(&row)) {
      return false;
    }
  }
  return true;
}

Ref<> run_borrowed(Op op, PyObject* const* operands, int count) {
  for (const Borrowable& row : borrowables) {
    if (row.op == op) {
      PyObject* arguments[2] = {operands[0], count > 1 ? operands[1] : Py_None};
      return steal(PyObject_Vectorcall(row.function, arguments, 2, nullptr));
    }
  }
  PyErr_Format(PyExc_SystemError, "alternator: instruction %s is not a borrowed one", op_row(op).name);
  return nullptr;
}

bool run_empty_function(ThreadState*) {
  Ref<> result = steal(PyObject_CallNoArgs(empty_function));
  if (result) {
    return true;
  }
  // The empty function's line must not show in the traceback.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_XDECREF(traceback);
  PyErr_Restore(type, value, nullptr);
  return false;
}

}  // namespace alternator::py
