#include "api/interpreted.h"

#include <structmember.h>

#include "base/boundary.h"
#include "interp/hook.h"
#include "py/heap_object.h"

namespace alternator::api {
namespace {

struct Interpreted {
  PyObject_HEAD PyObject* function;
  PyObject* dict;
  PyObject* weakrefs;
  vectorcallfunc vectorcall;
};

PyObject* call(PyObject* self, PyObject* const* arguments, size_t nargsf, PyObject* kwnames) {
  // The function is kept: what runs may drop the last reference to the wrapper.
  Ref<> function = share(reinterpret_cast<Interpreted*>(self)->function);
  interp::Interpreting interpreting;
  return PyObject_Vectorcall(function.get(), arguments, nargsf, kwnames);
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static constexpr const char* names[] = {"fn", nullptr};
  PyObject* function;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Interpreted", const_cast<char**>(names), &function)) {
    return nullptr;
  }
  if (!PyCallable_Check(function)) {
    PyErr_Format(PyExc_TypeError, "alternator.interpret() takes a callable, not %.200s", Py_TYPE(function)->tp_name);
    return nullptr;
  }
  auto* self = reinterpret_cast<Interpreted*>(type->tp_alloc(type, 0));
  if (self != nullptr) {
    self->function = Py_NewRef(function);
    self->vectorcall = boundary<call>;
  }
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Interpreted*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->function);
  Py_VISIT(self->dict);
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<Interpreted*>(object);
  Py_CLEAR(self->function);
  Py_CLEAR(self->dict);
  return 0;
}

PyObject* show(PyObject* object) {
  return PyUnicode_FromFormat("<alternator.interpret of %R>", reinterpret_cast<Interpreted*>(object)->function);
}

PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Interpreted, function), READONLY, "the function that is interpreted"},
    {"__dictoffset__", T_PYSSIZET, offsetof(Interpreted, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Interpreted, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Interpreted, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A callable whose frames, and all frames below, run in Alternator's loop.")},
    {Py_tp_new, as_slot<make>()},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, as_slot<traverse>()},
    {Py_tp_clear, as_slot<clear>()},
    {Py_tp_dealloc, as_slot<py::destroy_object<clear>>()},
    {Py_tp_descr_get, as_slot<py::bind_as_function>()},
    {Py_tp_repr, as_slot<show>()},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {0, nullptr},
};

PyType_Spec spec = {
    "alternator._C.Interpreted",
    sizeof(Interpreted),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    slots,
};

}  // namespace

bool add_interpreted_type(PyObject* module) {
  Ref<> type = steal(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "Interpreted", type.get()) == 0;
}

}  // namespace alternator::api
