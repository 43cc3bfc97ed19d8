#include "py/finaliser.h"

#include <cstring>
#include <exception>
#include <vector>

#include "base/shortage.h"
#include "py/code.h"
#include "py/generator.h"
#include "py/instance.h"

namespace alternator::py {
namespace {

// Objects that are looked at, at most: more than that is taken for something that minds.
constexpr size_t kMaximumVisits = 100000;

bool has_prefix(const char* text, const char* prefix) { return std::strncmp(text, prefix, std::strlen(prefix)) == 0; }

// Weak dicts and sets forget their entry, and so do torch's tables; C code keeps its own books. What such a callback does is
// not seen by anybody who does not look into that very table.
bool keeps_books(PyObject* callback) {
  if (PyCFunction_Check(callback)) {
    return true;
  }
  if (!PyFunction_Check(callback)) {
    return false;
  }
  PyObject* module = reinterpret_cast<PyFunctionObject*>(callback)->func_module;
  const char* name = module != nullptr && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  forget_error();
  return name != nullptr &&
         (std::strcmp(name, "weakref") == 0 || std::strcmp(name, "_weakrefset") == 0 ||
          std::strcmp(name, "torch") == 0 || has_prefix(name, "torch.") || has_prefix(name, "alternator."));
}

bool has_callbacks(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
    return false;
  }
  auto* list = reinterpret_cast<PyWeakReference**>(PyObject_GET_WEAKREFS_LISTPTR(object));
  for (PyWeakReference* one = *list; one != nullptr; one = one->wr_next) {
    if (one->wr_callback != nullptr && !keeps_books(one->wr_callback)) {
      return true;
    }
  }
  return false;
}

// Its body stands in a `try` or `with`.
bool stands_in_handler(PyGenObject* generator) {
  if (!is_resumable(generator) || is_just_created(generator)) {
    return false;
  }
  GeneratorState state = generator_state(generator);
  Handler handler;
  return find_handler(reinterpret_cast<PyCodeObject*>(state.code), state.offset - 1, &handler);
}

// Follows references to what has no other one.
class Search {
 public:
  bool run(PyObject* root) {
    found_ = is_finalised(root);
    look_into(root);
    while (!found_ && !waiting_.empty()) {
      PyObject* object = waiting_.back();
      waiting_.pop_back();
      look_into(object);
    }
    return found_;
  }

 private:
  void look_into(PyObject* object) {
    if (!found_ && PyObject_IS_GC(object) && Py_TYPE(object)->tp_traverse != nullptr) {
      Py_TYPE(object)->tp_traverse(object, visit, this);
    }
  }
  int look_at(PyObject* object) {
    if (!found_ && Py_REFCNT(object) == 1) {
      found_ = is_finalised(object) || ++visits_ > kMaximumVisits;
      waiting_.push_back(object);
    }
    return 0;
  }
  static int visit(PyObject* object, void* self) noexcept {
    try {
      return static_cast<Search*>(self)->look_at(object);
    } catch (const std::exception&) {  // no memory
      static_cast<Search*>(self)->found_ = true;
      return 1;
    }
  }

  bool found_ = false;
  size_t visits_ = 0;
  std::vector<PyObject*> waiting_;
};

}  // namespace

bool is_finalised(PyObject* object) {
  if (PyGen_CheckExact(object)) {
    return stands_in_handler(reinterpret_cast<PyGenObject*>(object)) || has_callbacks(object);
  }
  PyTypeObject* type = Py_TYPE(object);
  return type->tp_finalize != nullptr || type->tp_del != nullptr || has_callbacks(object);
}

bool runs_code_when_dropped(PyObject* object) { return Search().run(object); }

}  // namespace alternator::py
