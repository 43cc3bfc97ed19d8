// Regions: captured stretches of a program. A region is its guards, its graph and its exit. It belongs to a point: a stack
// of frames, each a code object and an instruction.
//
//   call ─> point (code, 0) ─> regions, most recent first ─ none fits ─> trace, new region
//               ▲                      │ fits
//               │                      ▼
//               │              graph, exit program ─> the result
//               │                      │ or frames in front of a break
//               └── next point <─ the instruction runs for real (stepper.h)
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "exit/program.h"
#include "guard/checker.h"
#include "guard/conditions.h"
#include "interp/hook.h"
#include "torch/facts.h"
#include "torch/write_log.h"

namespace alternator::py {
class BoundArguments;
}
namespace alternator::record {
class Session;
}

namespace alternator::region {

// What has to be done about a graph that failed.
struct Recovery {
  tensor::Undoing undoing;   // to be undone
  std::vector<int> written;  // inputs that cannot be put back: the graph must not have written to them yet
};

struct Region {
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  tensor::GlobalState state;        // when it began
  tensor::GlobalState state_after;  // what it leaves
  bool changes_state = false;
  bool any_state = false;  // the program does without the guard on it
  guard::GuardList guards;
  guard::Checker checker;                  // of the guards; its slots have the objects of the call
  std::vector<int> inputs;                 // nodes whose tensors are the graph's inputs, in order
  std::vector<guard::Quantity> arguments;  // what the graph is called with, if that is more than the inputs: sizes
  guard::Conditions conditions;            // on sizes and numbers
  Ref<> graph;                             // what the backend made; null if there is nothing to compute
  Ref<> path;                              // for tests (interp/watch.h): the instructions that it stands for; else null
  exits::ExitProgram exit;
  std::vector<int> exit_nodes;   // nodes whose objects the exit needs, by the numbers that it has for them
  bool repeatable = false;       // the program may run eagerly when the graph failed, after ..
  Recovery first;                // .. this, when the graph has never run to its end,
  Recovery later;                // .. or this
  mutable bool has_run = false;  // the graph, to its end; guarded by the GIL
  bool draws = false;            // the graph draws random numbers
  int slots = 0;                 // of the start
  std::vector<int> drops;        // slots of the start whose values are gone at its end
  std::vector<int> storages;     // if the graph changes inputs: which of them share memory (tensor::group_by_storage)

  // Whether it may run: torch's state, the guards, and what relates several of the objects that they find. Fills the
  // checker's slots. `failed`: the guard that does not hold, -1 if it is something else.
  bool fits(PyObject* const* slots, Py_ssize_t* failed);
  // Why not, right after it was asked.
  std::string explain_miss(PyObject* const* slots, Py_ssize_t failed) const;

  // Drops the guards that a filter of the program's does without (filtering.cpp), before they are checked for the first
  // time. False with an exception set.
  bool filter_guards(PyObject* filter, PyObject* const* slots);

  int traverse(visitproc visit, void* arg) const;
};

// What the Python side is asked for (alternator/recording.py).
struct Frontend {
  Ref<> begin;   // begin() -> tracer, or None: not this time
  Ref<> finish;  // finish(tracer, outputs) -> callable for the graph
  // report(kind, what): a break, a fallback to eager execution, an error, each with (reason, detail, frames); and what only
  // listeners get to know
  Ref<> report;
  // admit(regions, captures, reason) -> whether a point that has so many regions, after so many captures, gets another
  Ref<> admit;
  // filter((rows, objects)) -> which guards to keep (filtering.cpp); may be null
  Ref<> filter;
};

// How a program goes on from a point.
enum class Conduct : uint8_t {
  Capture,  // by regions
  Step,     // the instruction is a break: it runs for real, then the next point
  Dull,     // nothing to compute was found: runs for real up to the next tensor
  Native,   // CPython's way, to the end
};

// What listeners want to know of captures.
enum class Interest : uint8_t { None, Brief, Full };

struct Point {
  static constexpr int kMaximumMistakes = 8;

  Conduct conduct = Conduct::Capture;
  int empty_traces = 0;
  std::map<int, int> misses;     // slots whose number was another one: how often no region fitted for that reason
  std::set<std::string> moving;  // places whose number was another one, by name: it is followed in the next trace
  std::map<std::string, std::set<int>> moving_sizes;  // tensors, by name: dimensions that had another size
  bool has_fixed_floats = false;  // floats with symbols were no good here: they are constants of their graphs
  bool is_static = false;         // symbols were no good here: all sizes and numbers are constants of their graphs
  int mistakes = 0;               // traces in which torch raised an exception that is most likely the program's own
  bool in_doubt = false;          // the last trace did, and its instruction has not run for real yet
  int captures = 0;
  std::vector<std::shared_ptr<Region>> regions;

  // A trace could do nothing with its symbols: the next one has no floats among them, or else none at all.
  void give_up_symbols(bool has_floats) { (has_floats && !has_fixed_floats ? has_fixed_floats : is_static) = true; }

  // The program has run for real from here. If all went well it was no mistake, but something that only a trace cannot do:
  // a break, from now on.
  void settle_doubt(bool returned);
};

// A function whose calls are captured.
class Captured {
 public:
  Captured(Frontend frontend, bool fullgraph);
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  // Calls a Python function or method, answering from a region where one fits.
  PyObject* call(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames);

