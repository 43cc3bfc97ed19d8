#include "py/operators.h"

#include <iterator>

namespace alternator::py {
namespace {

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* power_in_place(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

}  // namespace

// In the order of CPython's NB_ constants.
const binaryfunc kBinaryOperators[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    power_in_place,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

static_assert(NB_ADD == 0 && NB_XOR == 12 && NB_INPLACE_ADD == 13 && NB_INPLACE_XOR == 25);
static_assert(NB_POWER == 8 && NB_INPLACE_POWER == 21 && NB_REMAINDER == 6 && NB_SUBTRACT == 10);
static_assert(std::size(kBinaryOperators) == 26);

}  // namespace alternator::py
