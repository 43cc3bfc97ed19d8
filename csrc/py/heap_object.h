// What the objects of our own classes, made with PyType_FromSpec and collected as garbage, have in common.
#pragma once

#include "py/python.h"

namespace alternator::py {

// tp_dealloc. `release` drops what the object holds.
template <auto release>
void destroy_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (type->tp_weaklistoffset > 0) {
    PyObject_ClearWeakRefs(self);
  }
  release(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// tp_descr_get of a callable that, as a class attribute, behaves as functions do: it binds.
inline PyObject* bind_as_function(PyObject* self, PyObject* instance, PyObject*) {
  return instance == nullptr || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

}  // namespace alternator::py
