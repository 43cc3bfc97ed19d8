// Contracts: what a C function reads and writes, keyed by the C function itself. A function without one cannot run while
// tracing.
#pragma once

#include <optional>

#include "base/ref.h"

namespace alternator::record {

enum class Reads : uint8_t {
#define READS(name, text) name,
#include "record/contract.def"
};
enum class Writes : uint8_t {
#define WRITES(name, text) name,
#include "record/contract.def"
};
enum class Returns : uint8_t {
#define RETURNS(name, text) name,
#include "record/contract.def"
};
enum class RecordedBy : uint8_t {
#define RECORDED_BY(name, text) name,
#include "record/contract.def"
};

struct Contract {
  const char* name;
  Reads first;
  Reads others;
  Writes writes;
  Returns returns;
  bool calls_back;
  RecordedBy recorded_by;

  Reads reads(size_t argument) const { return argument == 0 ? first : others; }
};
// The second argument is the key of the item that is changed.
inline bool changes_entry(const Contract& contract) {
  return contract.writes == Writes::Entry || contract.writes == Writes::Removed;
}

// Fills the table: {name of a contract: iterable of callables}. False with an exception set.
bool fill_contracts(PyObject* rows);
// One more callable for a contract.
bool add_contract(const char* name, PyObject* callable);

// Python functions of these modules, and of what is below them, run for real as one break: a tuple of names.
void set_real_modules(PyObject* names);
bool is_of_real_module(PyObject* function);

// A Python function that torch.compiler.disable marked; and whether what it calls is disabled as well.
bool is_disabled(PyObject* function);
bool is_disabled_with_callees(PyObject* function);
// The code of the wrappers that torch puts around functions of its own instead: the mark is made by the first call.
void set_disabling_code(PyObject* code);

// A slot of a type, bound to an object: object().__str__.
bool is_method_wrapper(PyObject* callable);

// What stands for a callable in tables.
const void* key_of(PyObject* callable);

// What is called in a callable's place while tracing: the function inside a compiled one, or what a marker says. A Python
// function carries it as its attribute `_alternator_substitute`, (its id, the other callable), so that copies of its
// attributes (functools.wraps) mark nothing; other callables are in a table. Borrowed; null if there is none.
PyObject* substitute_of(PyObject* callable);
// Null takes it away.
void set_substitute(PyObject* callable, PyObject* other);
// The type of compiled functions, with the attribute __wrapped__.
void set_wrapper_type(PyTypeObject* type);

// The contract of a callable; null if it has none.
const Contract* contract_of(PyObject* callable);
// Who records calls of it; empty if it has no contract.
std::optional<RecordedBy> recorder_of(PyObject* callable);

}  // namespace alternator::record
