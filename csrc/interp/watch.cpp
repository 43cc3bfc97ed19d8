#include "interp/watch.h"

#include <utility>
#include <vector>

#include "interp/hook.h"
#include "interp/snapshot.h"
#include "py/instance.h"

namespace alternator::interp {

thread_local constinit Watch* current_watch = nullptr;

namespace {

thread_local constinit const Position* looked_at = nullptr;

int offset_of(const Position& position) {
  return static_cast<int>(position.instruction - py::first_instruction(position.frame->f_code));
}

int depth_of(const Position& position) {
  int depth = 1;
  for (const py::Frame* frame = position.frame; frame != position.entry; frame = frame->previous) {
    ++depth;
  }
  return depth;
}

// Calls back from the middle of a run. The callback's own exceptions are none of the program's.
template <class... Arguments>
bool tell(const Ref<>& callback, const char* format, Arguments... arguments) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Unobserved native;
  Ref<> held = callback.clone();
  Ref<> answer = steal(PyObject_CallFunction(held.get(), format, arguments...));
  if (!answer) {
    PyErr_WriteUnraisable(held.get());
  }
  PyErr_Restore(type, value, traceback);
  return answer.get() == Py_True;
}

template <class Values>
Ref<> describe_values(const Values& values, PyObject* missing) {
  Ref<> tuple = steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; tuple && i < values.size(); ++i) {
    PyObject* value;
    if constexpr (std::is_pointer_v<typename Values::value_type>) {
      value = values[i];
    } else {
      value = values[i].get();
    }
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(value != nullptr ? value : missing));
  }
  return tuple;
}

class Watcher : public Observer {
 public:
  explicit Watcher(PyObject* callable)
      : function_(PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable) {}

  void enter(py::Frame* entry) override {
    if (++depth_ == 1) {
      watching_ = !finished_ && reinterpret_cast<PyObject*>(entry->f_func) == function_;
    }
  }
  void leave() override {
    if (--depth_ == 0) {
      finished_ = finished_ || watching_;  // finalisers may follow
      watching_ = false;
    }
  }
  Verdict before_instruction(const Position& position) override {
    bool opaque = depth_ == 1 && watching_ && show_instruction(position, 0);
    return opaque ? Verdict::Opaque : Verdict::Go;
  }

 private:
  PyObject* function_;
  int depth_ = 0;
  bool watching_ = false;
  bool finished_ = false;
};

}  // namespace

bool show_instruction(const Position& position, int nested) {
  if (current_watch == nullptr || current_watch->nested != nested) {
    return false;
  }
  const Position* outer = std::exchange(looked_at, &position);
  bool answer =
      tell(current_watch->at_instruction, "Oii", position.frame->f_code, offset_of(position), depth_of(position));
  looked_at = outer;
  return answer;
}

void begin_path() {
  if (current_watch != nullptr) {
    current_watch->path = steal(PyList_New(0));
  }
}

void add_to_path(const Position& position) {
  if (current_watch == nullptr || !current_watch->path) {
    return;
  }
  Ref<> row = steal(Py_BuildValue("(Oii)", position.frame->f_code, offset_of(position), depth_of(position)));
  if (!row || PyList_Append(current_watch->path.get(), row.get()) < 0) {
    PyErr_WriteUnraisable(nullptr);
  }
}

Ref<> take_path() { return current_watch != nullptr ? std::move(current_watch->path) : Ref<>(); }

void show_path(PyObject* path) {
  if (current_watch != nullptr && current_watch->nested == 0) {
    tell(current_watch->at_region, "O", path);
  }
}

Ref<> describe_frames(PyObject* missing) {
  if (looked_at == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "alternator: no frames are being looked at");
    return nullptr;
  }
  StackState state = take_snapshot(*looked_at);
  auto given = [&](PyObject* object) { return object != nullptr ? object : missing; };
  Ref<> rows = steal(PyList_New(0));
  for (const FrameState& frame : state.frames) {
    Ref<> locals = describe_values(frame.locals, missing);
    Ref<> stack = describe_values(frame.stack, missing);
    Ref<> row =
        locals && stack
            ? steal(Py_BuildValue("(OiOOOOO)", frame.code.object(), frame.offset, locals.get(), stack.get(),
                                  frame.function.object(), given(frame.generator.object()), given(frame.handled.get())))
            : nullptr;
    if (!rows || !row || PyList_Append(rows.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return steal(Py_BuildValue("(OO)", given(state.handled.get()), rows.get()));
}

Ref<> describe_generator(PyObject* generator, PyObject* missing) {
  if (!PyGen_CheckExact(generator)) {
    return share(Py_None);
  }
  py::GeneratorState state = py::generator_state(reinterpret_cast<PyGenObject*>(generator));
  if (!state.resumable) {
    return share(Py_None);
  }
  Ref<> locals = describe_values(state.locals, missing);
  Ref<> stack = describe_values(state.stack, missing);
  return locals && stack ? steal(Py_BuildValue("(OiOOO)", state.code, state.offset, locals.get(), stack.get(),
                                               state.handled != nullptr ? state.handled : missing))
                         : nullptr;
}

Ref<> run_watched(PyObject* callable, PyObject* args, PyObject* kwargs) {
  Watcher watcher(callable);
  Interpreting interpreting(&watcher);
  return steal(PyObject_Call(callable, args, kwargs));
}

}  // namespace alternator::interp
