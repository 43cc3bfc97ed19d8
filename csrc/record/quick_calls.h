// Calls of torch that become one node, without Python: most of a trace. Tracer.record (alternator/recording.py) is the
// whole of it, and gets every call that is not as simple.
#pragma once

#include "base/ref.h"

namespace alternator::record {

class Recorder;

class QuickCalls {
 public:
  // Asks the tracer for what it needs (Tracer.quick_parts). Where that is None, no call is quick.
  QuickCalls(PyObject* tracer, Recorder* recorder);

  // What the program sees; null with an exception set. Null without one: the call is for Tracer.record.
  Ref<> call(PyObject* function, PyObject* args, PyObject* kwargs);

 private:
  // A call as its node has it.
  struct Written {
    Ref<> kind, target, args, kwargs;
  };

  // The variables that tensors were stored in since the last call. False with an exception set.
  bool name_nodes();
  Ref<> compute(PyObject* function, PyObject* args, PyObject* kwargs);
  Ref<> write(PyObject* function, PyObject* args, PyObject* kwargs, PyObject* result);
  bool describe(PyObject* function, PyObject* args, PyObject* kwargs, Written* written);
  Ref<> adopt(PyObject* result, PyObject* node, PyObject* site);
  PyObject* part(int index) const { return PyTuple_GET_ITEM(parts_.get(), index); }

  Recorder* recorder_;
  PyObject* tracer_;  // borrowed; it outlives the trace
  Ref<> parts_;
};

}  // namespace alternator::record
