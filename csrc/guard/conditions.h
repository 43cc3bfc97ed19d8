// Conditions on the sizes of tensors and on numbers that a region does not have constant: "2 <= x.size()[0]". They relate
// several objects, so they are looked at when the guards have found these. alternator/shapes.py makes them of what torch's
// ShapeEnv assumed, as programs for a machine with a stack of numbers.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "torch/facts.h"

namespace alternator::guard {

// An integer, or a float.
struct Number {
  int64_t whole = 0;
  double real = 0;
  bool is_real = false;

  static Number of(int64_t value) { return {value, 0, false}; }
  static Number of(double value) { return {0, value, true}; }
};

// The object of a node, or a number of its geometry if it is a tensor.
struct Quantity {
  int node = -1;
  bool is_object = false;
  bool is_scalar = false;  // a float, which the graph gets as a tensor
  tensor::Extent extent = tensor::Extent::Size;
  int dimension = 0;

  // False if it is neither a 64-bit integer nor a float.
  bool read(const std::vector<PyObject*>& slots, Number* value) const;
  Ref<> object(const std::vector<PyObject*>& slots) const;
};

// Reads (node, extent, dimension); the extent is "size", "stride", "offset", "object" or "scalar".
// False with an exception set.
bool parse_quantity(PyObject* row, Quantity* quantity);

class Conditions {
 public:
  // Of ([quantity], [(text, [(operation, operand)])]). False with an exception set.
  bool parse(PyObject* rows);
  bool is_empty() const { return programs_.empty(); }
  // The number of the first condition that does not hold; -1 if all do.
  int find_failed(const std::vector<PyObject*>& slots) const;
  const std::string& text(int number) const { return programs_[number].text; }
  size_t size() const { return programs_.size(); }
  // The nodes that they look at.
  std::vector<int> nodes() const;

 private:
  enum class Operation : uint8_t {
#define CONDITION(name, operands) name,
#include "guard/condition.def"
#undef CONDITION
  };
  struct Instruction {
    Operation operation;
    int64_t operand;
  };
  struct Program {
    std::string text;
    std::vector<Instruction> instructions;
  };
  static bool run(const Program& program, const std::vector<Number>& values);
  // False if the result cannot be told: it is too large, or a division by zero.
  static bool apply(Operation operation, const Number& a, const Number& b, Number* result);
  static bool apply_to_integers(Operation operation, int64_t a, int64_t b, int64_t* result);
  static bool apply_to_reals(Operation operation, double a, double b, Number* result);

  std::vector<Quantity> quantities_;
  std::vector<Program> programs_;
};

}  // namespace alternator::guard
