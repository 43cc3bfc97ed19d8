#include "source/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/shortage.h"
#include "py/names.h"
#include "py/unique.h"

namespace alternator::source {
namespace {

PyTypeObject* tensor_type = nullptr;
// Tuples of types, kept for good: a destructor would run after the interpreter's end.
PyObject* value_types = nullptr;
PyObject* identity_types = nullptr;  // subclasses included

bool is_exactly_one_of(PyTypeObject* type, PyObject* types) {
  for (Py_ssize_t i = 0; types != nullptr && i < PyTuple_GET_SIZE(types); ++i) {
    if (PyTuple_GET_ITEM(types, i) == reinterpret_cast<PyObject*>(type)) {
      return true;
    }
  }
  return false;
}

bool is_derived_from_one_of(PyTypeObject* type, PyObject* types) {
  for (Py_ssize_t i = 0; types != nullptr && i < PyTuple_GET_SIZE(types); ++i) {
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(types, i)))) {
      return true;
    }
  }
  return false;
}

bool is_primitive_type(PyTypeObject* type) {
  return type == Py_TYPE(Py_None) || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type ||
         type == Py_TYPE(Py_Ellipsis) || type == Py_TYPE(Py_NotImplemented) || is_exactly_one_of(type, value_types);
}

// An enumeration in C++, as pybind11 shows it: its members do not change.
bool is_pybind_enum(PyTypeObject* type) {
  PyObject* const entries = py::names.__entries;
  return std::string_view(Py_TYPE(type)->tp_name) == "pybind11_type" &&
         PyDict_GetItemWithError(type->tp_dict, entries) != nullptr;
}

bool is_pinned_type(PyTypeObject* type) {
  return type == &PyFunction_Type || type == &PyCFunction_Type || type == &PyCode_Type || type == &PyMethodDescr_Type ||
         type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
         type == &PyClassMethodDescr_Type || type == &PyProperty_Type || type == &PyClassMethod_Type ||
         type == &PyStaticMethod_Type || PyType_IsSubtype(type, &PyModule_Type) ||
         PyType_IsSubtype(type, &PyType_Type) || is_derived_from_one_of(type, identity_types) || is_pybind_enum(type);
}

// What sort_of() said. A class with a version is as it was when it got it, and no other class gets the same one.
struct Answer {
  PyTypeObject* type;
  unsigned version;
  Sort sort;
};
constexpr size_t kAnswers = 256;
Answer answers[kAnswers];

Sort sort_of_type(PyTypeObject* type) {
  if (is_primitive_type(type)) {
    return Sort::Primitive;
  }
  if (tensor_type != nullptr && PyType_IsSubtype(type, tensor_type)) {
    return Sort::Tensor;
  }
  return is_pinned_type(type) ? Sort::Pinned : Sort::Object;
}

}  // namespace

void set_torch_types(PyTypeObject* tensor, PyObject* by_value, PyObject* by_identity) {
  std::fill(answers, answers + kAnswers, Answer());
  tensor_type = tensor;
  value_types = Py_NewRef(by_value);
  identity_types = Py_NewRef(by_identity);
}

bool is_tensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == tensor_type || sort_of(object) == Sort::Tensor;
}

Sort sort_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  unsigned version = type->tp_version_tag;
  Answer& answer = answers[(reinterpret_cast<uintptr_t>(type) >> 5) % kAnswers];
  if (answer.type == type && answer.version == version && version != 0) {
    return answer.sort;
  }
  answer = {type, version, sort_of_type(type)};
  return answer.sort;
}

bool is_nan(PyObject* value) {
  if (PyFloat_Check(value)) {
    return std::isnan(PyFloat_AS_DOUBLE(value));
  }
  if (PyComplex_Check(value)) {
    Py_complex number = PyComplex_AsCComplex(value);
    return std::isnan(number.real) || std::isnan(number.imag);
  }
  return false;
}

bool is_singleton(PyObject* primitive) {
  PyTypeObject* type = Py_TYPE(primitive);
  if (type == &PyLong_Type) {
    return py::is_small_int(primitive);
  }
  return type != &PyFloat_Type && type != &PyComplex_Type && type != &PyUnicode_Type && type != &PyBytes_Type &&
         type != &PyRange_Type && !is_exactly_one_of(type, value_types);
}

namespace {

// Ranges without items are equal, whatever their bounds are.
bool same_range(PyObject* a, PyObject* b) {
  for (const char* part : {"start", "stop", "step"}) {
    Ref<> one = steal(PyObject_GetAttrString(a, part));
    Ref<> other = steal(PyObject_GetAttrString(b, part));
    bool same = one && other && same_primitive(one.get(), other.get());
    forget_error();
    if (!same) {
      return false;
    }
  }
  return true;
}

}  // namespace

ALTERNATOR_WARM bool same_primitive(PyObject* a, PyObject* b) {
  if (a == b) {
    return true;
  }
  PyTypeObject* type = Py_TYPE(a);
  if (type != Py_TYPE(b)) {
    return false;
  }
  if (type == &PyFloat_Type) {
    double x = PyFloat_AS_DOUBLE(a);
    double y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (type == &PyComplex_Type) {
    Py_complex x = PyComplex_AsCComplex(a);
    Py_complex y = PyComplex_AsCComplex(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (type == &PyRange_Type) {
    return same_range(a, b);
  }
  // Equality of the types that are left is C code that calls nobody.
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) {
    forget_error();
  }
  return equal > 0;
}

Pin Pin::to(PyObject* object) {
  Pin pin;
  if (PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
    pin.held_ = steal(PyWeakref_NewRef(object, nullptr));
    pin.weak_ = static_cast<bool>(pin.held_);
    forget_error();
  }
  if (!pin.weak_) {
    pin.held_ = share(object);
  }
  return pin;
}

}  // namespace alternator::source
