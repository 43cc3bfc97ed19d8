// How a warning is ignored: in front of the rows of `warnings.filters` stands one whose pattern fits every text, in the
// threads that ignore warnings. The list is exchanged for as long as any thread does. (warnings.catch_warnings would make
// the module forget which places have warned.)
#include "torch/ignored_warnings.h"

#include "base/boundary.h"
#include "base/once.h"

#include <c10/util/Exception.h>

#include <utility>

namespace alternator::tensor {
namespace {

thread_local int ignoring = 0;
thread_local uint64_t ignored = 0;

// Guarded by the GIL.
struct Filters {
  PyObject* module_dict = nullptr;  // of `warnings`
  PyObject* name = nullptr;         // "filters"
  PyObject* row = nullptr;          // ours
  Ref<> theirs;                     // the program's list
  Ref<> exchanged;                  // our row and those of that list
  int users = 0;
  bool warns_always = false;  // torch: also of what it warns of once only

  PyObject* current() const { return PyDict_GetItemWithError(module_dict, name); }

  bool is_made_of(PyObject* list) const {
    return list == theirs.get() && PyList_GET_SIZE(exchanged.get()) == PyList_GET_SIZE(list) + 1;
  }

  bool make_of(PyObject* list) {
    Ref<> made = steal(PyList_New(1));
    if (!made) {
      return false;
    }
    PyList_SET_ITEM(made.get(), 0, Py_NewRef(row));
    if (PyList_SetSlice(made.get(), 1, 1, list) < 0) {
      return false;
    }
    exchanged = std::move(made);
    theirs = share(list);
    return true;
  }

  void exchange() {
    PyObject* list = current();
    if (list != nullptr && PyList_CheckExact(list) && list != exchanged.get() && (is_made_of(list) || make_of(list))) {
      PyDict_SetItem(module_dict, name, exchanged.get());
    }
    PyErr_Clear();
    warns_always = c10::WarningUtils::get_warnAlways();
    c10::WarningUtils::set_warnAlways(true);
  }

  void put_back() {
    c10::WarningUtils::set_warnAlways(warns_always);
    if (exchanged && current() == exchanged.get()) {
      PyDict_SetItem(module_dict, name, theirs.get());
    }
  }
};

Filters& filters() {
  static constinit Once<Filters*> filters;
  return *filters.get([] { return new Filters; });
}

// As the pattern of a row: fits every text in a thread that ignores warnings.
PyObject* match(PyObject*, PyObject*) {
  ignored += ignoring > 0;
  return PyBool_FromLong(ignoring > 0);
}
PyMethodDef match_method = {"match", as_method<match>(), METH_O, nullptr};

}  // namespace

bool IgnoredWarnings::prepare() {
  Ref<> warnings = steal(PyImport_ImportModule("warnings"));
  Ref<> function = steal(PyCFunction_New(&match_method, nullptr));
  Ref<> pattern = steal(PyModule_New("alternator.ignored_warnings"));  // any object with the attribute `match`
  if (!warnings || !function || !pattern || PyModule_AddObjectRef(pattern.get(), "match", function.get()) < 0) {
    return false;
  }
  Filters& all = filters();
  all.module_dict = Py_NewRef(PyModule_GetDict(warnings.get()));
  all.name = PyUnicode_InternFromString("filters");
  all.row = Py_BuildValue("(sOOOi)", "ignore", pattern.get(), PyExc_Warning, Py_None, 0);
  return all.name != nullptr && all.row != nullptr;
}

IgnoredWarnings::IgnoredWarnings() {
  ++ignoring;
  if (filters().users++ == 0) {
    filters().exchange();
  }
}

IgnoredWarnings::~IgnoredWarnings() {
  --ignoring;
  if (--filters().users == 0) {
    filters().put_back();
  }
}

uint64_t IgnoredWarnings::count() { return ignored; }

}  // namespace alternator::tensor
