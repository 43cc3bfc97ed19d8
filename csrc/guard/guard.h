// Guards: what must still be so for a region to be the same program. A flat list, checked from the front; the check of
// one guard finds the object that later ones look at. No guard runs user code.
//
//   slots     one for each node (an object that the trace met): filled as the list is walked, constants first
//   a guard   (kind, parent node, key) reads one thing, and expects it to be absent, present, a value, a pinned object, or
//             the object of a node: the first guard for a node fills its slot, later ones compare
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ref.h"
#include "source/mark.h"
#include "torch/facts.h"

namespace alternator::guard {

enum class Kind : uint8_t {
#define GUARD(name, text, how) name,
#include "guard/guard.def"
#undef GUARD
};
const char* kind_name(Kind kind);
const char* kind_text(Kind kind);
bool has_words(Kind kind);

enum class Expect : uint8_t { Nothing, Absent, Present, Value, Pinned, NewNode, SameNode };
const char* expect_name(Expect expect);

// What a class holds itself, and what it and its bases do. A class whose version changed may have been patched and put back
// (torch.fx does so).
struct ClassContents {
  explicit ClassContents(PyTypeObject* type);
  // `difference` becomes the name of an attribute that is another one.
  bool matches(PyTypeObject* type, std::string* difference) const;

  source::Pin type;
  std::vector<std::pair<Ref<>, source::Mark>> items;  // names are held
};
struct TypeContents {
  // The name of an attribute that is another one; empty if there is none.
  std::string difference(PyTypeObject* type) const;

  std::vector<std::shared_ptr<const ClassContents>> mro;  // shared with other classes of the same bases
};

// What the type of an object must be, without keeping that type alive.
class TypePin {
 public:
  static TypePin to(PyTypeObject* type) {
    TypePin pin;
    pin.type_ = type;
    pin.pin_ = source::Pin::to(reinterpret_cast<PyObject*>(type));
    return pin;
  }
  bool is_of(PyObject* object) const { return Py_TYPE(object) == type_ && pin_.get() != nullptr; }
  // Its address, even if it died; null if nothing is expected of the type.
  PyTypeObject* type() const { return type_; }
  const source::Pin& pin() const { return pin_; }

 private:
  PyTypeObject* type_ = nullptr;
  source::Pin pin_;
};

struct Guard {
  explicit Guard(Kind guard_kind) : kind(guard_kind) {}

  Kind kind;
  Expect expect = Expect::Nothing;
  int parent = -1;
  int child = -1;
  int site = -1;                           // the frames that needed it, if somebody asked (Recorder::list_sites)
  mutable Py_ssize_t index = 0;            // of a TypeVersion it is brought up to date by a check
  std::unique_ptr<TypeContents> contents;  // TypeVersion
  source::Pin key;
  Ref<> value;                           // Expect::Value
  std::vector<source::Mark> items;       // DictKeys, SetItems
  std::vector<int> nodes;                // AllDistinct
  source::Pin pin;                       // Expect::Pinned
  TypePin type;                          // Expect::NewNode
  const tensor::Facts* facts = nullptr;  // TensorFacts; owned by the list
};

struct Constant {
  int node;
  source::Pin pin;
  TypePin type;  // of one whose class can be changed
};

struct GuardList {
  int nodes = 0;
  std::vector<Constant> constants;
  std::vector<Guard> guards;
  std::vector<std::unique_ptr<tensor::Facts>> facts;
  std::vector<std::string> names;  // of the nodes, in the user's words
};

// Walks the list over the locals of a call. `slots` gets the objects of the nodes, borrowed. -1 if all hold, otherwise the
// index of the first that does not (or of none: the count, if a constant died or has another class).
Py_ssize_t check(const GuardList& list, PyObject* const* locals, std::vector<PyObject*>* slots);

// The guards on numbers and on the metadata of tensors that do not hold, with the object that each looks at, up to the first
// other one that does not.
void visit_moved(const GuardList& list, PyObject* const* locals,
                 const std::function<void(const Guard&, PyObject*)>& visit);

// Looks at one guard; the slot of its parent must be filled. Fills the slot of a new node.
bool holds(const Guard& guard, PyObject* const* locals, std::vector<PyObject*>* slots);

// A node's name as the user would say it.
std::string spoken(std::string name);
// What a guard expects, as a line of Python: "L['n'] == 3".
std::string phrase(const GuardList& list, const Guard& guard);
// What a guard looks at.
std::string describe(const GuardList& list, const Guard& guard);
// Says what a failed guard expected and found: "`n` was 3, is now 4".
std::string explain(const GuardList& list, Py_ssize_t failed, PyObject* const* locals,
                    const std::vector<PyObject*>& slots);

}  // namespace alternator::guard
