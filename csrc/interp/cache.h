// Inline caches: what an instruction found last time, and the cheapest proof that it would find the same again.
//
// One line for each LOAD_ATTR, LOAD_METHOD, STORE_ATTR and LOAD_GLOBAL of a function, kept beside the code object.
// A line holds borrowed pointers only; the version that guards them vouches for their life. Observed runs do not use
// caches: every read goes the long way.
#pragma once

#include <memory>

#include "py/code.h"
#include "py/layout.h"

namespace alternator::interp {

enum class CacheKind : uint8_t {
  Empty,
  InstanceValue,  // attribute in the instance's inline values                      version, index
  InstanceDict,   // attribute in the instance's or module's dict                   version, index
  Slot,           // __slots__ member                                               version, index = offset
  TypeValue,      // found on the type, instance cannot shadow it: a plain value    version, count, value
  TypeMethod,     // the same, a function to be bound                               version, count, value
  ClassValue,     // the object is itself a class                                   version (of it), value
  Global,         // in the globals                                                 index
  Builtin,        // absent from the globals, in the builtins                       tag, index
  Never,          // not worth trying again
};

struct CacheLine {
  uint32_t version = 0;
  CacheKind kind = CacheKind::Empty;
  uint8_t misses = 0;
  uint16_t index = 0;
  uint64_t tag = 0;  // dict version (Builtin), count of shared keys (TypeValue, TypeMethod)
  PyObject* value = nullptr;
};

struct CodeCaches {
  std::unique_ptr<uint16_t[]> line_of;  // by code unit
  std::unique_ptr<CacheLine[]> lines;
};

// Called once, at module initialisation. False with an exception set.
bool prepare_caches();

// The caches of a code object, made on the first call; null if it has none (module code, or out of memory).
CodeCaches* caches_of(PyCodeObject* code);

// Fill a line from what was just looked up, the long way, on `object`. They never fail and never raise.
void fill_attribute(CacheLine* line, PyObject* object, PyObject* name);
void fill_method(CacheLine* line, PyObject* object, PyObject* name);
void fill_store(CacheLine* line, PyObject* object, PyObject* name);
// `in_globals` tells where the name was found.
void fill_global(CacheLine* line, PyObject* globals, PyObject* builtins, PyObject* name, bool in_globals);

// Whether an instance whose type passed the version check has no attribute of this name of its own.
inline bool lacks_own(const CacheLine& line, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (!py::has_managed_dict(type)) {
    return true;  // checked when the line was filled: no dict at all
  }
  if (py::inline_values(object) != nullptr) {
    return static_cast<uint64_t>(py::shared_key_count(type)) == line.tag;
  }
  PyObject* dict = py::managed_dict(object);
  if (dict == nullptr) {
    return true;
  }
  // Other keys than strings could run their own __eq__.
  return py::has_string_keys(dict) && _PyDict_GetItem_KnownHash(dict, name, py::string_hash(name)) == nullptr;
}

// The attribute by the cache, borrowed; null on a miss.
inline PyObject* cached_attribute(const CacheLine& line, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (line.kind == CacheKind::ClassValue) {
    return PyType_Check(object) && py::type_version(reinterpret_cast<PyTypeObject*>(object)) == line.version
               ? line.value
               : nullptr;
  }
  if (py::type_version(type) != line.version) {
    return nullptr;
  }
  switch (line.kind) {
    case CacheKind::InstanceValue: {
      PyObject** values = py::inline_values(object);
      return values ? values[line.index] : nullptr;
    }
    case CacheKind::InstanceDict: {
      PyObject* dict = py::has_managed_dict(type)
                           ? py::managed_dict(object)
                           : *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_dictoffset);
      return dict ? py::dict_value_at(dict, line.index, name) : nullptr;
    }
    case CacheKind::Slot: return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + line.index);
    case CacheKind::TypeValue: return lacks_own(line, object, name) ? line.value : nullptr;
    default: return nullptr;
  }
}

}  // namespace alternator::interp
