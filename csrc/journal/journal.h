// The journal: what a trace wrote to objects that existed before. Before the first write the old state is kept; when the
// trace ends, also when it is given up, everything is put back, last write first. What the trace left there becomes an
// effect of the exit.
//
//   a place   one attribute, slot, string item of a plain dict, or the contents of a cell: its old value
//   an iterator of CPython: its position; and the order in which iterators were advanced
//   a body    a list, dict, set or deque as a whole: the original contents are with its twin (py/body.h)
#pragma once

#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "py/body.h"
#include "py/iterator.h"

namespace alternator::journal {

enum class PlaceKind : uint8_t { Attribute, DictItem, Cell, Slot, ClassAttribute };

struct Place {
  PlaceKind kind;
  Ref<> owner;
  Ref<> key;              // null for a cell
  Ref<> old;              // null: was absent
  Py_ssize_t offset = 0;  // of a slot
  bool was_read = false;  // before the first write: there is a guard for what was there
  bool deleted = false;   // the trace deleted it at least once: a later write puts it behind the others
};

struct Body {
  py::BodyKind kind;
  Ref<> owner;
  Ref<> twin;                      // holds the original contents
  std::vector<Ref<>> overwritten;  // keys of a dict whose values were replaced unread, whatever they were
  std::vector<Ref<>> removed{};    // keys of a dict that were taken out: one that is there again stands at its end
#if defined(ALTERNATOR_CHECKS)
  std::vector<PyObject*> contents{};  // of the original; only to be compared
#endif

  bool is_overwritten(PyObject* key) const;
  bool is_removed(PyObject* key) const;
};

// What a trace does with a functools.lru_cache. The cache stays as it is: it is called when the region has run.
struct CacheCalls {
  Ref<> cache;
  Ref<> results;  // a dict: what it does not have yet, by key
  Ref<> calls;    // a list of (args, kwargs, result)
};

// A call that is made when the region has run. `result` stands for what it gives.
struct LateCall {
  Ref<> result;
  Ref<> function;
  Ref<> arguments;  // a tuple
};

class Journal {
 public:
  // Notes a place before it is written. False if it cannot be put back.
  bool note(PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset, bool was_read);
  // The place is about to be deleted; it was noted.
  bool note_deletion(PyObject* owner, PyObject* key);
  // Notes a container as a whole. False if it cannot be put back.
  bool note_body(PyObject* owner);

  // An item of a noted dict is replaced, and there is no guard for what it was. Its key is a string, or known by its identity.
  void note_overwritten(PyObject* owner, PyObject* key);
  // An item of a noted dict is taken out.
  void note_removed(PyObject* owner, PyObject* key);
  bool is_overwritten(PyObject* owner, PyObject* key) const;

  // Notes an iterator of a known kind before it is advanced.
  void note_iterator(PyObject* iterator);
  // An iterator is asked for an item, from outside of any other iterator.
  void log_advance(PyObject* iterator) { advances_.push_back(share(iterator)); }
  const std::vector<Ref<>>& advances() const { return advances_; }

  bool is_noted(PyObject* owner, PyObject* key) const { return find(owner, key) != nullptr; }
  bool has_places(PyObject* owner) const { return by_owner_.count(owner) != 0; }
  // The object that holds the original contents of a noted container; null if it is not noted.
  PyObject* original(PyObject* owner) const;

  // How many references to an object the journal holds.
  Py_ssize_t count_references(PyObject* object) const;
  // How much was noted.
  size_t count() const { return places_.size() + bodies_.size() + advances_.size() + late_calls_.size(); }

  const std::vector<Place>& places() const { return places_; }
  const std::vector<Body>& bodies() const { return bodies_; }
  // The trace has changed nothing from outside so far.
  bool is_empty() const { return places_.empty() && bodies_.empty() && iterators_.empty() && late_calls_.empty(); }
  // What is there now, borrowed; null if absent.
  static PyObject* current(const Place& place);

  // The calls of a functools.lru_cache. Null with an exception set.
  const CacheCalls* calls_of(PyObject* cache);
  const std::vector<CacheCalls>& cache_calls() const { return cache_calls_; }

  void note_late_call(LateCall call) { late_calls_.push_back(std::move(call)); }
  const std::vector<LateCall>& late_calls() const { return late_calls_; }

  // Puts everything back. There is no way on if that fails: the process ends with a message that says what it was.
  void roll_back() noexcept;

 private:
  const Place* find(PyObject* owner, PyObject* key) const;
  void put_back();
  void check_put_back() const;

  std::vector<Place> places_;
  std::vector<Body> bodies_;
  std::unordered_multimap<PyObject*, size_t> by_owner_;
  std::unordered_map<PyObject*, size_t> body_of_;
  std::unordered_map<PyObject*, py::IteratorState> iterators_;
  std::vector<Ref<>> advances_;
  std::vector<CacheCalls> cache_calls_;
  std::vector<LateCall> late_calls_;
  std::vector<Ref<>> dropped_;                   // room for what roll_back() takes out of the places
  std::vector<std::pair<Ref<>, Ref<>>> orders_;  // instances that lost an attribute: the names as they were
};

// Writes a value to a place, or deletes it (null). False with an exception set.
bool write_place(PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset, PyObject* value);

}  // namespace alternator::journal
