// Which classes there are: all that can be reached from `object`.
#pragma once

#include <unordered_set>

#include "py/python.h"

namespace alternator::py {

// The classes that there are now, by address. They may die later; a class that gets the address of one is taken for it.
class ClassCensus {
 public:
  bool is_taken() const { return !classes_.empty(); }
  void take() { add(&PyBaseObject_Type); }
  bool has(PyTypeObject* type) const { return classes_.count(type) != 0; }

 private:
  void add(PyTypeObject* type);

  std::unordered_set<PyTypeObject*> classes_;
};

}  // namespace alternator::py
