#include "interp/cache.h"

#include <new>

namespace alternator::interp {
namespace {

py::CodeAttachment attachment;

void free_caches(void* caches) { delete static_cast<CodeCaches*>(caches); }

bool takes_line(py::Op op) {
  return op == py::Op::kLOAD_ATTR || op == py::Op::kLOAD_METHOD || op == py::Op::kSTORE_ATTR ||
         op == py::Op::kLOAD_GLOBAL;
}

constexpr uint16_t kLastLine = UINT16_MAX;

CodeCaches* make_caches(PyCodeObject* code) {
  const py::CodeUnit* first = py::first_instruction(code);
  Py_ssize_t count = py::instruction_count(code);
  auto caches = std::make_unique<CodeCaches>();
  caches->line_of = std::make_unique<uint16_t[]>(count);
  uint16_t lines = 0;
  for (Py_ssize_t i = 0; i < count; i += 1 + py::kCachesOf[py::kDeoptOf[py::raw_opcode(first[i])]]) {
    if (takes_line(py::canonical(first[i]))) {
      caches->line_of[i] = lines < kLastLine ? lines++ : kLastLine;
    }
  }
  caches->lines = std::make_unique<CacheLine[]>(lines + 1);
  caches->lines[lines].kind = CacheKind::Never;  // what enormous functions have left over shares this one
  return caches.release();
}

constexpr int kMaxMisses = 64;

// Counts a miss; a line that keeps missing is given up.
bool may_fill(CacheLine* line) {
  if (line->kind == CacheKind::Never) {
    return false;
  }
  if (++line->misses >= kMaxMisses) {
    *line = CacheLine();
    line->kind = CacheKind::Never;
    return false;
  }
  return true;
}

void set_line(CacheLine* line, CacheKind kind, uint32_t version, Py_ssize_t index, PyObject* value = nullptr,
              uint64_t tag = 0) {
  if (index < 0 || index > UINT16_MAX || (version == 0 && kind < CacheKind::Global)) {
    line->kind = CacheKind::Empty;
    return;
  }
  line->kind = kind;
  line->version = version;
  line->index = static_cast<uint16_t>(index);
  line->value = value;
  line->tag = tag;
}

// Whether what this object does as a descriptor is settled: __get__ and __set__ may be added to a class of the program
// at any time, and the version of the type that holds the object would not change.
// A module may even be given another class.
bool is_settled(PyObject* descriptor) {
  return (Py_TYPE(descriptor)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && !PyModule_Check(descriptor);
}

bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }

// The offset of a __slots__ member that holds an object, or -1. A class may hold the member of a stranger.
Py_ssize_t slot_offset(PyTypeObject* type, PyObject* descriptor, bool for_store) {
  if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type) || !PyType_IsSubtype(type, PyDescr_TYPE(descriptor))) {
    return -1;
  }
  PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  if (member->type != T_OBJECT_EX || (member->flags & PY_AUDIT_READ) || (for_store && (member->flags & READONLY))) {
    return -1;
  }
  return member->offset;
}

// Whether an instance has no dict, or one whose absence of a key lacks_own() can check.
bool can_check_own(PyTypeObject* type) { return type->tp_dictoffset == 0 || py::has_managed_dict(type); }

void fill_from_dict(CacheLine* line, PyObject* dict, uint32_t version, PyObject* name) {
  set_line(line, CacheKind::InstanceDict, version, dict ? py::find_dict_index(dict, name) : -1);
}

void fill_from_instance(CacheLine* line, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  uint32_t version = py::type_version(type);
  if (py::has_managed_dict(type)) {
    if (py::inline_values(object) != nullptr) {
      set_line(line, CacheKind::InstanceValue, version, py::find_shared_key(type, name));
    } else {
      fill_from_dict(line, py::managed_dict(object), version, name);
    }
  } else if (type->tp_dictoffset > 0) {
    PyObject* dict = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_dictoffset);
    fill_from_dict(line, dict && PyDict_CheckExact(dict) ? dict : nullptr, version, name);
  }
}

// The attribute of a class, read from the class.
void fill_from_class(CacheLine* line, PyObject* object, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  if (!Py_IS_TYPE(object, &PyType_Type) || _PyType_Lookup(&PyType_Type, name) != nullptr) {
    return;
  }
  PyObject* value = _PyType_Lookup(type, name);
  if (value == nullptr || !is_settled(value)) {
    return;
  }
  // A function read from its class is the function itself; anything else with __get__ may run code.
  if (Py_TYPE(value)->tp_descr_get == nullptr || Py_IS_TYPE(value, &PyFunction_Type)) {
    set_line(line, CacheKind::ClassValue, py::type_version(type), 0, value);
  }
}

