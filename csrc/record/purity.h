// The purity table: what a C function reads and writes, keyed by the C function itself. A function that is not in the table
// cannot run while tracing.
#pragma once

#include <optional>

#include "base/ref.h"

namespace alternator::record {

enum class Purity : uint8_t {
  Values,    // reads the arguments themselves: primitives, identity
  Identity,  // id: of an object that is watched by identity
  Shallow,   // reads what the arguments hold
  Deep,      // reads whatever can be reached from the arguments
  Length,    // len
  Truth,     // bool, any, all
  Registry,  // what isinstance asks of an abstract class: the same, and the registered classes
  TypeTest,  // isinstance, issubclass, callable, type(x)
  GetAttr,   // getattr, hasattr, object.__getattribute__
  SetAttr,   // setattr, delattr, object.__setattr__: the first argument must be fresh
  GetItem,   // dict.get, list.__getitem__ ..: an item of the first argument
  Update,    // changes the first argument, which must be fresh, and reads what the others hold
  Advance,   // next: the iterator must be fresh
  Torch,     // reaches torch's dispatch of overridable functions, where it is recorded
  Setting,   // a state of torch or Python; called without arguments, its result is guarded
  State,     // sets a state of torch: told to the tracer, which makes a node of it and undoes it, then runs as one step
  Scope,     // Python code that enters or leaves a scope of torch: told to the tracer, then traced like any other
  Inner,     // what only a Scope may call: sets a part of torch's state that is put back when the trace ends
};

// Fills the table: {name of the purity: iterable of callables}. False with an exception set.
bool fill_purity_table(PyObject* rows);

// A slot of a type, bound to an object: object().__str__.
bool is_method_wrapper(PyObject* callable);

// What is known of a callable that is no Python function; empty if nothing.
std::optional<Purity> purity_of(PyObject* callable);

}  // namespace alternator::record
