// Recipes: how the exit of a region rebuilds the value that the traced function returned. A small program; each step makes
// one value from earlier ones, so identity and sharing inside the value are kept.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "journal/journal.h"
#include "source/value.h"

namespace alternator::exits {

enum class StepKind : uint8_t {
  Constant,  // a primitive or a pinned object
  Node,      // an object from outside: the slot that the guards filled
  Output,    // an output of the graph
  Tuple,
  List,
  Dict,  // keys and values by turns
  Slice,
  TypedTuple,  // a subclass of tuple, made by its own type's tp_new from a tuple
  Instance,    // of a class of the program: attributes (name, value) by turns; for a subclass of dict its items too
  Method,      // function and self
};

struct Step {
  explicit Step(StepKind step_kind) : kind(step_kind) {}

  StepKind kind;
  Ref<> object;  // the constant, or the class
  int index = 0;
  std::vector<int> parts;  // earlier steps
  std::vector<int> items;  // Instance of a dict: keys and values by turns
};

// A write to an object from outside, done when the values are made.
struct Effect {
  journal::PlaceKind kind;
  int node;
  Ref<> key;
  int step;  // the value; -1: the place is deleted
};

struct ExitProgram {
  std::vector<Step> steps;
  int result = -1;
  std::vector<Effect> effects;  // in the order of the first writes
};

// Writes the program for a value and for what the journal says was written. `node_of` tells the node of an object from outside (-1: none), `output_of` the output of
// the graph that a tensor is (-1: none). Empty, with a reason, if something in the value cannot be rebuilt.
class ExitWriter {
 public:
  ExitWriter(std::function<int(PyObject*)> node_of, std::function<int(PyObject*)> output_of)
      : node_of_(std::move(node_of)), output_of_(std::move(output_of)) {}
  std::optional<ExitProgram> write(PyObject* value, const journal::Journal& journal);
  const std::string& reason() const { return reason_; }

 private:
  int add(PyObject* value);
  int add_step(PyObject* value, Step step);
  int refuse(PyObject* value);
  int add_parts(PyObject* value, StepKind kind);
  int add_instance(PyObject* value);
  bool add_dict_items(PyObject* dict, std::vector<int>* items);

  std::function<int(PyObject*)> node_of_;
  std::function<int(PyObject*)> output_of_;
  ExitProgram program_;
  std::unordered_map<PyObject*, int> made_;
  std::unordered_map<PyObject*, bool> open_;
  std::string reason_;
};

// Runs the program: makes the values, then does the effects. `outputs` is the tuple that the graph returned. Null with an
// exception set.
Ref<> run_exit(const ExitProgram& program, const std::vector<PyObject*>& slots, PyObject* outputs);

}  // namespace alternator::exits