bool own_is_absent(PyTypeObject* type, PyObject* name) {
  if (!py::has_managed_dict(type)) {
    return type->tp_dictoffset == 0;
  }
  // Also for an instance that has a dict of its own: lacks_own() will compare the count of shared keys with others.
  return py::find_shared_key(type, name) < 0;
}

void fill_from_type(CacheLine* line, CacheKind kind, PyObject* object, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(object);
  if (can_check_own(type) && own_is_absent(type, name)) {
    uint64_t count = py::has_managed_dict(type) ? py::shared_key_count(type) : 0;
    set_line(line, kind, py::type_version(type), 0, value, count);
  }
}

}  // namespace

bool prepare_caches() { return attachment.request(free_caches); }

CodeCaches* caches_of(PyCodeObject* code) {
  if (void* found = attachment.get(code)) {
    return static_cast<CodeCaches*>(found);
  }
  if (!(code->co_flags & CO_OPTIMIZED)) {
    return nullptr;  // module and class bodies run once
  }
  CodeCaches* made = make_caches(code);
  if (made != nullptr && !attachment.set(code, made)) {
    delete made;
    made = nullptr;
  }
  return made;
}

void fill_attribute(CacheLine* line, PyObject* object, PyObject* name) {
  if (!may_fill(line)) {
    return;
  }
  line->kind = CacheKind::Empty;
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object)) {
    fill_from_class(line, object, name);
    return;
  }
  bool module = PyModule_CheckExact(object);
  if (type->tp_getattro != PyObject_GenericGetAttr && !module) {
    return;
  }
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (descriptor == nullptr) {
    fill_from_instance(line, object, name);
  } else if (!is_settled(descriptor)) {
    return;
  } else if (Py_ssize_t offset = slot_offset(type, descriptor, false); offset > 0) {
    set_line(line, CacheKind::Slot, py::type_version(type), offset);
  } else if (Py_TYPE(descriptor)->tp_descr_get == nullptr && !is_data_descriptor(descriptor) && !module) {
    fill_from_type(line, CacheKind::TypeValue, object, name, descriptor);
    if (line->kind == CacheKind::Empty) {
      fill_from_instance(line, object, name);
    }
  }
}

void fill_method(CacheLine* line, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_getattro == PyObject_GenericGetAttr && !PyType_Check(object)) {
    PyObject* descriptor = _PyType_Lookup(type, name);
    if (descriptor != nullptr && is_settled(descriptor) &&
        (Py_TYPE(descriptor)->tp_flags & Py_TPFLAGS_METHOD_DESCRIPTOR)) {
      if (may_fill(line)) {
        line->kind = CacheKind::Empty;
        fill_from_type(line, CacheKind::TypeMethod, object, name, descriptor);
      }
      return;
    }
  }
  fill_attribute(line, object, name);
}

void fill_store(CacheLine* line, PyObject* object, PyObject* name) {
  if (!may_fill(line)) {
    return;
  }
  line->kind = CacheKind::Empty;
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_setattro != PyObject_GenericSetAttr) {
    return;
  }
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (descriptor != nullptr && !is_settled(descriptor)) {
    return;
  }
  if (descriptor != nullptr && is_data_descriptor(descriptor)) {
    Py_ssize_t offset = slot_offset(type, descriptor, true);
    if (offset > 0) {
      set_line(line, CacheKind::Slot, py::type_version(type), offset);
    }
  } else if (py::has_managed_dict(type) && py::inline_values(object) != nullptr) {
    set_line(line, CacheKind::InstanceValue, py::type_version(type), py::find_shared_key(type, name));
  }
}

void fill_global(CacheLine* line, PyObject* globals, PyObject* builtins, PyObject* name, bool in_globals) {
  if (!may_fill(line)) {
    return;
  }
  if (in_globals) {
    set_line(line, CacheKind::Global, 0, py::find_dict_index(globals, name));
  } else {
    set_line(line, CacheKind::Builtin, 0, py::find_dict_index(builtins, name), nullptr, py::dict_version(globals));
  }
}

}  // namespace alternator::interp
