// The one way from CPython into our code. What CPython calls (methods, slots of types, callbacks) is `boundary<function>`, a
// `noexcept` function of the same signature: a C++ exception never leaves through a C frame, it becomes a Python exception.
//
//   {"reset", as_method<reset>(), METH_NOARGS, "..."}    a row of a PyMethodDef
//   {Py_tp_clear, as_slot<clear>()}                      a row of a PyType_Slot
//   self->vectorcall = boundary<call>;                   any other pointer
//
// A function that is `noexcept` itself is taken as it is. tests/test_layout.py finds rows that go past the boundary.
#pragma once

#include <Python.h>

#include <exception>
#include <type_traits>

namespace alternator {

// For a handler `catch (...)`. Sets a Python exception that says what the C++ exception in flight is. Does not return if it is
// none: CPython ends a daemon thread together with the process by unwinding it, without the GIL; there is nothing to go on with.
void translate_exception() noexcept;
// The same where there is no way back: frames or the journal are in the middle of something. Ends the process with a message.
[[noreturn]] void die_of_exception(const char* where) noexcept;

namespace detail {

template <auto function, class Type = decltype(function)>
struct Boundary;

template <auto function, class Result, class... Arguments>
struct Boundary<function, Result (*)(Arguments...)> {
  static Result call(Arguments... arguments) noexcept {
    try {
      return function(arguments...);
    } catch (...) {
      translate_exception();
    }
    if constexpr (std::is_void_v<Result>) {
      PyErr_WriteUnraisable(nullptr);  // nobody asks for an exception
    } else if constexpr (std::is_pointer_v<Result>) {
      return nullptr;
    } else {
      return -1;
    }
  }
  static constexpr auto pointer = &call;
};

template <auto function, class Result, class... Arguments>
struct Boundary<function, Result (*)(Arguments...) noexcept> {
  static constexpr auto pointer = function;
};

}  // namespace detail

template <auto function>
inline constexpr auto boundary = detail::Boundary<function>::pointer;

template <auto function>
PyCFunction as_method() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(boundary<function>));
}

template <auto function>
void* as_slot() {
  return reinterpret_cast<void*>(boundary<function>);
}

}  // namespace alternator
