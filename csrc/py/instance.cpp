#include "py/instance.h"

#include <unordered_set>

#include "base/once.h"
#include "base/ref.h"
#include "base/shortage.h"
#include "py/body.h"
#include "py/generator.h"
#include "py/iterator.h"
#include "py/lru_cache.h"
#include "py/members.h"
#include "py/ordered_dict.h"

namespace alternator::py {
namespace {

// Modules/_collectionsmodule.c and Objects/dictobject.c keep these to themselves.
struct DefaultDict {
  PyDictObject dict;
  PyObject* factory;
};

PyTypeObject* default_dict_type() {
  static constinit Once<PyTypeObject*> type;
  return type.get([] {
    PyObject* module = PyImport_ImportModule("_collections");
    PyObject* found = module ? PyObject_GetAttrString(module, "defaultdict") : nullptr;
    Py_XDECREF(module);
    forget_error();
    return reinterpret_cast<PyTypeObject*>(found);
  });
}

bool is_exception_type(PyTypeObject* type) { return PyExceptionClass_Check(reinterpret_cast<PyObject*>(type)); }

bool is_known_base(PyTypeObject* base) {
  if (is_exception_type(base)) {
    return base->tp_basicsize == static_cast<Py_ssize_t>(sizeof(PyBaseExceptionObject)) ||
           base == reinterpret_cast<PyTypeObject*>(PyExc_StopIteration);
  }
  return base == &PyBaseObject_Type || base == &PyList_Type || base == &PyDict_Type || base == &PyODict_Type ||
         base == &PySet_Type || base == deque_type() || base == default_dict_type();
}

constexpr const char* kReducible =
    "import itertools as i, functools as f, collections as c\n"
    "types = {*map(type, (iter([]), reversed([]), iter(()), iter(range(1)), iter(range(1 << 70)), iter('a'),\n"
    "  iter('\\u0394'), iter(b''), iter({}), iter({}.items()), iter({}.values()), reversed({}), iter(set()),\n"
    "  iter(c.OrderedDict()), iter(int, 1)))}\n"
    "types |= {enumerate, zip, map, filter, reversed, f.partial, i.chain, i.islice, i.repeat, i.count, i.accumulate,\n"
    "  i.product, i.permutations, i.combinations, i.zip_longest, i.starmap, i.takewhile, i.dropwhile, i.filterfalse,\n"
    "  i.compress}\n";

std::unordered_set<PyTypeObject*> find_reducible() {
  std::unordered_set<PyTypeObject*> found;
  Ref<> space = steal(PyDict_New());
  if (space && PyDict_SetItemString(space.get(), "__builtins__", PyEval_GetBuiltins()) == 0) {
    Ref<> ran = steal(PyRun_String(kReducible, Py_file_input, space.get(), space.get()));
    PyObject* types = ran ? PyDict_GetItemString(space.get(), "types") : nullptr;
    Ref<> list = types ? steal(PySequence_List(types)) : nullptr;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
      found.insert(reinterpret_cast<PyTypeObject*>(Py_NewRef(PyList_GET_ITEM(list.get(), i))));
    }
  }
  forget_error();
  return found;
}

}  // namespace

bool prepare_types() {
  const uint64_t shortages = count_shortages();
  bool found = deque_type() != nullptr && default_dict_type() != nullptr;
  c_base(&PyBaseObject_Type);
  is_rebuilt_by_reduce(&PyBaseObject_Type);
  fixed_parts(Py_None);
  as_cache(Py_None);
  knows_ordered_dict();
  iterator_kind(Py_None);
  if (!found || count_shortages() != shortages) {
    PyErr_NoMemory();
    return false;
  }
  return true;
}

PyTypeObject* layout_base(PyTypeObject* type) {
  PyTypeObject* base = type;
  Py_ssize_t size = 0;
  while (base != nullptr && PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) {
    base = base->tp_base;
  }
  if (base == nullptr || !is_known_base(base)) {
    return nullptr;
  }
  size = base->tp_basicsize + static_cast<Py_ssize_t>(slot_offsets(type).size() * sizeof(PyObject*));
  size += type->tp_dictoffset > 0 && base->tp_dictoffset == 0 ? sizeof(PyObject*) : 0;
  size += type->tp_weaklistoffset > 0 && base->tp_weaklistoffset == 0 ? sizeof(PyObject*) : 0;
  return type->tp_basicsize == size && type->tp_itemsize == base->tp_itemsize ? base : nullptr;
}

