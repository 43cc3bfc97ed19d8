#include "source/mark.h"

#include "base/shortage.h"
#include "py/members.h"
#include "py/names.h"

namespace alternator::source {
namespace {

PyObject* class_of(PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)); }

// The objects that an object of one of Python's own wrapping classes stands for; borrowed. False if it is none.
bool find_parts(PyObject* object, std::vector<PyObject*>* parts) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      parts->push_back(PyTuple_GET_ITEM(object, i));
    }
    return true;
  }
  PyObject* const property_names[] = {py::names.fget, py::names.fset, py::names.fdel};
  PyObject* const wrapped = py::names.method_function;
  bool property = type == &PyProperty_Type;
  if (!property && type != &PyClassMethod_Type && type != &PyStaticMethod_Type) {
    return false;
  }
  for (int i = 0; i < (property ? 3 : 1); ++i) {
    Ref<> part = steal(PyObject_GetAttr(object, property ? property_names[i] : wrapped));  // a member of the struct
    forget_error();
    parts->push_back(part ? part.get() : Py_None);
  }
  return true;
}

}  // namespace

Mark Mark::make(PyObject* object, bool of_class) {
  if (sort_of(object) == Sort::Primitive) {
    return Mark(By::Value, object);
  }
  std::vector<PyObject*> parts;
  if (find_parts(object, &parts)) {
    Mark mark(By::Parts, class_of(object));
    for (PyObject* part : parts) {
      mark.parts_.push_back(make(part, of_class));
    }
    return mark;
  }
  if (PyTypeObject* owner = py::descriptor_owner(object); owner && !(owner->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
    Mark mark(By::Parts, class_of(object));
    mark.parts_.push_back(Mark(By::Identity, reinterpret_cast<PyObject*>(owner)));
    mark.at_ = py::descriptor_place(object);
    return mark;
  }
  if (of_class && sort_of(object) == Sort::Object && !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
    Mark mark(By::Address, class_of(object));
    mark.at_ = object;
    return mark;
  }
  return Mark(By::Identity, object);
}

Mark Mark::of(PyObject* object) { return make(object, false); }
Mark Mark::of_class_value(PyObject* object) { return make(object, true); }

ALTERNATOR_WARM bool Mark::is(PyObject* object) const {
  switch (by_) {
    case By::Value: return pin_.get() != nullptr && same_primitive(object, pin_.get());
    case By::Identity: return pin_.is(object);
    case By::Address: return at_ == object && pin_.is(class_of(object));
    case By::Parts: break;
  }
  if (!pin_.is(class_of(object))) {
    return false;
  }
  std::vector<PyObject*> parts;
  if (PyTypeObject* owner = at_ ? py::descriptor_owner(object) : nullptr) {
    return parts_[0].is(reinterpret_cast<PyObject*>(owner)) && py::descriptor_place(object) == at_;
  }
  if (!find_parts(object, &parts) || parts.size() != parts_.size()) {
    return false;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts_[i].is(parts[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace alternator::source
