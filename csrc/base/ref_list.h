// A list of references whose size is known when it is made; short ones need no memory of their own.
#pragma once

#include <memory>

#include "base/ref.h"

namespace alternator {

template <size_t OnStack>
class RefList {
 public:
  explicit RefList(size_t capacity) : heap_(capacity > OnStack ? new PyObject*[capacity] : nullptr) {}
  ~RefList() {
    // The last one goes first, as it would from a stack.
    while (size_ > 0) {
      Py_XDECREF(data()[--size_]);
    }
  }
  RefList(const RefList&) = delete;
  RefList& operator=(const RefList&) = delete;

  // Not more often than the capacity.
  void add(Ref<> object) { data()[size_++] = object.release(); }
  PyObject* operator[](size_t index) const { return data()[index]; }
  PyObject** data() { return heap_ ? heap_.get() : stack_; }
  PyObject* const* data() const { return heap_ ? heap_.get() : stack_; }

 private:
  size_t size_ = 0;
  std::unique_ptr<PyObject*[]> heap_;
  PyObject* stack_[OnStack];
};

}  // namespace alternator
