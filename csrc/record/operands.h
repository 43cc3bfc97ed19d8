// What instructions do with the top of the stack, as far as the recorder asks.
#pragma once

#include "py/opcode.h"
#include "py/python.h"

namespace alternator::record {

// The operands that decide who executes an instruction: with a tensor among them, torch's own code does.
int count_deciding_operands(py::Op op);
// The truth of the value on top decides.
bool asks_for_truth(py::Op op);
// How many values from the top the instruction takes, replaces or moves: at least so many.
int count_touched(py::Op op, int oparg);
// It only moves its operands; what they are does not matter. Of a call it depends on the callee.
bool only_moves(py::Op op);
// The operand `depth` values below the top is put into a container, as it is.
bool is_stored(py::Op op, int depth);
// It looks at what the operand `depth` values below the top holds: compares, hashes or prints it.
bool looks_into(py::Op op, int depth);

// An int or float, and of no subclass. `value` may be null.
inline bool is_number(PyObject* value) {
  return value != nullptr && (PyLong_CheckExact(value) || PyFloat_CheckExact(value));
}
// A list or tuple whose class is no Python code: torch.Size is one.
inline bool is_plain_sequence(PyObject* value) {
  return PyList_CheckExact(value) || (PyTuple_Check(value) && !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE));
}

}  // namespace alternator::record
