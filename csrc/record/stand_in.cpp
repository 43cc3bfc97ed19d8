#include "record/stand_in.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/boundary.h"
#include "record/contract.h"
#include "source/value.h"

namespace alternator::record {
namespace {

enum class When : uint8_t {
#define WHEN(name, row) name,
#include "record/stand_in.def"
#undef WHEN
};
constexpr const char* kRows[] = {
#define WHEN(name, row) row,
#include "record/stand_in.def"
#undef WHEN
};

struct StandIn {
  When when;
  PyObject* function;
};
std::unordered_map<const void*, StandIn> table;
std::unordered_set<PyObject*> own_globals;

PyObject* relay(PyObject* target, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return PyObject_Vectorcall(target, args, count, names);
}

PyMethodDef relay_method = {"stand_in", as_method<relay>(), METH_FASTCALL | METH_KEYWORDS, nullptr};

bool is_seen_when_called(PyObject* callable) {
  return PyFunction_Check(callable) ||
         (Py_IS_TYPE(callable, &PyMethod_Type) && PyFunction_Check(PyMethod_GET_FUNCTION(callable)));
}

// torch.FloatTensor and its like, which tell of a tensor's dtype and device; or a tuple with one.
bool is_tensor_type(PyObject* object) {
  if (!PyTuple_Check(object)) {
    return std::strcmp(Py_TYPE(object)->tp_name, "torch.tensortype") == 0;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (is_tensor_type(PyTuple_GET_ITEM(object, i))) {
      return true;
    }
  }
  return false;
}

bool applies(When when, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t positional) {
  switch (when) {
    case When::Always:
    case When::Unpacking:
    case When::Instance: return true;
    case When::TensorType: return positional == 2 && source::is_tensor(arguments[0]) && is_tensor_type(arguments[1]);
    case When::Two: return positional == 2;
    case When::Pairs: return positional > 0 && !PyDict_Check(arguments[positional - 1]);
    case When::Iterator:
      for (Py_ssize_t i = 0; i < count; ++i) {
        if (PyIter_Check(arguments[i])) {
          return true;
        }
      }
      return false;
    case When::Callback:
      for (Py_ssize_t i = 0; i < count; ++i) {
        if (PyCallable_Check(arguments[i]) && !is_seen_when_called(arguments[i])) {
          return true;
        }
      }
      return false;
  }
  return false;
}

// The function takes so many values without a name (its first parameter is bound already, if `bound`) and these names.
bool takes(PyObject* function, Py_ssize_t positional, PyObject* names, bool bound) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  Ref<> held = steal(PyCode_GetVarnames(code));
  PyObject* parameters = held.get();
  if (!held) {
    return false;
  }
  const int all = code->co_argcount + code->co_kwonlyargcount;
  std::vector<bool> given(static_cast<size_t>(all));
  positional += bound;
  if (positional > code->co_argcount && (code->co_flags & CO_VARARGS) == 0) {
    return false;
  }
  std::fill_n(given.begin(), std::min<Py_ssize_t>(positional, code->co_argcount), true);
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
    int at = code->co_posonlyargcount;
    while (at < all && PyUnicode_Compare(PyTuple_GET_ITEM(parameters, at), PyTuple_GET_ITEM(names, i)) != 0) {
      ++at;
    }
    if (at < all ? given[at] : (code->co_flags & CO_VARKEYWORDS) == 0) {
      return false;
    }
    if (at < all) given[at] = true;
  }
  PyObject* defaults = PyFunction_GET_DEFAULTS(function);
  PyObject* named = PyFunction_GET_KW_DEFAULTS(function);
  const Py_ssize_t needed = code->co_argcount - (defaults != nullptr ? PyTuple_GET_SIZE(defaults) : 0);
  for (int i = 0; i < all; ++i) {
    bool has_default = i < code->co_argcount
                           ? i >= needed
                           : named != nullptr && PyDict_Contains(named, PyTuple_GET_ITEM(parameters, i)) == 1;
    if (!given[i] && !has_default) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool fill_stand_ins(PyObject* rows) {
  table.clear();
  for (size_t i = 0; i < sizeof kRows / sizeof *kRows; ++i) {
    PyObject* pairs = PyDict_GetItemString(rows, kRows[i]);
    if (pairs == nullptr || !PyDict_Check(pairs)) {
      PyErr_Format(PyExc_KeyError, "the table of stand-ins has no row %s", kRows[i]);
      return false;
    }
    PyObject *callable, *function;
    Py_ssize_t position = 0;
    while (PyDict_Next(pairs, &position, &callable, &function)) {
      Py_INCREF(callable);  // lives as long as the table: its address is the key
      table.insert_or_assign(key_of(callable), StandIn{static_cast<When>(i), Py_NewRef(function)});
      own_globals.insert(reinterpret_cast<PyFunctionObject*>(function)->func_globals);
    }
  }
  return true;
}

std::optional<Ref<>> stand_in_for(PyObject* callable, PyObject* const* arguments, Py_ssize_t count,
                                  Py_ssize_t positional, PyObject* names, PyObject* caller) {
  Ref<> self;
  if (Py_IS_TYPE(callable, &PyMethod_Type) && PyFunction_Check(PyMethod_GET_FUNCTION(callable))) {
    self = share(PyMethod_GET_SELF(callable));
    callable = PyMethod_GET_FUNCTION(callable);
  }
  auto found = table.find(key_of(callable));
  if (found == table.end() || found->second.when == When::Instance) {
    found = table.find(Py_TYPE(callable));
    if (found == table.end() || found->second.when != When::Instance || contract_of(callable) != nullptr) {
      return Ref<>();
    }
    self = share(callable);
  }
  const StandIn& entry = found->second;
  // A function that keeps addresses calls itself and its parts directly: only the outermost call is one of C code.
  bool is_part = recorder_of(callable) == RecordedBy::Keyed && recorder_of(caller) == RecordedBy::Keyed;
  if (entry.function == caller || is_part || !applies(entry.when, arguments, count, positional)) {
    return Ref<>();
  }
  if (PyCFunction_Check(callable) || is_method_wrapper(callable)) {
    self = steal(PyObject_GetAttrString(callable, "__self__"));
    if (self && (PyModule_Check(self.get()) || PyType_Check(self.get()))) {
      self = nullptr;
    }
  }
  if (!takes(entry.function, positional, names, static_cast<bool>(self))) {
    return std::nullopt;
  }
  Ref<> target = self ? steal(PyMethod_New(entry.function, self.get())) : share(entry.function);
  return target ? steal(PyCFunction_New(&relay_method, target.get())) : Ref<>();
}

Ref<> unpacking_call() {
  auto found = table.find(Py_Ellipsis);
  return found != table.end() ? steal(PyCFunction_New(&relay_method, found->second.function)) : nullptr;
}

bool is_stand_in(PyObject* globals) { return own_globals.count(globals) != 0; }

}  // namespace alternator::record
