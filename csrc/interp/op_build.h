// Handlers: building and taking apart containers, strings and slices.
#pragma once

#include "interp/build.h"
#include "interp/machine.h"
#include "interp/raise.h"
#include "py/names.h"

namespace alternator::interp {

// Drops the `count` topmost and pushes a result, or raises with them dropped.
ALTERNATOR_INLINE Flow replace_top(Machine& m, int count, PyObject* result) {
  for (int i = 0; i < count; ++i) {
    m.drop();
  }
  return m.push_or_error(result);
}

ALTERNATOR_INLINE Flow op_BUILD_TUPLE(Machine& m) {
  PyObject* tuple = PyTuple_New(m.oparg);
  if (tuple == nullptr) {
    return Flow::Error;
  }
  m.sp -= m.oparg;
  for (int i = 0; i < m.oparg; ++i) {
    PyTuple_SET_ITEM(tuple, i, m.sp[i]);
  }
  m.push(tuple);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_BUILD_LIST(Machine& m) {
  PyObject* list = PyList_New(m.oparg);
  if (list == nullptr) {
    return Flow::Error;
  }
  m.sp -= m.oparg;
  for (int i = 0; i < m.oparg; ++i) {
    PyList_SET_ITEM(list, i, m.sp[i]);
  }
  m.push(list);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_BUILD_SET(Machine& m) {
  m.sp -= m.oparg;
  return m.push_or_error(build_set(m.sp, m.oparg));
}

ALTERNATOR_INLINE Flow op_BUILD_MAP(Machine& m) {
  PyObject* dict = build_dict(m.sp - 2 * m.oparg, m.oparg);
  return dict ? replace_top(m, 2 * m.oparg, dict) : Flow::Error;
}

ALTERNATOR_INLINE Flow op_BUILD_CONST_KEY_MAP(Machine& m) {
  PyObject* dict = build_dict_with_keys(m.top(), m.sp - 1 - m.oparg, m.oparg);
  return dict ? replace_top(m, m.oparg + 1, dict) : Flow::Error;
}

ALTERNATOR_INLINE Flow op_BUILD_STRING(Machine& m) {
  PyObject* string = _PyUnicode_JoinArray(py::names.empty, m.sp - m.oparg, m.oparg);
  return string ? replace_top(m, m.oparg, string) : Flow::Error;
}

ALTERNATOR_INLINE Flow op_BUILD_SLICE(Machine& m) {
  PyObject* step = m.oparg == 3 ? m.peek(1) : nullptr;
  PyObject** base = m.sp - m.oparg;
  return replace_top(m, m.oparg, PySlice_New(base[0], base[1], step));
}

ALTERNATOR_INLINE Flow op_FORMAT_VALUE(Machine& m) {
  PyObject* spec = (m.oparg & 4) ? m.peek(1) : nullptr;
  PyObject* value = m.peek(spec ? 2 : 1);
  return replace_top(m, spec ? 2 : 1, format_value(value, spec, m.oparg & 3));
}

ALTERNATOR_INLINE Flow op_LIST_TO_TUPLE(Machine& m) { return replace_top(m, 1, PyList_AsTuple(m.top())); }

ALTERNATOR_INLINE Flow op_LIST_APPEND(Machine& m) {
  PyObject* item = m.pop();
  int failed = PyList_Append(m.peek(m.oparg), item);
  Py_DECREF(item);
  return failed ? Flow::Error : Flow::Next;
}

ALTERNATOR_INLINE Flow op_LIST_EXTEND(Machine& m) {
  PyObject* iterable = m.pop();
  bool extended = extend_list(m.peek(m.oparg), iterable);
  Py_DECREF(iterable);
  return extended ? Flow::Next : Flow::Error;
}

ALTERNATOR_INLINE Flow op_SET_ADD(Machine& m) {
  PyObject* item = m.pop();
  int failed = PySet_Add(m.peek(m.oparg), item);
  Py_DECREF(item);
  return failed ? Flow::Error : Flow::Next;
}

ALTERNATOR_INLINE Flow op_SET_UPDATE(Machine& m) {
  PyObject* iterable = m.pop();
  int failed = _PySet_Update(m.peek(m.oparg), iterable);
  Py_DECREF(iterable);
  return failed < 0 ? Flow::Error : Flow::Next;
}

ALTERNATOR_INLINE Flow op_MAP_ADD(Machine& m) {
  PyObject* value = m.peek(1);
  PyObject* key = m.peek(2);
  m.sp -= 2;
  int failed = PyDict_SetItem(m.peek(m.oparg), key, value);
  Py_DECREF(key);
  Py_DECREF(value);
  return failed ? Flow::Error : Flow::Next;
}

ALTERNATOR_INLINE Flow op_DICT_UPDATE(Machine& m) {
  PyObject* update = m.pop();
  bool updated = update_dict(m.peek(m.oparg), update);
  Py_DECREF(update);
  return updated ? Flow::Next : Flow::Error;
}

ALTERNATOR_INLINE Flow op_DICT_MERGE(Machine& m) {
  PyObject* update = m.pop();
  int failed = _PyDict_MergeEx(m.peek(m.oparg), update, 2);
  if (failed < 0) {
    reword_kwargs_error(m.peek(2 + m.oparg), update);
  }
  Py_DECREF(update);
  return failed < 0 ? Flow::Error : Flow::Next;
}

ALTERNATOR_INLINE Flow op_UNPACK_SEQUENCE(Machine& m) {
  PyObject* sequence = m.pop();
  int count = m.oparg;
  PyObject** items = nullptr;
  if (PyTuple_CheckExact(sequence) && PyTuple_GET_SIZE(sequence) == count) {
    items = &PyTuple_GET_ITEM(sequence, 0);
  } else if (PyList_CheckExact(sequence) && PyList_GET_SIZE(sequence) == count) {
    items = &PyList_GET_ITEM(sequence, 0);
  }
  if (ALTERNATOR_LIKELY(items != nullptr)) {
    for (int i = count; --i >= 0;) {
      m.push_shared(items[i]);
    }
  } else if (unpack_iterable(sequence, count, -1, m.sp + count)) {
    m.sp += count;
  } else {
    Py_DECREF(sequence);
    return Flow::Error;
  }
  Py_DECREF(sequence);
  m.skip_caches(Op::kUNPACK_SEQUENCE);
  return Flow::Next;
}

ALTERNATOR_INLINE Flow op_UNPACK_EX(Machine& m) {
  int before = m.oparg & 255;
  int after = m.oparg >> 8;
  PyObject* sequence = m.pop();
  bool unpacked = unpack_iterable(sequence, before, after, m.sp + before + 1 + after);
  Py_DECREF(sequence);
  if (!unpacked) {
    return Flow::Error;
  }
  m.sp += before + 1 + after;
  return Flow::Next;
}

}  // namespace alternator::interp