namespace {

// The destructor of all classes that class statements make, which CPython keeps to itself.
destructor python_destructor() {
  static constinit Once<destructor> found;
  return found.get([] {
    Ref<> made = steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){}", "Probe"));
    forget_error();
    return made ? reinterpret_cast<PyTypeObject*>(made.get())->tp_dealloc : nullptr;
  });
}

}  // namespace

PyTypeObject* c_base(PyTypeObject* type) {
  const destructor of_python = python_destructor();
  while (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_dealloc == of_python) {
    type = type->tp_base;
  }
  return type;
}

PyObject* base_value(PyObject* object) {
  PyObject* value = PyLong_Check(object)      ? _PyLong_Copy(reinterpret_cast<PyLongObject*>(object))
                    : PyFloat_Check(object)   ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(object))
                    : PyUnicode_Check(object) ? PyUnicode_FromObject(object)
                    : PyBytes_Check(object)
                        ? PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object))
                    : PyComplex_Check(object) ? PyComplex_FromCComplex(reinterpret_cast<PyComplexObject*>(object)->cval)
                                              : nullptr;
  forget_error();
  return value;
}

std::vector<Py_ssize_t> slot_offsets(PyTypeObject* type) {
  std::vector<Py_ssize_t> offsets;
  for (; type != nullptr && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); type = type->tp_base) {
    __asm__("" : "+r"(type));  // see shared_keys() in layout.h
    PyMemberDef* members = _PyHeapType_GET_MEMBERS(reinterpret_cast<PyHeapTypeObject*>(type));
    for (Py_ssize_t i = 0; i < Py_SIZE(type); ++i) {
      if (members[i].type == T_OBJECT_EX) {
        offsets.push_back(members[i].offset);
      }
    }
  }
  return offsets;
}

PyObject* make_instance(PyTypeObject* type, PyObject* arguments) {
  PyTypeObject* base = layout_base(type);
  Ref<> none = steal(PyTuple_New(0));
  PyObject* given = arguments != nullptr ? arguments : none.get();
  if (base == nullptr || !none) {
    PyErr_SetString(PyExc_SystemError, "alternator: an instance of an unknown layout");
    return nullptr;
  }
  Ref<> instance = steal(base->tp_new(type, given, nullptr));
  if (instance && is_exception_type(base) && base->tp_init(instance.get(), given, nullptr) < 0) {
    return nullptr;
  }
  return instance.release();
}

bool is_rebuilt_by_reduce(PyTypeObject* type) {
  static constinit Once<const std::unordered_set<PyTypeObject*>*> types;
  return types.get([] { return new std::unordered_set<PyTypeObject*>(find_reducible()); })->count(type) != 0;
}

PyObject* binder_of_wrapper(PyObject* wrapper) {
  Ref<> owner = steal(PyObject_GetAttrString(wrapper, "__objclass__"));
  Ref<> name = owner ? steal(PyObject_GetAttrString(wrapper, "__name__")) : nullptr;
  PyObject* found =
      name ? PyDict_GetItemWithError(reinterpret_cast<PyTypeObject*>(owner.get())->tp_dict, name.get()) : nullptr;
  return found != nullptr && Py_IS_TYPE(found, &PyWrapperDescr_Type) ? PyObject_GetAttrString(found, "__get__")
                                                                     : nullptr;
}

PyObject* default_factory(PyObject* dict) {
  PyTypeObject* type = default_dict_type();
  return type != nullptr && PyType_IsSubtype(Py_TYPE(dict), type) ? reinterpret_cast<DefaultDict*>(dict)->factory
                                                                  : nullptr;
}

Py_ssize_t default_factory_offset() { return offsetof(DefaultDict, factory); }

