// The journal: what a trace wrote to objects that existed before. Before the first write to a place its old value is kept;
// when the trace ends, also when it is given up, every place gets its old value back. What the trace left there becomes an
// effect of the exit.
//
// A place is an attribute that an instance itself holds, an item of a plain dict, or the contents of a cell.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/ref.h"

namespace alternator::journal {

enum class PlaceKind : uint8_t { Attribute, DictItem, Cell };

struct Place {
  PlaceKind kind;
  Ref<> owner;
  Ref<> key;  // null for a cell
  Ref<> old;  // null: was absent
};

class Journal {
 public:
  // Notes the place before it is written. False if it cannot be put back.
  bool note(PlaceKind kind, PyObject* owner, PyObject* key);
  bool is_noted(PyObject* owner, PyObject* key) const;
  bool is_empty() const { return places_.empty(); }

  const std::vector<Place>& places() const { return places_; }
  // What is there now, borrowed; null if absent.
  static PyObject* current(const Place& place);

  // Puts everything back, last write first.
  void roll_back();

 private:
  std::vector<Place> places_;
};

// Writes a value to a place, or deletes it (null). False with an exception set.
bool write_place(PlaceKind kind, PyObject* owner, PyObject* key, PyObject* value);

}  // namespace alternator::journal
