// CPython's own iterators: what they will give, without advancing them, and their state, to put it back.
#pragma once

#include <utility>
#include <vector>

#include "base/ref.h"
#include "py/python.h"

namespace alternator::py {

enum class IteratorKind : uint8_t {
  None,
  List,  // of an indexed sequence: the items lie ahead
  ListReversed,
  Tuple,
  Range,      // the numbers lie ahead
  Enumerate,  // a counter, and another iterator
  Zip,        // a tuple of iterators
  Dict,       // keys, values or items
  Map,        // a tuple of iterators, and a function; it has no state of its own
};

IteratorKind iterator_kind(PyObject* iterator);
// Its items can be told in advance.
inline bool has_items_ahead(IteratorKind kind) {
  return kind == IteratorKind::List || kind == IteratorKind::ListReversed || kind == IteratorKind::Tuple ||
         kind == IteratorKind::Range;
}

// How many items lie ahead of an iterator over a list, a tuple or a range.
Py_ssize_t count_ahead(PyObject* iterator, IteratorKind kind);
// The item `ahead` of such an iterator, or the number that an enumerate will count with. New reference; null if there is
// none.
PyObject* item_ahead(PyObject* iterator, IteratorKind kind, Py_ssize_t ahead);

// What an iterator goes over: the sequence, the dict, the inner iterator, the tuple of them. Borrowed, null at its end.
Py_ssize_t inner_offset(IteratorKind kind);
PyObject* inner_of(PyObject* iterator, IteratorKind kind);
bool is_strict(PyObject* zip);
// What a map calls: where it is.
Py_ssize_t mapped_offset();
// Where a dict's iterator stands.
Py_ssize_t position_offset();
// .. and that of the size that the dict had when it began: another one is an exception.
Py_ssize_t used_offset();
inline Py_ssize_t& word_at_offset(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<Py_ssize_t*>(reinterpret_cast<char*>(object) + offset);
}

// The state of an iterator. While it is kept, enumerate and zip do not use their result tuples again.
class IteratorState {
 public:
  explicit IteratorState(PyObject* iterator);
  void restore();

 private:
  Ref<> iterator_;
  std::vector<std::pair<Py_ssize_t, Py_ssize_t>> words_;
  std::vector<std::pair<Py_ssize_t, Ref<>>> objects_;
};

}  // namespace alternator::py
