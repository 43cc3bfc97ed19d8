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
  GetDict,   // vars
  SetAttr,   // setattr, delattr, object.__setattr__: the first argument must be fresh
  GetItem,   // dict.get, list.__getitem__ ..: an item of the first argument
  Append,    // adds to the first argument whatever it holds; reads what the others hold
  PutItem,   // changes an item of the first argument, by key
  Update,    // changes the first argument, reads what it and the others hold
  Advance,   // next: the iterator must be fresh
  Torch,     // reaches torch's dispatch of overridable functions, where it is recorded
  Real,      // runs for real, as one break
  Setting,   // a state of torch or Python; called without arguments, its result is guarded
};

// Fills the table: {name of the purity: iterable of callables}. False with an exception set.
bool fill_purity_table(PyObject* rows);

// Python functions of these modules, and of what is below them, run for real as one break: a tuple of names.
void set_real_modules(PyObject* names);
bool is_of_real_module(PyObject* function);

// A slot of a type, bound to an object: object().__str__.
bool is_method_wrapper(PyObject* callable);

// What is known of a callable that is no Python function; empty if nothing.
std::optional<Purity> purity_of(PyObject* callable);

}  // namespace alternator::record
