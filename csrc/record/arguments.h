// The arguments of a call of torch: tensors among values that are known to bring no Python code of their own.
#pragma once

#include "base/ref.h"

namespace alternator::record {

// What stands for a tensor: function(tensor), unless a table (id of a tensor -> entry) has an entry with a value in the
// given __slots__ member of its class, which then is what the function would give.
class TensorMap {
 public:
  TensorMap(PyObject* function, PyObject* table, PyObject* member);
  // Null with an exception set.
  Ref<> of(PyObject* tensor) const;

 private:
  PyObject* function_;
  PyObject* table_ = nullptr;
  PyTypeObject* entries_ = nullptr;
  Py_ssize_t offset_ = 0;
};

// A copy with map.of(tensor) in place of every tensor, in tuples, lists, dicts and slices; types (dtype=float) are
// mapped as well. Containers are copied if anything in them changed; subclasses of tuple (torch.Size, named tuples)
// become tuples. Null with TypeError set if there is a value in it that torch would ask for something by running its
// methods.
Ref<> map_tensors(PyObject* value, const TensorMap& map);

}  // namespace alternator::record
