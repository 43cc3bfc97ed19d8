// A list of words: what a successful check of a guard list read, as addresses in memory and the 64 bits that were there.
// While the same bits are there, the guards hold and their nodes are the same objects, and comparing is all there is to do:
// no look-up, no call, no allocation.
//
// Which nodes take part. A *root* is an argument that was the same object in the last calls (`self`, a config), or such an
// object that was found from an argument (`self` in the tuple of *args). A node is *stable* if it is a constant of the
// trace, a root, or was read from a stable node. The others change from call to call:
// *early* ones are reached from arguments alone, *late* ones also through stable nodes. Guards on early and late nodes are
// walked one by one, before and after the words; so are guards for which there are no words.
//
// Why equal words are enough. By induction over the nodes in the order of the list, in which a node comes behind the one
// that it was read from. The claim: when the words of all nodes before a node were equal, its address is that of a living
// object, of the type that was guarded or of a type with the same memory layout.
//   - A constant or a root is watched by a weak reference (or held); while the watch's flag is up, its address is it.
//   - Another node was read from its parent, whose words are equal: the parent's field points to the address right now, and
//     owns what it points to. Whether it is the object of the last check or one that came to lie at the same address
//     is of no interest, since its own words are compared next, beginning with its type: all that was guarded of it
//     is compared again, in its present memory.
// So no address is read that might dangle, and no word says something about an object that is gone. Where bits alone do
// not tell what a guard is about, they are made to:
//   - A dict's version is unique to one dict in one state, in the whole process and for ever: equal bits mean that nothing
//     was written to the dict since its guards were last looked up; all that it held then it holds now. Therefore a
//     child that is read from a dict, and whose class cannot be changed, needs no word for its type.
//   - A type's version likewise.
//   - A primitive that a field points to is held by the list: its address cannot become another value's.
//   - A pinned object and the types of nodes are watched, as constants are: with one of them the region dies.
//   - What is read from a constant by a link that cannot change (a function's closure and globals, a module's dict, the items
//     of a tuple) is as constant as the constant: no words.
//   - Attributes that are kept beside an object are found by an index into keys that its class shares and only ever adds to:
//     a name that is among them stays at its index; one that is not is not while their count is the same.
// Nothing in between runs Python code or gives up the GIL, so all of it holds for one instant.
//
// When a word is not equal, the guards of its node alone are looked at (an unrelated key of the dict was written, an equal
// number stored). If they hold with the same children, the node's words are written anew and the comparison goes on. If
// one does not hold, neither would it in the walk: the objects that lead to it were proved. If a child was
// replaced, only a walk can tell; it leads to a new list. A node that is replaced again and again becomes a late one.
#pragma once

#include <memory>
#include <vector>

#include "guard/guard.h"
#include "guard/watch.h"
#include "py/fields.h"

namespace alternator::guard {

// A guard list, turned around: made once.
struct GuardIndex {
  GuardIndex() = default;
  explicit GuardIndex(const GuardList& list);

  std::vector<int> source;           // of a node: the guard that fills its slot, -1 for a constant
  std::vector<PyTypeObject*> types;  // of a node: what its type must be, null if that is not guarded
  std::vector<int> begin;            // of a node: where its guards, those that look at it, begin in `guards`
  std::vector<int> guards;
};

// How often the object of a node was another one than the list expected.
using Moves = std::vector<uint8_t>;
constexpr uint8_t kMovesOfVolatile = 3;

class WordList {
 public:
  // What `slots` has been filled with by a check of the guards that held, in this very moment.
  WordList(const GuardList& list, const GuardIndex& index, const Moves& moves, PyObject* const* locals,
           std::vector<PyObject*> slots);

  struct Root {
    int local;  // -1: it is found by the walk of the early guards
    int node;
    PyObject* object;  // borrowed: watched
  };
  const std::vector<Root>& roots() const { return roots_; }
  bool has_roots(PyObject* const* locals) const {
    for (const Root& root : roots_) {
      if (root.local >= 0 && locals[root.local] != root.object) {
        return false;
      }
    }
    return true;
  }
  bool is_alive() const { return watch_.all_alive(); }
  bool is_root_alive(size_t number) const { return watch_.is_alive(number); }

  struct Outcome {
    enum { Holds, Fails, Unknown } verdict;
    int guard = -1;  // Fails: the first that does not hold
    int moved = -1;  // Unknown: the node that was replaced, if that is why
  };
  // To be called if has_roots() and is_alive().
  Outcome check(PyObject* const* locals);
  const std::vector<PyObject*>& slots() const { return slots_; }

  size_t size() const { return words_.size(); }
  size_t walked() const { return early_.size() + late_.size(); }

 private:
  enum class State : uint8_t { Stable, Early, Late };
  // A guard that is walked. An argument, and the facts of a tensor, are looked at without the guard itself, which is large.
  struct Walked {
    int guard;
    int local = -1;                        // an argument that fills the slot `node`, of this type:
    int node = -1;                         // .. or the tensor that has these facts
    PyTypeObject* type = nullptr;          // alive, if the region is
    const tensor::Facts* facts = nullptr;  // null if it is neither
    PyObject* root = nullptr;              // the object that has to be found
  };
  struct Entry {
    const py::Word* at;
    uint64_t expected;
  };
  struct Block {
    uint32_t begin;  // the first word of a node
    int node;
  };
  // The words of a node while they are written.
  struct Draft {
    void add(const py::Word* at, bool hold);
    void add_once(const py::Word* at);

    std::vector<Entry> entries;
    std::vector<Ref<>> held;
    std::vector<int> unwritten;  // guards that have no words
  };

  void sort_guards(const Moves& moves, PyObject* const* locals);
  State place_child(const Guard& guard, const Moves& moves, PyObject* const* locals);
  void write_all();
  void write_node(int node, Draft* draft) const;
  bool write_guard(const Guard& guard, PyObject* parent, Draft* draft) const;
  bool needs_type_word(int node) const;
  bool is_fixed_link(const Guard& guard) const;
  bool add_root(const Guard& guard, PyObject* object, int local);
  void walk(int guard, std::vector<Walked>* order) const;
  bool still_holds(const Walked& walked, PyObject* const* locals);
  bool has_moved(const Walked& walked) const;
  Outcome compare_words();
  Outcome repair(size_t at);
  Outcome look_again(int node);

  const GuardList& list_;
  const GuardIndex& index_;
  std::vector<State> states_;
  std::vector<bool> walks_;    // guards that have no words
  std::vector<bool> fixed_;    // nodes that are the same objects for as long as the region lives
  std::vector<Walked> early_;  // guards to walk before the words
  std::vector<Walked> late_;   // and after
  std::vector<Root> roots_;
  Watch watch_;  // of the roots, in their order
  std::vector<PyObject*> slots_;
  std::vector<Entry> words_;
  std::vector<Ref<>> held_;    // what a word points to, if it is a primitive
  std::vector<Block> blocks_;  // in the order of the words
};

}  // namespace alternator::guard
