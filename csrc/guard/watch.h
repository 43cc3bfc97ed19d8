// Knows whether all of some objects are alive, at the price of reading one flag: each has a weak reference whose callback
// lowers the flag. An object's memory is not given back before its callbacks ran; so while the flag is up, an address
// that is equal to an object's address is that object.
#pragma once

#include <memory>
#include <vector>

#include "base/ref.h"

namespace alternator::guard {

class Watch {
 public:
  Watch() = default;
  // `on_death` is called after the flag was lowered, possibly by the garbage collector: it must not run Python code.
  explicit Watch(void (*on_death)()) : on_death_(on_death) {}

  // False if the object cannot be watched.
  bool add(PyObject* object);
  bool all_alive() const { return flag_ == nullptr || *flag_; }
  // Whether this one object, the number of times that add() was called before it, is alive.
  bool is_alive(size_t number) const { return PyWeakref_GET_OBJECT(references_[number].get()) != Py_None; }
  size_t size() const { return references_.size(); }

 private:
  void (*on_death_)() = nullptr;
  std::shared_ptr<bool> flag_;
  Ref<> callback_;
  std::vector<Ref<>> references_;
};

}  // namespace alternator::guard
