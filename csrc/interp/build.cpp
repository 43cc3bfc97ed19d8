#include "interp/build.h"

#include "base/ref.h"
#include "py/names.h"

namespace alternator::interp {

PyObject* build_set(PyObject* const* items, int count) {
  Ref<> set = steal(PySet_New(nullptr));
  bool failed = !set;
  for (int i = 0; i < count; ++i) {
    failed = failed || PySet_Add(set.get(), items[i]) != 0;
    Py_DECREF(items[i]);
  }
  return failed ? nullptr : set.release();
}

PyObject* build_dict(PyObject* const* items, int count) {
  Ref<> dict = steal(PyDict_New());
  for (int i = 0; dict && i < count; ++i) {
    if (PyDict_SetItem(dict.get(), items[2 * i], items[2 * i + 1]) < 0) {
      return nullptr;
    }
  }
  return dict.release();
}

PyObject* build_dict_with_keys(PyObject* keys, PyObject* const* values, int count) {
  if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != count) {
    PyErr_SetString(PyExc_SystemError, "bad BUILD_CONST_KEY_MAP keys argument");
    return nullptr;
  }
  Ref<> dict = steal(PyDict_New());
  for (int i = 0; dict && i < count; ++i) {
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i), values[i]) < 0) {
      return nullptr;
    }
  }
  return dict.release();
}

PyObject* format_value(PyObject* value, PyObject* spec, int conversion) {
  using Convert = PyObject* (*)(PyObject*);
  static constexpr Convert kConversions[] = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
  Ref<> converted = conversion == 0 ? share(value) : steal(kConversions[conversion](value));
  if (!converted) {
    return nullptr;
  }
  if (PyUnicode_CheckExact(converted.get()) && spec == nullptr) {
    return converted.release();
  }
  return PyObject_Format(converted.get(), spec);
}

bool extend_list(PyObject* list, PyObject* iterable) {
  Ref<> none = steal(_PyList_Extend(reinterpret_cast<PyListObject*>(list), iterable));
  if (none) {
    return true;
  }
  if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == nullptr && !PySequence_Check(iterable)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
  }
  return false;
}

bool update_dict(PyObject* dict, PyObject* update) {
  if (PyDict_Update(dict, update) == 0) {
    return true;
  }
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(update)->tp_name);
  }
  return false;
}

bool unpack_iterable(PyObject* iterable, int before, int after, PyObject** end) {
  Ref<> iterator = steal(PyObject_GetIter(iterable));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(iterable)->tp_iter == nullptr &&
        !PySequence_Check(iterable)) {
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(iterable)->tp_name);
    }
    return false;
  }
  PyObject** at = end;
  auto fail = [&] {
    while (at < end) {
      Py_DECREF(*at++);
    }
    return false;
  };
  for (int i = 0; i < before; ++i) {
    PyObject* item = PyIter_Next(iterator.get());
    if (item == nullptr) {
      if (!PyErr_Occurred()) {
        if (after == -1) {
          PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, i);
        } else {
          PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after,
                       i);
        }
      }
      return fail();
    }
    *--at = item;
  }
  if (after == -1) {
    Ref<> more = steal(PyIter_Next(iterator.get()));
    if (more) {
      PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    }
    return PyErr_Occurred() ? fail() : true;
  }
  PyObject* rest = PySequence_List(iterator.get());
  if (rest == nullptr) {
    return fail();
  }
  *--at = rest;
  Py_ssize_t left = PyList_GET_SIZE(rest);
  if (left < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + left);
    return fail();
  }
  // The items behind the starred name move out of the list.
  for (int i = after; i > 0; --i) {
    *--at = PyList_GET_ITEM(rest, left - i);
  }
  Py_SET_SIZE(rest, left - after);
  return true;
}

PyObject* match_keys(PyObject* mapping, PyObject* keys) {
  Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) {
    return PyTuple_New(0);
  }
  // get(key, default) finds out about a key without creating it in a defaultdict.
  PyObject* method = nullptr;
  bool unbound = _PyObject_GetMethod(mapping, py::names.get, &method) != 0;
  Ref<> get = steal(method);
  if (!get) {
    return nullptr;
  }
  Ref<> seen = steal(PySet_New(nullptr));
  Ref<> absent = steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  Ref<> values = steal(PyTuple_New(count));
  if (!seen || !absent || !values) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (PySet_Contains(seen.get(), key) || PySet_Add(seen.get(), key)) {
      if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      }
      return nullptr;
    }
    PyObject* arguments[] = {mapping, key, absent.get()};
    PyObject* value = unbound ? PyObject_Vectorcall(get.get(), arguments, 3, nullptr)
                              : PyObject_Vectorcall(get.get(), arguments + 1, 2, nullptr);
    if (value == nullptr) {
      return nullptr;
    }
    if (value == absent.get()) {
      Py_DECREF(value);
      return Py_NewRef(Py_None);
    }
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return values.release();
}

namespace {

// One attribute of a class pattern. Null without an exception: the subject does not have it.
Ref<> match_attribute(PyObject* subject, PyObject* type, PyObject* name, PyObject* seen) {
  if (PySet_Contains(seen, name) || PySet_Add(seen, name)) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                   reinterpret_cast<PyTypeObject*>(type)->tp_name, name);
    }
    return nullptr;
  }
  Ref<> value = steal(PyObject_GetAttr(subject, name));
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
  }
  return value;
}

// Appends the positional attributes to `found`. False: no match, or an exception.
bool match_positional(PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* seen, PyObject* found) {
  const char* type_name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  bool whole_subject = false;
  Ref<> match_args = steal(PyObject_GetAttr(type, py::names.__match_args__));
  if (match_args) {
    if (!PyTuple_CheckExact(match_args.get())) {
      PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type_name,
                   Py_TYPE(match_args.get())->tp_name);
      return false;
    }
  } else if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    match_args = steal(PyTuple_New(0));
    // int(x), str(x) and the like bind the subject itself.
    whole_subject = PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), _Py_TPFLAGS_MATCH_SELF);
  }
  if (!match_args) {
    return false;
  }
  Py_ssize_t allowed = whole_subject ? 1 : PyTuple_GET_SIZE(match_args.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %d positional sub-pattern%s (%d given)", type_name,
                 static_cast<int>(allowed), allowed == 1 ? "" : "s", static_cast<int>(count));
    return false;
  }
  if (whole_subject) {
    return PyList_Append(found, subject) == 0;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(match_args.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    Ref<> value = match_attribute(subject, type, name, seen);
    if (!value || PyList_Append(found, value.get()) < 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

PyObject* match_class(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* keywords) {
  auto no_match = [] { return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None); };
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a type");
    return nullptr;
  }
  if (PyObject_IsInstance(subject, type) <= 0) {
    return no_match();
  }
  Ref<> seen = steal(PySet_New(nullptr));
  Ref<> found = steal(PyList_New(0));
  if (!seen || !found) {
    return nullptr;
  }
  if (positional > 0 && !match_positional(subject, type, positional, seen.get(), found.get())) {
    return no_match();
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    Ref<> value = match_attribute(subject, type, PyTuple_GET_ITEM(keywords, i), seen.get());
    if (!value || PyList_Append(found.get(), value.get()) < 0) {
      return no_match();
    }
  }
  return PyList_AsTuple(found.get());
}

}  // namespace alternator::interp
