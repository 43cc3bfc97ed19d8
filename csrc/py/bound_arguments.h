// The arguments of a call, laid out as the locals of its frame would be, without a frame.
#pragma once

#include "base/ref_list.h"
#include "py/frame.h"

namespace alternator::py {

class BoundArguments {
 public:
  // Of a call of a Python function, or of a method of one. What it is given has to outlive it.
  BoundArguments(PyObject* callable, PyObject* const* arguments, size_t nargsf, PyObject* kwnames);

  // False: the call is wrong, or unusual; CPython knows.
  bool are_known() const { return locals_ != nullptr; }
  PyFunctionObject* function() const { return function_; }
  PyObject* const* locals() const { return locals_; }
  int count() const { return count_; }
  // Some local is an object that was made for this call: `*args`, `**kwargs`.
  bool are_made() const { return made_; }

 private:
  static constexpr int kMost = 48;

  // Each false if it is not known how.
  bool bind(PyObject* self, PyObject* const* arguments, Py_ssize_t given, PyObject* kwnames);
  bool bind_keyword(PyObject* name, PyObject* value);
  bool bind_rest(PyObject* self, PyObject* const* arguments, Py_ssize_t given);
  bool bind_defaults();
  void own(int local, PyObject* object);

  PyFunctionObject* function_;
  PyCodeObject* code_;
  PyObject* const* locals_ = nullptr;
  int count_ = 0;
  bool made_ = false;
  RefList<kMost> owned_{kMost};  // those that no caller holds
  PyObject* bound_[kMost];
};

}  // namespace alternator::py
