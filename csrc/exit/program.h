// The exit program: what a region leaves behind. Steps make values from graph outputs, objects from outside, constants and
// earlier steps, so that identity and sharing are those of eager execution; effects write to objects from outside; then the
// region returns a value, or frames are put back in the middle of their functions.
//
//   steps     0: Output 0   1: NewList   2: Constant 'a'   3: Fill list 1 with (0)   ..
//   effects   extend node 4 with (1), set attribute 'x' of node 7 to 0, ..
//   result    1                        a return
//   frames    function, offset, locals, stack of each     a break
//
// Nothing of the program is kept alive: its classes, functions and modules are nodes, which the guards watch.
// Values that can hold themselves (containers, instances, cells, functions) are made empty and filled by a later step.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "interp/snapshot.h"
#include "journal/journal.h"

namespace alternator::exits {

enum class StepKind : uint8_t {
  Constant,  // a primitive, or an object of CPython itself
  Node,      // an object from outside: the slot that the guards filled
  Ahead,     // what an iterator from outside will give, `number` items ahead
  Slot,      // what the region's start has in a local or on the stack, whatever it is
  Output,    // an output of the graph
  // Made at once from earlier steps.
  Tuple,
  TypedTuple,  // a subclass of tuple: the value of step `index`
  FrozenSet,   // likewise
  Slice,
  Arithmetic,     // of two numbers; `number` is the operand of BINARY_OP
  Method,         // function and self
  Builtin,        // a builtin method: the object is one like it without self, parts[0] is self
  View,           // of a dict
  TableIterator,  // over parts[0], of which it has given `number` items; or one that has ended. The object is its class
  Call,           // the value of step `index`, called with the parts: an iterator, a partial, a hook that is registered
  Traceback,
  Raise,  // raises the object: for tests (region/spoil.h)
  // Made empty.
  NewList,
  NewDict,
  NewSet,
  NewCell,
  NewInstance,   // of the value of step `index`; parts are the arguments of an exception
  NewFunction,   // object is the code; parts[0] is the dict of globals
  NewGenerator,  // the object is (code, name, qualified name); parts[0] is the dict of globals
  // Fills the value of step `index`.
  FillList,
  FillDict,  // keys and values by turns
  FillSet,
  FillCell,
  FillAttributes,  // names and values by turns
  FillNamespace,   // the part is its __dict__
  FillSlots,       // the object is a tuple of offsets
  FillDeque,
  FillState,      // __setstate__
  FillPosition,   // of an iterator over parts[0]; the object is a tuple: see py::TablePosition
  FillFunction,   // name, qualname, defaults, keyword defaults, closure, annotations, doc, module
  FillException,  // cause, context, traceback; the object tells whether the context is suppressed
  EndGenerator,   // it holds nothing any more
  FillGenerator,  // locals, stack, its own current exception, its function; the object is (offset, count of locals, code)
};

struct Step {
  explicit Step(StepKind step_kind) : kind(step_kind) {}

  StepKind kind;
  Ref<> object;
  int index = 0;
  Py_ssize_t number = 0;
  std::vector<int> parts;  // earlier steps; -1: nothing
};

enum class EffectKind : uint8_t {
  SetPlace,  // with the place's kind, key and offset; steps: the value, or none to delete it
  Extend,    // a list
  SetIndex,
  Splice,      // a list from `index` on
  SetItem,     // a dict: key, value
  DeleteItem,  // key
  Rewrite,     // a dict, set or deque: everything
  Shift,       // a deque: `index` items less at the left, then more at the right
  Advance,     // an iterator, by `index` items
  Raise,       // raises the key: for tests
  CallCache,   // a functools.lru_cache is called, and its function gives: args, kwargs, result
};

// A write to an object from outside, done when the values are made.
struct Effect {
  explicit Effect(EffectKind effect_kind, int owner) : kind(effect_kind), node(owner) {}

  EffectKind kind;
  int node;
  journal::PlaceKind place{};
  py::BodyKind body{};
  Ref<> key;
  Py_ssize_t index = 0;
  std::vector<int> steps;
};

struct FrameRecipe {
  Ref<PyCodeObject> code;
  int offset = 0;
  int function = -1;
  int generator = -1;
  int handled = -1;
  std::vector<int> locals, stack;  // -1: null
  std::vector<int> outer_exceptions;
};

struct ExitProgram {
  std::vector<Step> steps;
  std::vector<Effect> effects;      // in the order of the first writes
  std::vector<Step> positions;      // of iterators: behind the effects, which may fill what they go over
  int result = -1;                  // a return
  std::vector<FrameRecipe> frames;  // a break
  int handled = -1;
  Py_ssize_t outputs = 0;  // how many the graph has to give, at least
  size_t kept_frames = 0;  // the outermost ones are those that the region began in
};

// A number that is another one at each call: how it is computed from two others, by an operand of BINARY_OP.
struct Arithmetic {
  int operation;
  PyObject *left, *right;
};

// Numbers the nodes that the program refers to anew, from 0; returns them, in the order of their new numbers. Counts the
// outputs.
std::vector<int> number_nodes(ExitProgram* program);

// What the program works on: the objects of the nodes, what the region's start has in its slots, the graph's outputs.
struct ExitInput {
  PyObject* const* nodes;
  PyObject* const* slots;
  PyObject* outputs;  // a tuple or list
};

// Makes the values, then does the effects. The result of a return; for a break, `state` is filled and the result is None.
// Null with an exception set; `harmless` then tells whether nothing that the program can see was changed.
Ref<> run_exit(const ExitProgram& program, const ExitInput& input, interp::StackState* state, bool* harmless);

}  // namespace alternator::exits
