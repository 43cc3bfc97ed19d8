// Handlers: names in namespaces, globals, attributes.
#pragma once

#include "interp/lookup.h"
#include "interp/machine.h"
#include "interp/raise.h"

namespace alternator::interp {

ALTERNATOR_INLINE PyObject* cached_global(Machine& m, PyObject* name) {
  CacheLine* line = m.cache_line();
  if (line == nullptr) {
    return nullptr;
  }
  PyObject* globals = m.frame->f_globals;
  // The code may also be that of a function with other globals, or other builtins, that are no plain dicts.
  if (line->kind == CacheKind::Global && PyDict_CheckExact(globals)) {
    return py::dict_value_at(globals, line->index, name);
  }
  if (line->kind == CacheKind::Builtin && py::dict_version(globals) == line->tag &&
      PyDict_CheckExact(m.frame->f_builtins)) {
    return py::dict_value_at(m.frame->f_builtins, line->index, name);
  }
  return nullptr;
}

ALTERNATOR_INLINE Flow op_LOAD_GLOBAL(Machine& m) {
  PyObject* name = m.name(m.oparg >> 1);
  PyObject* value = cached_global(m, name);
  if (ALTERNATOR_LIKELY(value != nullptr)) {
    Py_INCREF(value);
  } else {
    value = load_global(m.frame, name, m.cache_line());
    if (value == nullptr) {
      return Flow::Error;
    }
  }
  if (m.oparg & 1) {
    m.push(nullptr);
  }
  m.push(value);
  m.skip_caches(Op::kLOAD_GLOBAL);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_STORE_GLOBAL(Machine& m) {
  PyObject* value = m.pop();
  int failed = PyDict_SetItem(m.frame->f_globals, m.name(m.oparg), value);
  Py_DECREF(value);
  return failed ? Flow::Error : Flow::Next;
}

ALTERNATOR_INLINE Flow op_DELETE_GLOBAL(Machine& m) {
  if (PyDict_DelItem(m.frame->f_globals, m.name(m.oparg)) == 0) {
    return Flow::Next;
  }
  if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    raise_undefined_name(m.name(m.oparg));
  }
  return Flow::Error;
}

ALTERNATOR_INLINE Flow op_LOAD_NAME(Machine& m) { return m.push_or_error(load_name(m.frame, m.name(m.oparg))); }

ALTERNATOR_INLINE Flow op_STORE_NAME(Machine& m) {
  PyObject* value = m.pop();
  bool stored = store_name(m.frame, m.name(m.oparg), value);
  Py_DECREF(value);
  return stored ? Flow::Next : Flow::Error;
}

ALTERNATOR_INLINE Flow op_DELETE_NAME(Machine& m) {
  return delete_name(m.frame, m.name(m.oparg)) ? Flow::Next : Flow::Error;
}

ALTERNATOR_INLINE Flow op_LOAD_CLASSDEREF(Machine& m) { return m.push_or_error(load_class_cell(m.frame, m.oparg)); }

ALTERNATOR_INLINE Flow op_LOAD_ATTR(Machine& m) {
  PyObject* object = m.top();
  PyObject* name = m.name(m.oparg);
  CacheLine* line = m.cache_line();
  PyObject* value = line ? cached_attribute(*line, object, name) : nullptr;
  if (ALTERNATOR_LIKELY(value != nullptr)) {
    Py_INCREF(value);
  } else {
    value = PyObject_GetAttr(object, name);
    if (value == nullptr) {
      --m.sp;
      Py_DECREF(object);
      return Flow::Error;
    }
    if (line != nullptr) {
      fill_attribute(line, object, name);
    }
  }
  m.top() = value;
  Py_DECREF(object);
  m.skip_caches(Op::kLOAD_ATTR);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_STORE_ATTR(Machine& m) {
  PyObject* object = m.peek(1);
  PyObject* value = m.peek(2);
  PyObject* name = m.name(m.oparg);
  CacheLine* line = m.cache_line();
  PyObject** slot = nullptr;
  if (line != nullptr && py::type_version(Py_TYPE(object)) == line->version) {
    if (line->kind == CacheKind::InstanceValue) {
      PyObject** values = py::inline_values(object);
      if (values != nullptr) {
        slot = &values[line->index];
        if (*slot == nullptr) {
          py::note_inline_insertion(object, line->index);
        }
      }
    } else if (line->kind == CacheKind::Slot) {
      slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + line->index);
    }
  }
  m.sp -= 2;
  if (ALTERNATOR_LIKELY(slot != nullptr)) {
    PyObject* old = *slot;
    *slot = value;
    Py_XDECREF(old);
    Py_DECREF(object);
  } else {
    int failed = PyObject_SetAttr(object, name, value);
    if (line != nullptr && !failed) {
      fill_store(line, object, name);
    }
    Py_DECREF(value);
    Py_DECREF(object);
    if (failed) {
      return Flow::Error;
    }
  }
  m.skip_caches(Op::kSTORE_ATTR);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_DELETE_ATTR(Machine& m) {
  PyObject* object = m.pop();
  int failed = PyObject_SetAttr(object, m.name(m.oparg), nullptr);
  Py_DECREF(object);
  return failed ? Flow::Error : Flow::Next;
}

// Leaves [method, self] for a method of the type, [NULL, attribute] for anything else.
ALTERNATOR_INLINE Flow op_LOAD_METHOD(Machine& m) {
  PyObject* object = m.top();
  PyObject* name = m.name(m.oparg);
  CacheLine* line = m.cache_line();
  PyObject* found = nullptr;
  bool unbound = false;
  if (line != nullptr) {
    if (line->kind == CacheKind::TypeMethod) {
      if (py::type_version(Py_TYPE(object)) == line->version && lacks_own(*line, object, name)) {
        found = line->value;
        unbound = true;
      }
    } else {
      found = cached_attribute(*line, object, name);
    }
  }
  if (ALTERNATOR_LIKELY(found != nullptr)) {
    Py_INCREF(found);
  } else {
    unbound = _PyObject_GetMethod(object, name, &found) != 0;
    if (found == nullptr) {
      --m.sp;
      Py_DECREF(object);
      return Flow::Error;
    }
    if (line != nullptr) {
      fill_method(line, object, name);
    }
  }
  if (unbound) {
    m.top() = found;
    m.push(object);
  } else {
    m.top() = nullptr;
    Py_DECREF(object);
    m.push(found);
  }
  m.skip_caches(Op::kLOAD_METHOD);
  return Flow::Next;
}

}  // namespace alternator::interp
