// The arguments of a call of torch: tensors among values that are known to bring no Python code of their own.
#pragma once

#include "base/ref.h"

namespace alternator::record {

// A copy with function(tensor) in place of every tensor, in tuples, lists, dicts and slices; types (dtype=float) are
// mapped as well. Containers are copied if anything in them changed; subclasses of tuple (torch.Size, named tuples)
// become tuples. Null with TypeError set if there is a value in it that torch would ask for something by running its
// methods.
Ref<> map_tensors(PyObject* value, PyObject* function);

}  // namespace alternator::record
