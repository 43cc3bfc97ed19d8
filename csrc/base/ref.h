// Handles for Python objects: ownership in the type, not in a comment.
//
//   Ref<T>       owns one reference; move-only; made by steal() or share() only.
//   Borrowed<T>  looks at an object that somebody else keeps alive.
//
// A null Ref with the error indicator set is a user's exception on its way (channel 1 of base/error.h).
// What is kept across a call that can run Python code must be a Ref.
#pragma once

#include <Python.h>

#include <cstddef>
#include <type_traits>
#include <utility>

// A function that every warm call of a compiled function passes through. They lie side by side in memory: in few pages, of
// which the first use after something else has filled the caches costs as much as all of their instructions.
#define ALTERNATOR_WARM __attribute__((hot))

namespace alternator {

template <class T = PyObject>
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(std::nullptr_t) {}
  Borrowed(T* object) : object_(object) {}

  T* get() const { return object_; }
  PyObject* object() const { return reinterpret_cast<PyObject*>(object_); }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <class T = PyObject>
class [[nodiscard]] Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    // The old object goes last: its finaliser may look at this very handle.
    T* old = std::exchange(object_, other.release());
    Py_XDECREF(reinterpret_cast<PyObject*>(old));
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object()); }

  // Takes over a reference that the caller owns.
  static Ref steal(T* object) { return Ref(object); }
  // Makes a reference of its own.
  static Ref share(T* object) {
    Py_XINCREF(reinterpret_cast<PyObject*>(object));
    return Ref(object);
  }

  T* get() const { return object_; }
  PyObject* object() const { return reinterpret_cast<PyObject*>(object_); }
  T* operator->() const { return object_; }
  operator Borrowed<T>() const { return Borrowed<T>(object_); }
  explicit operator bool() const { return object_ != nullptr; }

  // Gives the reference away: the caller owns it now.
  [[nodiscard]] T* release() { return std::exchange(object_, nullptr); }
  Ref clone() const { return share(object_); }
  void reset() { *this = Ref(); }

 private:
  explicit Ref(T* object) : object_(object) {}

  T* object_ = nullptr;
};

inline Ref<> steal(PyObject* object) { return Ref<>::steal(object); }
inline Ref<> share(PyObject* object) { return Ref<>::share(object); }

}  // namespace alternator
