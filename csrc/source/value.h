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

// An int or float, and of no subclass. `value` may be null.
inline bool is_number(PyObject* value) {
  return value != nullptr && (PyLong_CheckExact(value) || PyFloat_CheckExact(value));
}
// A list or tuple whose class is no Python code: torch.Size is one.
inline bool is_plain_sequence(PyObject* value) {
  return PyList_CheckExact(value) || (PyTuple_Check(value) && !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE));
}
// A number that does not equal itself: whether it is found in a container, and its hash, depend on which object it is.
bool is_nan(PyObject* value);
// A primitive of which there is one object for each value: which object it is says no more than its value.
bool is_singleton(PyObject* primitive);

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
