#include "record/contract.h"

#include <cstring>
#include <unordered_map>

#include "base/once.h"
#include "base/shortage.h"
#include "py/names.h"

namespace alternator::record {
namespace {

std::unordered_map<const void*, const Contract*> table;

std::unordered_map<PyObject*, PyObject*> substitutes;  // both are kept
PyTypeObject* wrapper_type = nullptr;
PyObject* real_modules = nullptr;  // kept for good

constexpr Contract kContracts[] = {
#define CONTRACT(name, row, first, others, writes, returns, calls_back, recorded_by) \
  {row, Reads::first, Reads::others, Writes::writes, Returns::returns, calls_back, RecordedBy::recorded_by},
#include "record/contract.def"
};

}  // namespace

// The definition of the C function behind a callable (not the function pointer: pybind11 has one for all of its
// functions); for a type, the type itself. Null if there is none.
const void* key_of(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyCFunction_Type) {
    // All __new__ of C code are one function, bound to a class.
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self != nullptr && PyType_Check(self) &&
        std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, "__new__") == 0) {
      return reinterpret_cast<const void*>(reinterpret_cast<PyTypeObject*>(self)->tp_new);
    }
    return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  }
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  if (type == &PyWrapperDescr_Type) {
    // Slots share wrapper functions and implementations; the pair is told by the descriptor, which types keep.
    return callable;
  }
  if (is_method_wrapper(callable)) {
    Ref<> objclass = steal(PyObject_GetAttrString(callable, "__objclass__"));
    Ref<> name = steal(PyObject_GetAttrString(callable, "__name__"));
    forget_error();
    return objclass && name && PyType_Check(objclass.get())
               ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(objclass.get()), name.get())
               : nullptr;
  }
  if (PyType_Check(callable)) {
    return callable;
  }
  return callable;  // other callables are in the table by identity
}

void set_real_modules(PyObject* names) { real_modules = Py_NewRef(names); }

namespace {

bool is_real_module(PyObject* name) {
  for (Py_ssize_t i = 0; real_modules && i < PyTuple_GET_SIZE(real_modules); ++i) {
    PyObject* module = PyTuple_GET_ITEM(real_modules, i);
    Py_ssize_t length = PyUnicode_GET_LENGTH(module);
    if (PyUnicode_Tailmatch(name, module, 0, PyUnicode_GET_LENGTH(name), -1) == 1 &&
        (PyUnicode_GET_LENGTH(name) == length || PyUnicode_ReadChar(name, length) == '.')) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_of_real_module(PyObject* function) {
  PyObject* const key = py::names.__name__;
  PyObject* name = PyDict_GetItemWithError(reinterpret_cast<PyFunctionObject*>(function)->func_globals, key);
  if (name == nullptr || !PyUnicode_CheckExact(name)) {
    forget_error();
    return false;
  }
  // Names of modules are few and the same objects; those in here are kept alive.
  static constinit Once<std::unordered_map<PyObject*, bool>*> kept;
  auto* const answers = kept.get([] { return new std::unordered_map<PyObject*, bool>; });
  constexpr size_t kMost = 1 << 14;
  auto found = answers->find(name);
  if (found != answers->end()) {
    return found->second;
  }
  bool answer = is_real_module(name);
  if (answers->size() < kMost) {
    answers->emplace(Py_NewRef(name), answer);
  }
  return answer;
}

namespace {

PyObject* disabling_code = nullptr;

bool has_disabling_code(PyObject* function) {
  return disabling_code != nullptr && PyFunction_GET_CODE(function) == disabling_code;
}

PyObject* attribute_of_function(PyObject* function, PyObject* name) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  return attributes != nullptr ? PyDict_GetItemWithError(attributes, name) : nullptr;
}

}  // namespace

bool is_disabled(PyObject* function) {
  PyObject* const name = py::names._torchdynamo_disable;
  return attribute_of_function(function, name) == Py_True || has_disabling_code(function);
}

bool is_disabled_with_callees(PyObject* function) {
  PyObject* const name = py::names._torchdynamo_disable_recursive;
  return has_disabling_code(function) || (is_disabled(function) && attribute_of_function(function, name) == Py_True);
}

void set_disabling_code(PyObject* code) { disabling_code = Py_NewRef(code); }

bool is_method_wrapper(PyObject* callable) { return Py_TYPE(callable) == &_PyMethodWrapper_Type; }

namespace {

// The later row counts. The callable lives as long as the table: its address is the key.
void enter(PyObject* callable, const Contract& contract) {
  Py_INCREF(callable);
  table.insert_or_assign(key_of(callable), &contract);
}

}  // namespace

bool add_contract(const char* name, PyObject* callable) {
  for (const Contract& contract : kContracts) {
    if (std::strcmp(contract.name, name) == 0) {
      enter(callable, contract);
      return true;
    }
  }
  PyErr_Format(PyExc_KeyError, "there is no contract named %s", name);
  return false;
}

bool fill_contracts(PyObject* rows) {
  table.clear();
  for (const Contract& contract : kContracts) {
    PyObject* callables = PyDict_GetItemString(rows, contract.name);
    if (callables == nullptr) {
      PyErr_Format(PyExc_KeyError, "the contracts have no row %s", contract.name);
      return false;
    }
    Ref<> list = steal(PySequence_List(callables));
    for (Py_ssize_t j = 0; list && j < PyList_GET_SIZE(list.get()); ++j) {
      enter(PyList_GET_ITEM(list.get(), j), contract);
    }
    if (!list) {
      return false;
    }
  }
  return true;
}

void set_substitute(PyObject* callable, PyObject* other) {
  Ref<> key, before;  // let go of when the table is as it is to be
  if (auto found = substitutes.find(callable); found != substitutes.end()) {
    key = steal(found->first);
    before = steal(found->second);
    substitutes.erase(found);
  }
  if (other != nullptr) {
    substitutes.emplace(Py_NewRef(callable), Py_NewRef(other));
  }
}

void set_wrapper_type(PyTypeObject* type) { wrapper_type = type; }

PyObject* substitute_of(PyObject* callable) {
  PyObject* const mark = py::names._alternator_substitute;
  if (PyFunction_Check(callable)) {
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(callable)->func_dict;
    PyObject* value = attributes ? PyDict_GetItemWithError(attributes, mark) : nullptr;
    forget_error();
    bool own = value != nullptr && PyTuple_Check(value) && PyTuple_GET_SIZE(value) == 2 &&
               PyLong_AsVoidPtr(PyTuple_GET_ITEM(value, 0)) == callable;
    forget_error();
    return own ? PyTuple_GET_ITEM(value, 1) : nullptr;
  }
  if (Py_IS_TYPE(callable, wrapper_type)) {
    Ref<> wrapped = steal(PyObject_GetAttrString(callable, "__wrapped__"));
    forget_error();
    return wrapped.get() == Py_None ? nullptr : wrapped.get();  // kept by the callable
  }
  auto found = substitutes.find(callable);
  return found == substitutes.end() ? nullptr : found->second;
}

const Contract* contract_of(PyObject* callable) {
  auto found = table.find(key_of(callable));
  return found == table.end() ? nullptr : found->second;
}

std::optional<RecordedBy> recorder_of(PyObject* callable) {
  const Contract* contract = contract_of(callable);
  return contract != nullptr ? std::optional(contract->recorded_by) : std::nullopt;
}

}  // namespace alternator::record
