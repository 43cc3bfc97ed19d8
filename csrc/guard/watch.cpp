#include "guard/watch.h"

#include <utility>

#include "base/boundary.h"
#include "base/shortage.h"

namespace alternator::guard {
namespace {

constexpr const char* kCapsule = "alternator.watch";

struct Alarm {
  std::shared_ptr<bool> flag;
  void (*on_death)();
};

Alarm* alarm_of(PyObject* capsule) { return static_cast<Alarm*>(PyCapsule_GetPointer(capsule, kCapsule)); }

PyObject* lower_flag(PyObject* self, PyObject*) {
  Alarm* alarm = alarm_of(self);
  bool first = std::exchange(*alarm->flag, false);
  if (first && alarm->on_death != nullptr) {
    alarm->on_death();
  }
  Py_RETURN_NONE;
}
PyMethodDef callback_method = {"alternator_watch", as_method<lower_flag>(), METH_O, nullptr};

void free_alarm(PyObject* capsule) { delete alarm_of(capsule); }

// The callback shares the flag: it may run after the watch is gone, and the watch may be looked at while it runs.
Ref<> make_callback(const std::shared_ptr<bool>& flag, void (*on_death)()) {
  auto* alarm = new Alarm{flag, on_death};
  Ref<> capsule = steal(PyCapsule_New(alarm, kCapsule, boundary<free_alarm>));
  if (!capsule) {
    delete alarm;
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
    callback_ = make_callback(flag_, on_death_);
  }
  Ref<> reference = callback_ ? steal(PyWeakref_NewRef(object, callback_.get())) : nullptr;
  if (!reference) {
    forget_error();
    return false;
  }
  references_.push_back(std::move(reference));
  return true;
}

}  // namespace alternator::guard
