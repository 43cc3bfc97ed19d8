// The recorder: watches an observed run, instruction by instruction, before each is executed. It notes what is read from
// outside (read_graph.h), refuses what it does not understand, and ends at the return of the outermost frame.
//
// What the recorder lets run has no effect outside of the trace: fresh objects may be changed, objects from outside not.
// Torch's functions are not seen here but where torch dispatches them (alternator/recording.py): there they become nodes of
// the graph and run on fakes.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
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

  // Who is told of calls that set torch's state: note(function, args, kwargs) of alternator/recording.py. Borrowed.
  void set_tracer(PyObject* tracer) { tracer_ = tracer; }
  // The code that every call of a torch.nn.Module passes through. Set once.
  static inline PyObject* module_call = nullptr;

  void enter(py::Frame* entry) override;
  void leave() override { --depth_; }
  interp::Verdict before_instruction(const interp::Position& position) override;
  bool discards() const override { return ended_; }
  bool defers_pending_work() const override { return true; }

  // Ends the trace: nothing more is executed.
  void abort(AbortReason reason, std::string detail);
  const std::optional<Abort>& aborted() const { return abort_; }
  // What the function returned; null unless it came to its end.
  PyObject* result() const { return result_.get(); }

  ReadGraph& graph() { return graph_; }
  journal::Journal& journal() { return journal_; }
  // The user's place of the instruction in progress.
  std::string place() const;

  // For the tracer (record/site.cpp). A call of torch's `function` as the program wrote it: (operator, operands, None),
  // (None, args, kwargs), (Ellipsis, None, None) for an iteration over a tensor, or None if another function or C code
  // calls it.
  Ref<> describe_call(PyObject* function) const;
  // The number of the frames that the trace is in: their codes, instructions and modules.
  int current_site();
  // For each number: that of the frames without the innermost (-1: none), then of the innermost its code, the offset in
  // bytes, the module that it is a call of or None, and how often that was called.
  Ref<> list_sites() const;
  // The fakes that were stored in variables since the last call, with the variables' names; None if there are none.
  Ref<> take_names();

 private:
  // By family of instructions: record/rules_*.cpp.
  void record(py::Op op, int oparg);
  void record_frame_start();
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
  // Tells the tracer of a call. False if the trace ended over it.
  bool tell_tracer(PyObject* function, PyObject* args, PyObject* kwargs);
  void record_state_call(PyObject* callable);
  void record_scope_start(PyObject* function);
  // The calls that `with` makes of itself.
  void record_context_enter(PyObject* manager);
  void record_context_exit(PyObject* exit);
  void note_name(PyObject* value, PyObject* name);
  void name_arguments();

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
  // Torch's own code, and no code of the program's, executes an operation on these.
  static bool is_tensor_operation(PyObject* const* operands, Py_ssize_t count);
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
  PyObject* tracer_ = nullptr;
  std::vector<std::pair<Ref<>, Ref<>>> given_names_;
  std::unordered_map<PyObject*, int> module_calls_;
  // Outer frames, instruction, module, calls of it. Nodes of a graph share most of their frames.
  struct Site {
    int outer;
    const void* at;
    const void* module;
    int calls;
    bool operator==(const Site&) const = default;
  };
  struct SiteHash {
    size_t operator()(const Site& site) const {
      auto mix = [](size_t seed, size_t value) { return (seed ^ value) * 0x9E3779B97F4A7C15ull; };
      size_t hash = mix(static_cast<size_t>(site.outer) << 16, reinterpret_cast<size_t>(site.at));
      hash = mix(hash, reinterpret_cast<size_t>(site.module)) + static_cast<size_t>(site.calls);
      return hash ^ hash >> 29;
    }
  };
  std::unordered_map<Site, int, SiteHash> site_numbers_;
  std::vector<Ref<>> sites_;
  bool arguments_named_ = false;
  std::optional<Abort> abort_;
};

// Called once, before any trace. False with an exception set.
bool prepare_rules();

}  // namespace alternator::record
