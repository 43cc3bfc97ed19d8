#include "guard/watch.h"

namespace alternator::guard {
namespace {

constexpr const char* kCapsule = "alternator.watch";

PyObject* lower_flag(PyObject* self, PyObject*) {
  **static_cast<std::shared_ptr<bool>*>(PyCapsule_GetPointer(self, kCapsule)) = false;
  Py_RETURN_NONE;
}
PyMethodDef callback_method = {"alternator_watch", lower_flag, METH_O, nullptr};

void free_flag(PyObject* capsule) {
  delete static_cast<std::shared_ptr<bool>*>(PyCapsule_GetPointer(capsule, kCapsule));
}

// The callback shares the flag: it may run after the watch is gone, and the watch may be looked at while it runs.
Ref<> make_callback(const std::shared_ptr<bool>& flag) {
  auto* shared = new std::shared_ptr<bool>(flag);
  Ref<> capsule = steal(PyCapsule_New(shared, kCapsule, free_flag));
  if (!capsule) {
    delete shared;
    return nullptr;
  }
  return steal(PyCFunction_New(&callback_method, capsule.get()));
}

}  // namespace

bool Watch::add(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
    return false;
  }
  if (!flag_) {
    flag_ = std::make_shared<bool>(true);
    callback_ = make_callback(flag_);
  }
  Ref<> reference = callback_ ? steal(PyWeakref_NewRef(object, callback_.get())) : nullptr;
  if (!reference) {
    PyErr_Clear();
    return false;
  }
  references_.push_back(std::move(reference));
  return true;
}

}  // namespace alternator::guard
