// Guards: what must still be so for a region to be the same program. A flat list, checked from the front; the check of
// one guard finds the object that later ones look at. No guard runs user code.
//
//   slots     one for each node (an object that the trace met): filled as the list is walked, constants first
//   a guard   (kind, parent node, key) reads one thing, and expects it to be absent, a value, a pinned object, or the
//             object of a node: the first guard for a node fills its slot, later ones compare
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/ref.h"
#include "source/value.h"
#include "torch/facts.h"

namespace alternator::guard {

enum class Kind : uint8_t {
#define GUARD(name, text) name,
#include "guard/guard.def"
#undef GUARD
};
const char* kind_name(Kind kind);
const char* kind_text(Kind kind);

enum class Expect : uint8_t { Nothing, Absent, Value, Pinned, NewNode, SameNode };

// What a class and its bases hold. A class whose version changed may have been patched and put back (torch.fx does so).
struct TypeContents {
  explicit TypeContents(PyTypeObject* type);
  bool matches(PyTypeObject* type) const;

  Ref<> mro;
  std::vector<Ref<>> items;  // keys and values by turns, class by class
};

struct Guard {
  explicit Guard(Kind guard_kind) : kind(guard_kind) {}

  Kind kind;
  Expect expect = Expect::Nothing;
  int parent = -1;
  int child = -1;
  mutable Py_ssize_t index = 0;            // of a TypeVersion it is brought up to date by a check
  std::shared_ptr<TypeContents> contents;  // TypeVersion
  Ref<> key;
  Ref<> value;                   // Expect::Value; DictKeys: the tuple of keys; FunctionParts: the tuple of parts
  source::Pin pin;               // Expect::Pinned
  PyTypeObject* type = nullptr;  // Expect::NewNode: what the object's type must be
  source::Pin type_pin;
  const tensor::Facts* facts = nullptr;  // TensorFacts; owned by the list
};

struct Constant {
  int node;
  source::Pin pin;
};

struct GuardList {
  int nodes = 0;
  std::vector<Constant> constants;
  std::vector<Guard> guards;
  std::vector<std::unique_ptr<tensor::Facts>> facts;
  std::vector<std::string> names;  // of the nodes, in the user's words
};

// Walks the list over the locals of a call. `slots` gets the objects of the nodes, borrowed. -1 if all hold, otherwise the
// index of the first that does not (or of none: the count, if a constant died).
Py_ssize_t check(const GuardList& list, PyObject* const* locals, std::vector<PyObject*>* slots);

// Says what a failed guard expected and found: "`n` was 3, is now 4".
std::string explain(const GuardList& list, Py_ssize_t failed, PyObject* const* locals,
                    const std::vector<PyObject*>& slots);

}  // namespace alternator::guard
