// Handlers: imports, class bodies and pattern matching.
#pragma once

#include "interp/build.h"
#include "interp/lookup.h"
#include "interp/machine.h"

namespace alternator::interp {

ALTERNATOR_INLINE Flow op_IMPORT_NAME(Machine& m) {
  PyObject* fromlist = m.pop();
  PyObject* level = m.top();
  PyObject* module = import_name(m.ts, m.frame, m.name(m.oparg), fromlist, level);
  Py_DECREF(level);
  Py_DECREF(fromlist);
  return m.set_top_or_error(module);
}

ALTERNATOR_INLINE Flow op_IMPORT_FROM(Machine& m) { return m.push_or_error(import_from(m.top(), m.name(m.oparg))); }

ALTERNATOR_INLINE Flow op_LOAD_BUILD_CLASS(Machine& m) { return m.push_or_error(load_build_class(m.frame)); }

ALTERNATOR_INLINE Flow op_SETUP_ANNOTATIONS(Machine& m) {
  return set_up_annotations(m.frame) ? Flow::Next : Flow::Error;
}

ALTERNATOR_INLINE Flow op_PRINT_EXPR(Machine& m) {
  PyObject* value = m.pop();
  bool printed = print_expression(value);
  Py_DECREF(value);
  return printed ? Flow::Next : Flow::Error;
}

ALTERNATOR_INLINE Flow op_GET_LEN(Machine& m) {
  Py_ssize_t length = PyObject_Length(m.top());
  return length < 0 ? Flow::Error : m.push_or_error(PyLong_FromSsize_t(length));
}

ALTERNATOR_INLINE Flow push_type_flag(Machine& m, unsigned long flag) {
  m.push_shared((Py_TYPE(m.top())->tp_flags & flag) ? Py_True : Py_False);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_MATCH_MAPPING(Machine& m) { return push_type_flag(m, Py_TPFLAGS_MAPPING); }
ALTERNATOR_INLINE Flow op_MATCH_SEQUENCE(Machine& m) { return push_type_flag(m, Py_TPFLAGS_SEQUENCE); }

ALTERNATOR_INLINE Flow op_MATCH_KEYS(Machine& m) { return m.push_or_error(match_keys(m.peek(2), m.peek(1))); }

ALTERNATOR_INLINE Flow op_MATCH_CLASS(Machine& m) {
  PyObject* keywords = m.pop();
  PyObject* type = m.pop();
  PyObject* subject = m.top();
  PyObject* found = match_class(subject, type, m.oparg, keywords);
  Py_DECREF(keywords);
  Py_DECREF(type);
  Py_DECREF(subject);
  return m.set_top_or_error(found);
}

}  // namespace alternator::interp
