// Taking objects apart and making objects like them, below what Python code can do: instances without running __init__,
// generators in mid-body, tracebacks, views.
#pragma once

#include <vector>

#include "py/frame.h"

namespace alternator::py {

// The class of C code that lays out a class's instances, if besides it there are only slots, a dict and weak references;
// null if there is more, or if the class is not one whose contents are known.
PyTypeObject* layout_base(PyTypeObject* type);
// The nearest class that no class statement made: what C code knows of an instance's memory is what this one says.
PyTypeObject* c_base(PyTypeObject* type);
// The number, text or bytes that an instance of a class derived from int, float, complex, str or bytes is, as one of the
// builtin class itself. New reference; null if it is no such instance.
PyObject* base_value(PyObject* object);
// The offsets of the members of __slots__, those of the bases first.
std::vector<Py_ssize_t> slot_offsets(PyTypeObject* type);
inline PyObject*& object_at(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

// Makes an instance as its C base does: no __new__ or __init__ of Python code runs. `arguments` is for exceptions.
// New reference; null with an exception set.
PyObject* make_instance(PyTypeObject* type, PyObject* arguments);

// Finds the types and layouts that CPython keeps to itself (of this file, body.h, members.h, lru_cache.h, ordered_dict.h), while
// there is memory: what is not found is taken to be unlike for good. False with an exception set.
bool prepare_types();

// Iterators of CPython and the like, which say by __reduce__ all that they are.
bool is_rebuilt_by_reduce(PyTypeObject* type);

// What makes a bound special method of a C class, like (1).__add__, from its object. Null if there is no telling.
PyObject* binder_of_wrapper(PyObject* wrapper);

PyObject* default_factory(PyObject* dict);  // of a defaultdict; borrowed; null for other dicts
Py_ssize_t default_factory_offset();
void set_default_factory(PyObject* dict, PyObject* factory);
PyObject* viewed_dict(PyObject* view);
PyObject* make_view(PyObject* dict, PyTypeObject* type);

struct TracebackParts {
  PyObject* next;
  PyObject* code;
  PyObject* globals;
  int lasti;
  int line;
};
TracebackParts take_traceback_apart(PyObject* traceback);
// With a frame of its own that has no locals. New reference; null with an exception set.
PyObject* make_traceback(const TracebackParts& parts);

struct GeneratorState {
  bool resumable = false;
  bool created = false;  // the body has not begun
  int offset = 0;        // of the instruction to run next
  PyObject* code = nullptr;
  PyObject* function = nullptr;
  PyObject* handled = nullptr;
  std::vector<PyObject*> locals, stack;
};
GeneratorState generator_state(PyGenObject* generator);
PyObject* generator_function(PyGenObject* generator);  // borrowed; null if the generator has ended
// Fills a generator that was made by a call of its function. Shares the values. False with an exception set.
bool fill_generator(PyGenObject* generator, const GeneratorState& state);
// Puts back a generator that was resumed meanwhile.
void restore_generator(PyGenObject* generator, const GeneratorState& state);
// The locals and the stack of a resumable generator, in place.
template <class Visit>
void visit_generator_values(PyGenObject* generator, Visit visit) {
  Frame* frame = frame_of(generator);
  int count = generator->gi_frame_state == FRAME_CREATED ? frame->f_code->co_nlocalsplus : frame->stacktop;
  for (int i = 0; i < count; ++i) {
    visit(frame->localsplus[i]);
  }
}

}  // namespace alternator::py
