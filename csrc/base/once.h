// Values that are made at their first use.
//
// A static with an initialiser inside a function would do, but C++ locks it: a thread that runs Python code in the initialiser
// may lose the GIL to one that wants the same static, which then holds the GIL and waits for the lock, for ever. Here the
// GIL is the lock. If it was lost, and another thread was quicker, that thread's value counts.
//
//   static constinit Once<PyTypeObject*> type;
//   return type.get([] { return find_type(); });
#pragma once

#include <optional>
#include <type_traits>

namespace alternator {

template <class T>
class Once {
 public:
  // `make` may run Python code, and more than one thread may come to run it. What it makes is kept for good.
  template <class Make>
  const T& get(Make make) {
    static_assert(std::is_trivially_destructible_v<T>, "a destructor would bring the lock back: use a pointer");
    if (!value_) {
      T made = make();
      if (!value_) {
        value_ = made;
      }
    }
    return *value_;
  }

 private:
  std::optional<T> value_;
};

}  // namespace alternator
