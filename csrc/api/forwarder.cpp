#include "api/forwarder.h"

#include <structmember.h>

#include <utility>

#include "base/boundary.h"
#include "py/heap_object.h"
#include "py/names.h"

namespace alternator::api {
namespace {

struct Forwarder {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* target;
  PyObject* callee;          // what the target captures the calls of
  PyObject* implementation;  // `__call__` of the callee's class when the target was last told
};

Forwarder* cast(PyObject* object) { return reinterpret_cast<Forwarder*>(object); }

PyTypeObject* forwarder_type = nullptr;

// The class of the callee, or what its `__call__` is, has changed: the target captures what a call means now.
bool tell_target(Forwarder* self, PyObject* found) {
  Ref<> target = share(self->target);
  Ref<> callee = share(self->callee);
  Ref<> implementation = share(found);
  descrgetfunc bind = Py_TYPE(found)->tp_descr_get;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(callee.get()));
  Ref<> bound = bind != nullptr ? steal(bind(found, callee.get(), type)) : share(found);
  if (!target || !bound || !steal(PyObject_CallMethod(target.get(), "rebind", "O", bound.get()))) {
    return false;
  }
  Ref<> former = steal(std::exchange(self->implementation, implementation.release()));
  return true;
}

ALTERNATOR_WARM PyObject* call(PyObject* self, PyObject* const* arguments, size_t nargsf, PyObject* kwnames) {
  if (PyObject* callee = cast(self)->callee) {
    PyObject* found = _PyType_Lookup(Py_TYPE(callee), py::names.__call__);
    if (found != cast(self)->implementation && found != nullptr && !tell_target(cast(self), found)) {
      return nullptr;
    }
  }
  Ref<> target = share(cast(self)->target);
  if (!target) {
    PyErr_SetString(PyExc_RuntimeError, "alternator: there is nothing to call");
    return nullptr;
  }
  return PyObject_Vectorcall(target.get(), arguments, nargsf, kwnames);
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    cast(self)->vectorcall = boundary<call>;
  }
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->target);
  Py_VISIT(cast(self)->callee);
  Py_VISIT(cast(self)->implementation);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(cast(self)->target);
  Py_CLEAR(cast(self)->callee);
  Py_CLEAR(cast(self)->implementation);
  return 0;
}

PyMemberDef members[] = {
    {"_captured_call", T_OBJECT, offsetof(Forwarder, target), 0, "what is called"},
    {"_callee", T_OBJECT, offsetof(Forwarder, callee), 0, "the object whose calls it captures"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Forwarder, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>(
                    "An object that passes its calls on to its _captured_call, which captures those of its _callee.")},
    {Py_tp_new, as_slot<make>()},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, as_slot<traverse>()},
    {Py_tp_clear, as_slot<clear>()},
    {Py_tp_dealloc, as_slot<py::destroy_object<clear>>()},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"alternator._capture.Forwarder", sizeof(Forwarder), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

// forward_calls(cls): a class that Python makes does not take the fast way of calling over from its base; this class
// does not mean to call anything else.
PyObject* forward_calls(PyObject*, PyObject* type) {
  auto* cls = reinterpret_cast<PyTypeObject*>(type);
  if (!PyType_Check(type) || !PyType_IsSubtype(cls, forwarder_type) || cls->tp_call != PyVectorcall_Call) {
    PyErr_SetString(PyExc_TypeError, "forward_calls() takes a subclass of Forwarder without a __call__ of its own");
    return nullptr;
  }
  cls->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  return Py_NewRef(type);
}
PyMethodDef method = {"forward_calls", as_method<forward_calls>(), METH_O, nullptr};

}  // namespace

bool add_forwarder(PyObject* module) {
  forwarder_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  Ref<> function = forwarder_type ? steal(PyCFunction_New(&method, nullptr)) : nullptr;
  return function && PyModule_AddObjectRef(module, "Forwarder", reinterpret_cast<PyObject*>(forwarder_type)) == 0 &&
         PyModule_AddObjectRef(module, "forward_calls", function.get()) == 0;
}

}  // namespace alternator::api
