// The recorder: watches an observed run, instruction by instruction, before each is executed. It notes what is read from
// outside (read_graph.h), refuses what it does not understand, and ends at the return of the outermost frame.
//
// What the recorder lets run has no effect outside of the trace: fresh objects may be changed, objects from outside not.
// Torch's functions are not seen here but where torch dispatches them (alternator/recording.py): there they become nodes of
// the graph and run on fakes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "interp/observer.h"
#include "journal/journal.h"
#include "record/purity.h"
#include "record/read_graph.h"

namespace alternator::record {

class Recorder : public interp::Observer {
 public:
  // Watches the call of `code` whose frame is the next one to be entered.
  explicit Recorder(PyCodeObject* code) : code_(code) {}

  void enter(py::Frame* entry) override;
  void leave() override { --depth_; }
  interp::Verdict before_instruction(const interp::Position& position) override;
  interp::Verdict on_exception() override;
  bool discards() const override { return ended_; }
  bool defers_pending_work() const override { return true; }

  // Ends the trace: nothing more is executed.
  void abort(AbortReason reason, std::string detail);
  const std::optional<Abort>& aborted() const { return abort_; }
  // What the function returned; null unless it came to its end.
  PyObject* result() const { return result_.get(); }

  ReadGraph& graph() { return graph_; }
  journal::Journal& journal() { return journal_; }
  // The operator that the instruction in progress stands for, if it is one: its name in the module `operator`, and its
  // operands. Null if it is none.
  Ref<> current_operator() const;
  // The user's place of the instruction in progress.
  std::string place() const;

 private:
  // By family of instructions: record/rules_*.cpp.
  void record(py::Op op, int oparg);
  void record_frame_start();
  // A test's fault (fault.h) is due at this instruction: true if the trace was given up or an exception is set.
  bool meet_fault();
  void record_attribute(PyObject* object, PyObject* name);
  void record_class_attribute(PyObject* type, PyObject* name);
  void record_super(PyObject* super, PyObject* name);
  // `generic`: by object.__getattribute__ itself, whatever the class says.
  void record_instance_attribute(PyObject* object, PyObject* name, bool generic);
  void record_global(PyObject* name);
  void record_item(PyObject* container, PyObject* key);
  void record_contents(PyObject* container);
  void record_deep(PyObject* object, int depth);
  void record_length(PyObject* container);
  void record_truth(PyObject* object);
  void record_binary(PyObject* left, PyObject* right, bool in_place);
  void record_comparison(PyObject* left, PyObject* right);
  void record_identity(PyObject* left, PyObject* right);
  void record_membership(PyObject* container, PyObject* item);
  void record_iteration(PyObject* iterable);
  void record_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  void record_c_call(PyObject* callable, Purity purity, PyObject* const* arguments, Py_ssize_t count);
  void record_class_call(PyObject* type);
  void record_method_parts(PyObject* method);
  void record_star_call(PyObject* callable, PyObject* args, PyObject* kwargs);
  void record_import(PyObject* name, PyObject* level);

  // A write to a place of an object. If the object is from outside the place is journaled, or the trace ends.
  void record_write(journal::PlaceKind kind, PyObject* owner, PyObject* key);
  void record_attribute_write(PyObject* object, PyObject* name, bool deletes);
  void record_generic_attribute_write(PyObject* object, PyObject* name, bool deletes);
  // Reads through the graph what the trace itself did not write.
  void read_place(int node, guard::Kind kind, PyObject* owner, PyObject* key, PyObject* value);
  // The object is one that the trace made, so that it may be changed; otherwise the trace ends.
  bool require_fresh(PyObject* object);
  // The trace wrote to an attribute of this object: reads by other ways than the attribute cannot be told apart.
  bool has_written(PyObject* object) const {
    for (const journal::Place& place : journal_.places()) {
      if (place.owner.get() == object) {
        return true;
      }
    }
    return false;
  }
  PyObject* peek(int depth) const { return position_.stack_top[-depth]; }
  PyObject* name_at(int index) const { return PyTuple_GET_ITEM(position_.frame->f_code->co_names, index); }

  PyCodeObject* code_;
  int depth_ = 0;
  py::Frame* base_ = nullptr;
  std::vector<Ref<>> entry_locals_;
  interp::Position position_{};
  ReadGraph graph_;
  journal::Journal journal_;
  Ref<> result_;
  bool ended_ = false;
  bool opaque_ = false;  // the call that is recorded is to run as one step
  std::optional<Abort> abort_;
};

// Called once, before any trace. False with an exception set.
bool prepare_rules();

}  // namespace alternator::record
