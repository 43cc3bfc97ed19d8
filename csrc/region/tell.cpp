// What a captured function tells of itself (alternator/events.py): breaks, and to those who listen the beginning and the end
// of captures, guards with the lines that needed them, exits, the instructions that run for real.
#include "base/once.h"
#include "base/shortage.h"
#include "py/opcode.h"
#include "py/pending.h"
#include "record/session.h"
#include "region/region.h"

namespace alternator::region {
namespace {

Ref<> pack_trail(const Trail& trail) {
  Ref<> list = steal(PyList_New(0));
  for (const auto& [code, offset] : trail) {
    Ref<> row = steal(Py_BuildValue("(Oi)", code.get(), offset));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return list;
}

int in_bytes(int offset) { return offset * static_cast<int>(sizeof(py::CodeUnit)); }

Trail trail_of(const interp::StackState& state) {
  Trail trail;
  for (const interp::FrameState& frame : state.frames) {
    trail.emplace_back(share(reinterpret_cast<PyObject*>(frame.code.get())), in_bytes(frame.offset));
  }
  return trail;
}

// (reason, detail, frames)
Ref<> pack_abort(const Abort& abort) {
  Ref<> trail = abort.trail ? pack_trail(*abort.trail) : steal(PyList_New(0));
  return trail ? steal(Py_BuildValue("(ssO)", abort_name(abort.reason), abort.detail.c_str(), trail.get())) : nullptr;
}

// (kind, expectation, parent node, child node, what it looks at, all of it, number of its frames)
Ref<> pack_guards(const guard::GuardList& list) {
  Ref<> rows = steal(PyList_New(0));
  for (const guard::Guard& guard : list.guards) {
    Ref<> row = steal(Py_BuildValue("(ssiissi)", guard::kind_name(guard.kind), guard::expect_name(guard.expect),
                                    guard.parent, guard.child, guard::describe(list, guard).c_str(),
                                    guard::phrase(list, guard).c_str(), guard.site));
    if (!rows || !row || PyList_Append(rows.get(), row.get()) < 0) {
      return nullptr;
    }
  }
  return rows;
}

std::string describe_effect(const exits::Effect& effect, const std::string& owner) {
  Ref<> text = steal(effect.key ? PyObject_Repr(effect.key.get()) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  forget_error();
  std::string key = utf8 ? utf8 : "";
  std::string count = std::to_string(effect.steps.size());
  switch (effect.kind) {
    case exits::EffectKind::SetPlace: return (effect.steps.empty() ? "deletes " : "sets ") + key + " of " + owner;
    case exits::EffectKind::Extend: return "appends " + count + " to " + owner;
    case exits::EffectKind::SetIndex: return "sets " + owner + "[" + std::to_string(effect.index) + "]";
    case exits::EffectKind::Splice: return "rewrites " + owner + "[" + std::to_string(effect.index) + ":]";
    case exits::EffectKind::SetItem: return "sets an item of " + owner;
    case exits::EffectKind::DeleteItem: return "deletes an item of " + owner;
    case exits::EffectKind::Rewrite: return "rewrites " + owner;
    case exits::EffectKind::Shift: return "rotates " + owner;
    case exits::EffectKind::Raise: return "raises an exception";
    case exits::EffectKind::CallCache: return "puts a result into the cache " + owner;
    case exits::EffectKind::Advance: return "advances " + owner + " by " + std::to_string(effect.index);
  }
  return "changes " + owner;
}

// ([effect], frames that go on)
Ref<> pack_exit(const Region& region) {
  Ref<> effects = steal(PyList_New(0));
  for (const exits::Effect& effect : region.exit.effects) {
    int node = region.exit_nodes[effect.node];
    std::string text = describe_effect(effect, guard::spoken(region.guards.names[node]));
    Ref<> line = steal(PyUnicode_FromString(text.c_str()));
    if (!effects || !line || PyList_Append(effects.get(), line.get()) < 0) {
      return nullptr;
    }
  }
  Trail trail;
  for (const exits::FrameRecipe& frame : region.exit.frames) {
    trail.emplace_back(share(reinterpret_cast<PyObject*>(frame.code.get())), in_bytes(frame.offset));
  }
  Ref<> frames = pack_trail(trail);
  return effects && frames ? steal(PyTuple_Pack(2, effects.get(), frames.get())) : nullptr;
}

Ref<> pack_conditions(const guard::Conditions& conditions) {
  Ref<> texts = steal(PyList_New(0));
  for (size_t i = 0; i < conditions.size(); ++i) {
    Ref<> text = steal(PyUnicode_FromString(conditions.text(static_cast<int>(i)).c_str()));
    if (!texts || !text || PyList_Append(texts.get(), text.get()) < 0) {
      return nullptr;
    }
  }
  return texts;
}

}  // namespace

Interest Captured::interest = Interest::None;
bool Captured::steps_are_told = false;
Ref<>& Captured::spy() {
  static constinit Once<Ref<>*> spy;
  return *spy.get([] { return new Ref<>; });
}

bool Captured::tell(const char* kind, Ref<> what) {
  Ref<> told = what ? steal(PyObject_CallFunction(frontend_.report.get(), "sO", kind, what.get())) : nullptr;
  return static_cast<bool>(told);
}

bool Captured::tell(const char* kind, const Abort& abort) { return tell(kind, pack_abort(abort)); }

// What is only told, and asks for nothing: no failure of a listener, nor of ours, changes what is captured; and
// no signal's exception is lost in it.
void Captured::mention(const char* kind, Ref<> what) {
  py::Undisturbed undisturbed(py::current_thread());
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!tell(kind, what ? std::move(what) : share(Py_None))) {
    PyErr_WriteUnraisable(frontend_.report.get());
  }
  PyErr_Restore(type, value, traceback);
}

void Captured::mention_start(const interp::StackState& state) {
  if (interest != Interest::None) {
    mention("began", pack_trail(trail_of(state)));
  }
}

void Captured::mention_idle(const Abort& abort) {
  if (interest != Interest::None) {
    mention("idle", pack_abort(abort));
  }
}

// `region`: null if there is none.
void Captured::mention_end(const Point& point, const Region* region) {
  if (interest != Interest::None) {
    static constexpr const char* kNames[] = {"capture", "step", "dull", "native"};
    Ref<> conditions = region != nullptr ? pack_conditions(region->conditions) : steal(PyList_New(0));
    mention("ended", conditions ? steal(Py_BuildValue("(OsO)", region != nullptr ? Py_True : Py_False,
                                                      kNames[static_cast<int>(point.conduct)], conditions.get()))
                                : nullptr);
  }
}

void Captured::mention_region(const Region& region, const record::Session& session) {
  if (interest == Interest::Full) {
    Ref<> guards = pack_guards(region.guards);
    Ref<> sites = session.recorder().list_sites();
    Ref<> exit = pack_exit(region);
    mention("region",
            guards && sites && exit ? steal(PyTuple_Pack(3, guards.get(), sites.get(), exit.get())) : nullptr);
  }
}

void Captured::mention_step(const interp::StackState& state) {
  if (steps_are_told) {
    mention("step", pack_trail(trail_of(state)));
  }
}

}  // namespace alternator::region
