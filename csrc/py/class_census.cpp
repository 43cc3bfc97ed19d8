#include "py/class_census.h"

#include <vector>

namespace alternator::py {

// A class knows its subclasses: {address: weak reference}.
void ClassCensus::add(PyTypeObject* root) {
  std::vector<PyTypeObject*> pending{root};
  while (!pending.empty()) {
    PyTypeObject* type = pending.back();
    pending.pop_back();
    if (!classes_.insert(type).second || type->tp_subclasses == nullptr) {
      continue;
    }
    Py_ssize_t position = 0;
    PyObject* reference;
    while (PyDict_Next(type->tp_subclasses, &position, nullptr, &reference)) {
      PyObject* subclass = PyWeakref_GET_OBJECT(reference);
      if (subclass != Py_None) {
        pending.push_back(reinterpret_cast<PyTypeObject*>(subclass));
      }
    }
  }
}

}  // namespace alternator::py
