// What kinds of objects a trace can meet, and how each is watched from outside a trace.
//
//   Primitive  immutable and compared by value: None, bool, int, float, complex, str, bytes, range, torch.dtype ..
//   Pinned     compared by identity: functions, types, modules, descriptors, enum members, C callables
//   Tensor     torch.Tensor and subclasses
//   Object     everything else: looked into attribute by attribute, item by item
#pragma once

#include "base/ref.h"

namespace alternator::source {

enum class Sort : uint8_t { Primitive, Pinned, Tensor, Object };

Sort sort_of(PyObject* object);

// Tells the types that torch brings: the tensor class, and those whose objects are compared by value or by identity.
void set_torch_types(PyTypeObject* tensor, PyObject* by_value, PyObject* by_identity);
bool is_tensor(PyObject* object);

// Whether two primitives are the same to a program: type, value, sign of zero, NaN. Runs no user code.
bool same_primitive(PyObject* a, PyObject* b);

// Watches an object without keeping it alive, where that is possible. A dead object's successor at the same address is
// not taken for it.
class Pin {
 public:
  Pin() = default;
  static Pin to(PyObject* object);
  static Pin holding(PyObject* object) {
    Pin pin;
    pin.held_ = share(object);
    return pin;
  }
  bool is(PyObject* object) const { return object == get(); }
  // Borrowed; null if it died.
  PyObject* get() const {
    PyObject* object = weak_ ? PyWeakref_GET_OBJECT(held_.get()) : held_.get();
    return weak_ && object == Py_None ? nullptr : object;
  }
  bool is_weak() const { return weak_; }
  explicit operator bool() const { return static_cast<bool>(held_); }  // whether there is one to watch
  // For the garbage collector: what is held because it cannot be watched.
  int traverse(visitproc visit, void* arg) const {
    if (!weak_) {
      Py_VISIT(held_.get());
    }
    return 0;
  }

 private:
  Ref<> held_;  // the object itself, or a weak reference to it
  bool weak_ = false;
};

}  // namespace alternator::source
