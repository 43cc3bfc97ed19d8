// Recognises an object later without keeping alive anything that belongs to the program.
//
//   a primitive                       by its value, which is held
//   what can be weakly referenced     by identity
//   property, classmethod, ..         by what they wrap
//   a descriptor of a C struct        by its class and its place there
//   a tuple                           item by item
//   another object                    by identity, held
#pragma once

#include <vector>

#include "source/value.h"

namespace alternator::source {

class Mark {
 public:
  static Mark of(PyObject* object);
  // For what a class holds. A container there that cannot be weakly referenced is not held: it is recognised by its address
  // and its class. Another one may come to lie there, but what is read from it has guards of its own.
  static Mark of_class_value(PyObject* object);

  bool is(PyObject* object) const;
  // The value of a primitive, borrowed; null for any other object.
  PyObject* value() const { return by_ == By::Value ? pin_.get() : nullptr; }

 private:
  enum class By : uint8_t { Value, Identity, Address, Parts };
  Mark(By by, PyObject* object) : by_(by), pin_(Pin::to(object)) {}
  static Mark make(PyObject* object, bool of_class);

  By by_;
  Pin pin_;                   // the value, the object, or its class
  const void* at_ = nullptr;  // the address; of a C descriptor, its place
  std::vector<Mark> parts_;
};

}  // namespace alternator::source