  // Makes the call as far as to its frame, and tells what the guards of the regions that start there say of it: for each
  // region the number of the guard that does not hold, None if all do; with `rows`, a pair of that and its guards
  // (describe_guards).
  PyObject* inspect(PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames, bool rows);

  // For the garbage collector: what it may call, what its graphs are.
  int traverse(visitproc visit, void* arg) const;
  // Forgets everything, for good: it calls its function natively from then on.
  void close();

  // While true, compiled functions are called natively.
  static bool all_native;
  // Each variant has graphs of its own: those that were compiled with another backend than the function's.
  static int variant;
  // What listeners want to be told.
  static Interest interest;
  static bool steps_are_told;  // the instructions that run for real
  static Ref<>& spy();         // Recorder::show
  // One thread at a time traces and compiles: its turn is this lock (alternator/turns.py). Others wait for theirs, or run eagerly.
  // A call that a region answers takes no lock.
  static Ref<>& turn();
  static bool waits_for_turn;
  // Regions with nothing to compute that were captured since the process started.
  static long long regions_without_graph;

  // All regions, point by point.
  std::vector<std::shared_ptr<Region>> regions() const;
  void clear();
  // Takes away the regions whose objects died: of all captured functions, or of this one.
  static void drop_all_dead();
  void drop_dead(std::vector<std::shared_ptr<Region>>* dropped);
  // Why the most recent region did not fit, the last time that none did.
  const std::string& last_miss() const { return last_miss_; }

 private:
  enum class Inspection : uint8_t { No, Check, Rows };
  class Call;
  class Callees;
  // Runs a frame that is not captured. If its function asked for that, those that it calls are.
  PyObject* run_natively(py::ThreadState* ts, py::Frame* frame);
  PyObject* make(Call* call, PyObject* function, PyObject* const* arguments, size_t nargsf, PyObject* kwnames);
  PyObject* take(Call* call, py::ThreadState* ts, py::Frame* frame);

  using Key = std::vector<const void*>;
  std::shared_ptr<Point> point_of(const interp::StackState& state);
  const std::shared_ptr<Point>& entry_point(PyFunctionObject* function);

  Ref<> inspect_point(const Point& point, PyObject* const* slots, bool rows);

  // Answers a call without a frame, if a region fits that returns: the result, null with an exception set. False: it needs a
  // frame.
  bool answer(Call* call, const py::BoundArguments& bound, Ref<>* result);
  // The region whose guards hold, its checker's slots filled; null if there is none.
  std::shared_ptr<Region> find(Point& point, PyObject* const* slots);
  // Captures from a state, or finds what another thread captured meanwhile. Null: the point's conduct says how to go on (eagerly, if it
  // is another thread's turn), or an exception is set.
  std::shared_ptr<Region> capture(Point& point, const interp::StackState& state);
  std::shared_ptr<Region> try_capture(Point& point, const interp::StackState& state);
  std::shared_ptr<Region> trace(Point& point, const interp::StackState& state);
  enum class Verdict : uint8_t {
    Finish,  // the trace will do: a region is made of it
    Again,   // another trace from the same start will be another one now
    GiveUp,  // no region: the point's conduct says how to go on, or an exception is set
  };
  // What a trace that has ended is good for, before anything is made of it.
  Verdict judge(Point& point, const record::Session& session, const interp::FrameState& outermost);
  Verdict finish_trace(Point& point, record::Session& session, Region* region);
  Verdict compile_graph(Point& point, record::Session& session, Region* region);
  // Clears the exception that is set if it says that memory or stack ran out while something of ours was running; a
  // backend's exceptions look otherwise (compiling.py). The program runs for real, and is captured another time.
  void forgive_shortage();
  // Something of ours failed: the program runs for real, now and later, and the user is told.
  void forgive_failure(Point& point, PyObject* error);
  // To the frontend. False with an exception set.
  bool tell(const char* kind, Ref<> what);
  bool tell(const char* kind, const Abort& abort);
  // To listeners, if there are any.
  void mention(const char* kind, Ref<> what);
  void mention_start(const interp::StackState& state);
  void mention_idle(const Abort& abort);  // a break with nothing in front of it
  void mention_end(const Point& point, const Region* region);
  void mention_region(const Region& region, const record::Session& session);
  void mention_step(const interp::StackState& state);
  // Goes on from a state to the end of the outermost function. `at_break`: the next instruction has to run for real.
  Ref<> drive(interp::StackState state, bool at_break, bool dull);

  Frontend frontend_;
  bool fullgraph_;
  const void* entry_code_ = nullptr;  // of the last call's function, and its globals:
  const void* entry_globals_ = nullptr;
  int entry_variant_ = 0;
  std::shared_ptr<Point> entry_;                  // where it began
  std::map<Key, std::shared_ptr<Point>> points_;  // shared: a reset may come in the middle of a call
  std::vector<Ref<PyCodeObject>> codes_;          // of the keys: their addresses must stay theirs
  std::unordered_set<const void*> skipped_;  // codes among them that asked not to be captured: their calls are breaks
  std::string last_miss_;
};

// The guards as a list of rows (kind, expectation, parent, key, index, text). The parents are the objects in the slots, None
// without slots. Null with an exception set.
Ref<> describe_guards(const guard::GuardList& list, const std::vector<PyObject*>* slots);

}  // namespace alternator::region