void set_default_factory(PyObject* dict, PyObject* factory) {
  Py_XSETREF(reinterpret_cast<DefaultDict*>(dict)->factory, Py_NewRef(factory));
}

PyObject* viewed_dict(PyObject* view) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
}

PyObject* make_view(PyObject* dict, PyTypeObject* type) { return _PyDictView_New(dict, type); }

TracebackParts take_traceback_apart(PyObject* traceback) {
  auto* tb = reinterpret_cast<PyTracebackObject*>(traceback);
  Frame* frame = tb->tb_frame->f_frame;
  int line = tb->tb_lineno;
  if (line == -1) {
    line = PyCode_Addr2Line(frame->f_code, tb->tb_lasti);
  }
  return {reinterpret_cast<PyObject*>(tb->tb_next), reinterpret_cast<PyObject*>(frame->f_code), frame->f_globals,
          tb->tb_lasti, line};
}

PyObject* make_traceback(const TracebackParts& parts) {
  auto* code = reinterpret_cast<PyCodeObject*>(parts.code);
  Ref<> frame = steal(reinterpret_cast<PyObject*>(PyFrame_New(current_thread(), code, parts.globals, nullptr)));
  if (!frame) {
    return nullptr;
  }
  reinterpret_cast<PyFrameObject*>(frame.get())->f_frame->prev_instr =
      first_instruction(code) + parts.lasti / static_cast<int>(sizeof(CodeUnit));
  return PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                               parts.next ? parts.next : Py_None, frame.get(), parts.lasti, parts.line);
}

GeneratorState generator_state(PyGenObject* generator) {
  GeneratorState state;
  state.resumable = is_resumable(generator);
  if (!state.resumable) {
    return state;
  }
  Frame* frame = frame_of(generator);
  state.created = is_just_created(generator);
  state.code = reinterpret_cast<PyObject*>(frame->f_code);
  state.function = reinterpret_cast<PyObject*>(frame->f_func);
  state.offset = static_cast<int>(frame->prev_instr + 1 - first_instruction(frame->f_code));
  state.handled = generator->gi_exc_state.exc_value;
  state.locals.assign(frame->localsplus, frame->localsplus + frame->f_code->co_nlocalsplus);
  if (!state.created) {
    state.stack.assign(stack_base(frame), frame->localsplus + frame->stacktop);
  }
  return state;
}

PyObject* generator_function(PyGenObject* generator) {
  return generator->gi_frame_state < FRAME_CLEARED ? reinterpret_cast<PyObject*>(frame_of(generator)->f_func) : nullptr;
}

bool fill_generator(PyGenObject* generator, const GeneratorState& state) {
  Frame* frame = frame_of(generator);
  auto* function = reinterpret_cast<PyFunctionObject*>(state.function);
  if (state.created) {
    change_function(frame, function);
  } else {
    if (!revive_generator(generator, function, reinterpret_cast<PyCodeObject*>(state.code))) {
      PyErr_SetString(PyExc_SystemError, "alternator: a generator cannot be put back");
      return false;
    }
    for (int i = 0; i < frame->stacktop; ++i) {
      frame->localsplus[i] = nullptr;
    }
  }
  for (size_t i = 0; i < state.locals.size(); ++i) {
    Py_XSETREF(frame->localsplus[i], Py_XNewRef(state.locals[i]));
  }
  if (state.created) {
    return true;
  }
  PyObject** at = stack_base(frame);
  for (PyObject* value : state.stack) {
    *at++ = Py_XNewRef(value);
  }
  frame->stacktop = static_cast<int>(at - frame->localsplus);
  frame->prev_instr = first_instruction(frame->f_code) + state.offset - 1;
  Py_XSETREF(generator->gi_exc_state.exc_value, Py_XNewRef(state.handled));
  return true;
}

void restore_generator(PyGenObject* generator, const GeneratorState& state) {
  GeneratorState copy = state;
  copy.created = false;  // the frame is filled anew in any case
  if (!fill_generator(generator, copy)) {
    forget_error();
    return;
  }
  if (state.created) {
    generator->gi_frame_state = FRAME_CREATED;
  }
}

}  // namespace alternator::py
