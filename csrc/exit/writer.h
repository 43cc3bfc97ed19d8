// Writes exit programs, while the trace's objects are still there.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exit/program.h"
#include "source/value.h"

namespace alternator::exits {

// What the writer asks of the trace.
struct Surroundings {
  // How an object from outside is reached (a Node or Slot step); empty: the trace made it.
  std::function<std::optional<Step>(PyObject*)> outside;
  // How a number is computed again; empty: it is not.
  std::function<std::optional<Arithmetic>(PyObject*)> arithmetic_of;
  // The node of an object that is there for good: it is watched from now on.
  std::function<int(PyObject*)> watch;
  std::function<bool(PyObject*)> is_fresh_function;
  std::function<bool(PyObject*)> is_fresh_class;
  std::function<bool(PyObject*)> is_address;  // a number that means nothing when the trace is over
  // The slot that a local or stack position of a frame of the region's start still is; -1: it was touched.
  std::function<int(size_t frame, int index, PyObject* value)> untouched;
  // The frame of a generator that the region began in or resumed; -1: it is none.
  std::function<int(PyObject*)> frame_of_generator;
  // The output of the graph that a tensor is; -1: none.
  std::function<int(PyObject*)> output_of;
  // .. that a number is; -1 if the graph does not compute it.
  std::function<int(PyObject*)> output_of_number;
  // All that a container from outside held before the trace is read: guards and nodes for its items.
  std::function<bool(PyObject*)> read_whole;
  // Its length before the trace is read.
  std::function<void(PyObject*)> read_length;
  // A dict of global variables is about to be referred to: it is from outside, also if nothing was read from it. False if it
  // belongs to code of ours that stands in for C code, which the program must not meet.
  std::function<bool(PyObject*)> note_globals;
};

class ExitWriter {
 public:
  ExitWriter(Surroundings around, const journal::Journal& journal) : around_(std::move(around)), journal_(journal) {}
  // The program for a function's return. Empty, with a reason, if something cannot be rebuilt.
  std::optional<ExitProgram> write_return(PyObject* value, const std::vector<PyObject*>& generators);
  // .. and for frames that go on.
  // `generators` are those that the region began in.
  std::optional<ExitProgram> write_break(const interp::StackState& state, size_t kept_frames,
                                         const std::vector<PyObject*>& generators);
  const std::string& reason() const { return reason_; }

 private:
  int add(PyObject* value);
  int add_or_none(PyObject* value) { return value != nullptr ? add(value) : -1; }
  int add_tensor(PyObject* value, Step step);
  // The step for a value that the trace made.
  int add_fresh(PyObject* value);
  int emit(PyObject* value, Step step);
  int refuse(PyObject* value);
  // False if a part cannot be rebuilt.
  bool add_part(Step* step, PyObject* value);
  bool add_globals(Step* step, PyObject* globals);
  int add_parts(PyObject* value, StepKind kind, std::initializer_list<PyObject*> parts, PyObject* object = nullptr);
  int add_items(PyObject* value, Step step);
  int add_with_attributes(PyObject* value, int index);  // what the instance of a subclass holds besides
  int add_empty(PyObject* value, StepKind kind, PyObject* object = nullptr);
  int add_for_good(PyObject* value);
  int add_builtin_method(PyObject* value);
  int add_function(PyObject* value);
  int add_generator(PyObject* value);
  int add_empty_generator(PyObject* value, PyFunctionObject* function);  // no function: the generator has ended
  int add_reduced(PyObject* value);
  int add_table_iterator(PyObject* value);
  int add_instance(PyObject* value);
  int add_traceback(PyObject* value);

  // Generators that the region began in and that are suspended now.
  bool put_generators_back(const std::vector<PyObject*>& generators);
  bool fill_all();
  bool fill(PyObject* value, int index);
  bool fill_items(PyObject* value, int index, StepKind kind);
  bool fill_function(PyObject* value, int index);
  bool fill_generator(PyObject* value, int index);
  bool fill_instance(PyObject* value, int index);
  bool fill_attributes(PyObject* value, int index);
  bool emit_fill(Step step);

  // `inside`: an instruction of the frame is in progress.
  bool add_frame(const interp::FrameState& frame, int number, bool inside);
  // The step for a local or stack position of a frame; -1: nothing is there. False if it cannot be rebuilt.
  bool add_position(int frame, int index, PyObject* value, int* step);
  // The calls that are made when the region has run, in their order: before anything that may hold what they give.
  bool add_late_calls();
  bool add_effects();
  std::vector<const journal::Place*> places_in_order() const;
  bool add_cache_effects();
  bool add_place_effect(const journal::Place& place, int node);
  bool add_list_effect(const journal::Body& body, int node);
  bool add_dict_effect(const journal::Body& body, int node);
  bool add_deque_effect(const journal::Body& body, int node);
  bool add_rewrite(const journal::Body& body, int node);

  Surroundings around_;
  const journal::Journal& journal_;
  ExitProgram program_;
  std::unordered_map<PyObject*, int> made_;
  std::unordered_map<int, int> slot_steps_;
  std::vector<std::pair<PyObject*, int>> unfilled_, unfilled_tables_;
  std::vector<Ref<>> kept_;  // parts that exist for the writer only: their addresses must not be used again
  std::string reason_;
};

}  // namespace alternator::exits
