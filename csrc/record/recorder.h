// The recorder: watches an observed run, instruction by instruction, before each is executed. It notes what is read from
// outside (read_graph.h), and ends at the return of the outermost frame, or in front of an instruction that it cannot
// capture: a break. If that is found out only in the middle of an instruction, the trace is made again up to there.
//
// What the recorder lets run has no effect outside of the trace: fresh objects may be changed, objects from outside not
// unless the journal notes it.
// Torch's functions are not seen here but where torch dispatches them (alternator/recording.py): there they become nodes of
// the graph and run on fakes.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shortage.h"
#include "exit/program.h"
#include "interp/observer.h"
#include "journal/journal.h"
#include "py/call_site.h"
#include "record/contract.h"
#include "record/drop_watch.h"
#include "record/read_graph.h"
#include "record/start.h"

namespace alternator::record {

class Recorder : public interp::Observer {
 public:
  // Watches the frames of `start`. With `stop`, the trace ends in front of the instruction with that number.
  struct Stop {
    int64_t number;
    Abort reason;
  };
  Recorder(Start* start, std::optional<Stop> stop) : start_(start), stop_(std::move(stop)) {
    read_slots_.resize(start->size());
    written_slots_.resize(start->size());
  }

  // Slots with numbers, classes or objects that a trace must not rely on: their use is a break.
  void set_varying(const std::vector<int>& slots) {
    varying_.resize(start_->size());
    for (int slot : slots) {
      varying_[slot] = true;
    }
  }
  // Places, by name, that held another number the last time: it is followed, not relied on, as long as that is possible.
  void set_moving(const std::set<std::string>* places) { moving_ = places->empty() ? nullptr : places; }
  // .. and so is every argument that is a number.
  void set_all_moving(bool all) { all_move_ = all; }
  // For the tracer: a copy of a number that is no other object, and that torch's ShapeEnv knows by a symbol.
  Ref<> follow_symbol(PyObject* number, PyObject* symbol);
  // The symbol of a number, borrowed; null if it has none.
  PyObject* symbol_of(PyObject* number) const;
  // How a number was computed, if the exit has to do it again.
  std::optional<exits::Arithmetic> arithmetic_of(PyObject* value) const;
  // What id() gave; it must not leave the region.
  bool is_address(PyObject* value) const;
  // Codes whose frames ask not to be captured (torch._dynamo.skip_frame): calls of them are breaks.
  void set_skipped(const std::unordered_set<const void*>* codes) { skipped_ = codes; }
  // A frame that asked for it, and was begun by the trace; null if none did.
  PyCodeObject* asks_to_be_skipped() const { return asks_to_be_skipped_.get(); }
  // Who is told of calls that set torch's state: note(function, args, kwargs) of alternator/recording.py. Borrowed.
  void set_tracer(PyObject* tracer) { tracer_ = tracer; }
  // Who takes the tracer's mode off torch's stack of function modes, and puts it there again.
  void set_mode_switch(std::function<void(bool)> turn) { turn_mode_ = std::move(turn); }
  // The program asked about modes, and was not to see ours: back again.
  void show_mode() {
    if (mode_hidden_) {
      mode_hidden_ = false;
      turn_mode_(true);
    }
  }
  // The code that every call of a torch.nn.Module passes through. Set once.
  static inline PyObject* module_call = nullptr;
  // torch.nn.Module.__getattr__ and its code; null where it is not as it is known here.
  static inline PyObject* module_getattr = nullptr;
  static inline PyObject* module_getattr_code = nullptr;
  static inline PyObject* tensor_hash = nullptr;  // torch.Tensor.__hash__, likewise
  static inline PyObject* tensor_hash_code = nullptr;

  void enter(py::Frame* entry) override;
  void leave() override;
  interp::Verdict before_instruction(const interp::Position& position) override;
  interp::Verdict on_exception(const interp::Position& position) override;
  bool discards() const override { return ended_; }
  bool defers_pending_work() const override { return true; }

  // Ends the trace in front of the instruction in progress: nothing more is executed.
  void abort(AbortReason reason, std::string detail);
  // The trace is over with an exception that left the outermost frame.
  void end_with_exception();
  // Ends the trace for good if our own code lacked memory or stack since the trace began.
  void meet_shortage();
  bool lacked_resources() const { return abort_ && abort_->reason == AbortReason::OutOfResources; }
  // What the function returned; null unless it came to its end.
  PyObject* result() const { return result_.get(); }
  // Why it did not.
  const interp::Position& position() const { return position_; }
  const std::optional<Abort>& aborted() const { return abort_; }
  // The frames in front of the instruction that could not be captured; null if the trace is to be made again with
  // stop_again().
  const interp::StackState* stopped() const { return stopped_ ? &*stopped_ : nullptr; }
  Stop stop_again() const { return {number_ - 1, *abort_}; }
  // Instructions of the outermost activation that were begun.
  int64_t number() const { return number_; }
  // How many of the frames that the trace began in are still there.
  size_t kept_frames() const { return kept_frames_; }
  // Marks were made that stand for texts (rules_texts.cpp).
  bool deferred_texts() const { return deferred_texts_; }
  // The frame of a generator that the trace began in or resumed; -1: it is none.
  int frame_of_generator(PyObject* generator) const {
    int frame = start_->frame_of(generator);
    return frame >= 0 && frame < static_cast<int>(begun_.size()) && begun_[frame] ? frame : -1;
  }
  // The slots of the start whose values the frames do not hold any more.
  std::vector<int> dropped_slots() const;
  // The slot that a place of such a frame still is; -1: something was put there. `index` counts locals and stack.
  int untouched_slot(size_t frame, int index, PyObject* value) const;

  ReadGraph& graph() { return graph_; }
  const ReadGraph& graph() const { return graph_; }
  journal::Journal& journal() { return journal_; }
  // It grows whenever something from outside is changed.
  size_t count_writes() const { return writes_ + journal_.count(); }
  // A function that the trace made: any other is from outside.
  bool is_fresh_function(PyObject* function) const { return fresh_functions_.count(function) != 0; }
  // A dict of globals, or of builtins, that the trace made and gave to exec() or eval().
  bool is_fresh_globals(PyObject* dict) const { return fresh_globals_.count(dict) != 0; }
  // Drops the generators that the trace made, as if their bodies had ended: closing one later would run its `finally`.
  void empty_generators();
  // For the writer of the exit.
  std::optional<exits::Step> outside(PyObject* object);
  bool read_whole(PyObject* container);
  void read_original_length(PyObject* container);
  // Keys that became items of a dict, or were looked for beside those, must stay as many as they are.
  void read_distinct_keys();
  // The user's place of the instruction in progress, or of the one where the trace ended.
  std::string place() const;
  // All frames, with their instructions.
  std::shared_ptr<const Trail> trail() const;

  // For people who look on (record/site.cpp). `guards`: notes for each guard where it was needed. `spy(code, offset, depth,
  // operands)`, unless it is null, is called before each instruction.
  void show(bool guards, PyObject* spy);
  void note_sites_of_guards();

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
  std::vector<std::pair<Ref<>, Ref<>>> take_given_names() { return std::exchange(given_names_, {}); }

 private:
  void keep_place();
  void keep_place_of_exception();
  // Without those that stand in for C code.
  std::vector<std::pair<py::Frame*, const py::CodeUnit*>> frames_inwards() const;
  void show_instruction();
  void begin();
  void end();
  void begin_generator(int base);
  // C code is about to resume or close it, and with it those that it waits for.
  void begin_hanging(PyObject* generator);
  void note_generator();
  // A generator of the region's start, which the loop can resume.
  bool is_hanging(PyObject* value) const { return PyGen_CheckExact(value) && start_->frame_of(value) >= 0; }
  void follow_frames(py::Op op, int oparg);
  // The value of a slot is relied on.
  void read_slot(int slot);
  // The index of a base frame; -1: another one.
  int base_index(const py::Frame* frame) const;
  void read_base_local(int index);
  void read_cell(int index);
  // A primitive is used, not just moved: its slot gets a guard. record/rules_moves.cpp
  void use(PyObject* value);
  void use_deep(PyObject* value);
  // Whatever C code can find in a value that it is given.
  void visit_deep(PyObject* value, const std::function<void(PyObject*)>& visit);
  void use_all();
  void use_operands(py::Op op, int oparg);
  void use_operand(py::Op op, int depth, bool torch);
  void use_identity(PyObject** operand);

  // Iterators from outside: record/rules_iterators.cpp.
  // What one gives: a value that is followed (with a node), or a tuple with such values in it.
  struct Item {
    int node = -1;
    Py_ssize_t ahead = 0;
    std::vector<Item> parts;
  };
  // A number that is no other object, and where it comes from: an iterator, a place that is another one at each call, an
  // operation on such numbers; or what it is to the tracer: the size of a tensor, say.
  struct Followed {
    int node = -1;
    Py_ssize_t ahead = -1;
    Ref<> kept;
    int operation = -1;
    Ref<> left, right;
    Ref<> symbol;
    bool is_address = false;   // rules_addresses.cpp
    std::vector<Ref<>> parts;  // a text, no number: what it was made of (rules_texts.cpp)
    bool is_text() const { return !parts.empty(); }
    bool is_item() const { return ahead >= 0; }
  };
  // `follows`: the item will be on top of the stack when the next instruction begins.
  void record_next(PyObject* iterator, bool follows);
  void record_exhaustion(PyObject* iterator);
  bool record_advance(PyObject* iterator, Item* item);
  void record_map_next(PyObject* iterator);
  bool record_zip_advance(PyObject* iterator, int node, Item* item);
  void follow_item(PyObject** value, const Item& item);
  // Addresses: record/rules_addresses.cpp.
  void record_address(PyObject* object);
  // A dict or set that the trace made.
  bool is_own_table(PyObject* object) const;
  // An instruction, or a call of C code, only finds or keeps things by the numbers that it is given.
  bool finds_by_address(py::Op op) const;
  bool finds_by_address(const Contract* contract, PyObject* callable, PyObject* const* arguments,
                        Py_ssize_t count) const;
  // Numbers: record/rules_numbers.cpp.
  // Reads a number that varies from call to call by its type alone. False if it has to be read as anything else.
  bool read_moving_number(int node, guard::Kind kind, PyObject* key, PyObject* value);
  // `value`, or whatever number will be there, is on top of the stack when the next instruction begins.
  void await(Followed followed, PyObject* value);
  // Puts a copy that is followed in its place; what has no copy (NaN) is relied on.
  void follow(PyObject** value, Followed followed);
  void rely_on(const Followed& followed, PyObject* value);
  void meet_awaited(const interp::Position& position);
  bool is_moving(PyObject* value) const;
  // A number that is followed keeps its class, at least.
  void read_class_of_number(PyObject* number);
  bool follow_arithmetic(int operation);
  // Operations that cannot raise an exception, whatever the numbers are.
  static bool is_safe(int operation);
  // Numbers with symbols: record/rules_symbols.cpp.
  bool has_symbol(PyObject* value) const { return symbol_of(value) != nullptr; }
  // Gives a number that moves a symbol, unless it has one; null if it cannot have any. Borrowed.
  PyObject* find_symbol(PyObject* value);
  // The symbol, or the number itself, on whose value the trace relies from now on.
  Ref<> symbol_or_value(PyObject* value);
  // Numbers that are read out of a tensor are the graph's to compute.
  bool reads_items(PyObject* tensor);
  // The value of a symbol is relied on.
  void settle(PyObject* symbol);
  // Torch gets it: numbers with symbols may be anything.
  void give_to_torch(PyObject* value);
  // Instructions that compute with numbers, compare them, or ask whether they are zero. False if there is no symbol.
  bool compute_symbols(py::Op op, int oparg);
  bool combine_symbols(int operation);
  bool call_symbols(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  Ref<> symbols_in(PyObject* value);
  bool compare_symbols(PyObject* left, PyObject* right, int comparison);
  bool compare_sequences(PyObject* left, PyObject* right, int comparison);
  void follow_combination(Ref<> symbol);
  bool follows_anything() const { return !start_->copies().empty() || !followed_.empty(); }

  // By family of instructions: record/rules_*.cpp.
  void record(py::Op op, int oparg);
  void record_by_rule(py::Op op, int oparg);
  void record_operation(py::Op op, int oparg);
  void record_frame_start();
  bool meet_skipped(const py::Frame* frame);
  void record_skip_request();
  // Nodes of dicts of globals, of a frame's function and of a module.
  int globals_node(PyObject* globals);
  int module_dict_node(PyObject* module);
  void drop_generators(py::Frame* frame);
  void record_function_parts(int node, PyFunctionObject* function);
  void record_with(PyObject* manager);
  // A test's fault (fault.h) is due at this instruction: true if the trace was given up or an exception is set.
  bool meet_fault();
  void record_attribute(PyObject* object, PyObject* name);
  void record_class_attribute(PyObject* type, PyObject* name);
  void record_class_dict(PyTypeObject* type);
  void record_super(PyObject* super, PyObject* name);
  void record_super_operands();
  // `generic`: by object.__getattribute__ itself, whatever the class says.
  void record_instance_attribute(PyObject* object, PyObject* name, bool generic);
  void record_instance_dict(PyObject* object, int node);
  // `overwrites`: whatever is there is replaced.
  void record_item_by_tensor(int node, PyObject* dict, PyObject* key, bool overwrites = false);
  bool is_keyed_by_tensor(PyObject* container, PyObject* key) const;
  void record_missing_by_tensor(int node, PyObject* dict);
  PyObject* find_finalised_item(PyObject* container, PyObject* key);
  bool record_overwriting(int node, PyObject* dict, PyObject* key);
  bool record_registries(PyObject* object, int node, PyObject* name, PyObject* hook);
  void record_global(PyObject* name);
  // `by_base`: by the code of dict, list .. themselves, whatever the class says.
  void record_item(PyObject* container, PyObject* key, bool by_base = false);
  void read_dict_item(int node, PyObject* dict, PyObject* key);
  void record_contents(PyObject* container);
  void read_fixed_parts(PyObject* object);
  void record_dict_contents(int node, PyObject* container, PyObject* holder);
  // `compared`: it is compared with other objects, and what it holds too.
  void record_deep(PyObject* object, int depth, bool compared = false);
  bool visit_items(PyObject* object, const std::function<void(PyObject*)>& visit);
  // The hash of it, and whether it equals another key.
  void record_key(PyObject* key);
  // All keys of a set or dict.
  void record_keys(PyObject* table);
  // It is compared with others, or hashed to be compared: whether it is one of them decides.
  void record_compared(PyObject* object);
  // What str() and the like make of it.
  void record_text(PyObject* object, int depth = 0, bool by_base = false);
  // FORMAT_VALUE of a tensor, for a call that is put off: record/rules_texts.cpp. False if it is none.
  bool defer_text(int oparg);
  // An instruction, or a call, makes a text of values that are followed: so is the text. False if it makes none.
  bool make_text(py::Op op, int oparg);
  // A symbol stands for a number that is known while tracing.
  bool has_value(PyObject* symbol);
  bool follow_text(std::initializer_list<PyObject*> values);
  bool is_followed(PyObject* value) const { return followed_.count(value) != 0 || start_->slot_of_copy(value) >= 0; }
  void record_length(PyObject* container, bool by_base = false);
  void record_truth(PyObject* object);
  // `assert` of a tensor: checked by the graph. False if the instruction is none.
  bool record_tensor_assert();
  void record_binary(PyObject* left, PyObject* right, int operation);
  void record_format(PyObject* values);
  void record_operands(PyObject* left, PyObject* right, bool in_place);
  void record_comparison(PyObject* left, PyObject* right);
  void record_identity(PyObject* left, PyObject* right);
  void record_membership(PyObject* container, PyObject* item);
  void record_iteration(PyObject* iterable);
  // Puts in a callable's place on the stack what is called instead of it (contract.h).
  void substitute(PyObject** slot);
  void record_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  void record_object_call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  // The door to C code, and calls of C code by their contracts: record/rules_contracts.cpp.
  // C code gets to see an object, as deeply as a contract says.
  void expose(PyObject* object, Reads reads);
  void record_address_read(PyObject* object);
  std::optional<RecordedBy> recorder_of_caller() const;
  void use_arguments(PyObject* callable, const Contract* contract, PyObject* const* arguments, Py_ssize_t count);
  static bool finds_by_key(const Contract& contract, PyObject* container);
  bool takes_unseen(PyObject* callable, const Contract& contract, size_t number, PyObject* value) const;
  void record_c_call(PyObject* callable, const Contract& contract, PyObject* const* arguments, Py_ssize_t count);
  void record_access(PyObject* callable, const Contract& contract, bool slot, const std::vector<PyObject*>& values);
  void record_written(const Contract& contract, bool slot, const std::vector<PyObject*>& values);
  void record_stored(PyObject* key, PyObject* value);
  bool record_registry(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  bool read_registrations();
  void record_special_call(PyObject* callable, RecordedBy recorder, const std::vector<PyObject*>& values,
                           PyObject* const* arguments, Py_ssize_t count);
  void record_setting(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  void expect_result(const Contract& contract);
  void meet_result(const interp::Position& position);
  void record_cache(PyObject* const* arguments, size_t count);
  std::string describe_called_cache() const;
  void record_cache_search(PyObject* results, PyObject* key);
  void record_cache_result(PyObject* results, PyObject* key, PyObject* value, Py_ssize_t limit, Py_ssize_t made);
  void record_class_call(PyObject* type, PyObject* const* arguments, Py_ssize_t count);
  void record_method_parts(PyObject* method);
  void record_disabled_start(PyObject* function);
  // As instructions make them; a stand-in may take the callable's place on the stack.
  std::optional<py::CallSite> call_site() const;
  void record_vector_call(const py::CallSite& site);
  void record_star_call(const py::CallSite& site);
  bool put_stand_in(PyObject** callable, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t positional,
                    PyObject* names);
  // Pattern matching: record/rules_matching.cpp.
  void record_exception_match(PyObject* exception, PyObject* classes);
  void record_group_match(PyObject* exception, PyObject* classes);
  void record_group_reraise(PyObject* original, PyObject* exceptions);
  void record_type_flag(PyObject* subject);
  void record_match_keys(PyObject* subject, PyObject* keys);
  void record_match_class(PyObject* subject, PyObject* type, int positional, PyObject* keywords);
  // Classes that the trace makes: record/rules_classes.cpp.
  void record_build_class();
  void record_class_definition(PyObject* const* arguments, Py_ssize_t count);
  void record_class_making(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  // What the code that makes a class reads. False if that is not known.
  bool read_base(PyObject* base);
  bool read_metaclass(PyTypeObject* meta);
  bool read_class_space(PyObject* space);
  void meet_class(const interp::Position& position);
  // The variables of the class body that runs; null if it is none that the trace began.
  PyObject* class_space() const;
  void record_class_body(py::Op op, int oparg);
  void record_name(PyObject* name);
  // Texts that the trace runs, and what they run in: record/rules_executing.cpp.
  void record_executed_text(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  void meet_executed_text(const py::Frame* frame);
  void record_thread_request();
  void record_frame_request(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
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

  // Writes: record/rules_writes.cpp. If the object is from outside the journal notes it, or the trace ends.
  void record_write(journal::PlaceKind kind, PyObject* owner, PyObject* key, Py_ssize_t offset = 0);
  void record_attribute_write(PyObject* object, PyObject* name, bool deletes);
  void record_generic_attribute_write(PyObject* object, PyObject* name, bool deletes);
  void record_class_attribute_write(PyObject* type, PyObject* name, bool deletes);
  void record_item_write(PyObject* container, PyObject* key, bool deletes, bool by_base = false);
  // Made by the trace. Of what is pinned (a member of an enumeration) that is known if its class is.
  bool is_fresh_instance(PyObject* object) const {
    return !graph_.is_outside(object) && (source::sort_of(object) != source::Sort::Pinned ||
                                          graph_.is_fresh_class(reinterpret_cast<PyObject*>(Py_TYPE(object))));
  }
  // What of a container decides what a change of it does.
  enum class Reach { Nothing, Item, Overwritten, Whole };
  void record_container_write(PyObject* container, Reach reach, PyObject* key = nullptr);
  void record_missing(PyObject* dict, PyObject* key);
  // Raising an exception from outside writes to it: record/rules_exceptions.cpp.
  void record_raise(py::Op op, int oparg);
  void record_raised(const interp::Position& position);
  // A generator of the region's start stands inside a `try` or `with`: dropping it runs code. The objects of the start are
  // kept until the trace is over, so that this must happen for real.
  bool minds_being_dropped(PyObject* value) const;
  // The instruction before this one dropped the last reference to an object whose end runs code: it becomes a break.
  bool meet_dropped();
  // An exception is about to drop what frames hold.
  void record_unwinding(const interp::Position& position);
  void note_traceback(PyObject* exception);
  void note_context(PyObject* exception);
  // Reads through the graph what the trace itself did not write.
  void read_place(int node, guard::Kind kind, PyObject* owner, PyObject* key, PyObject* value);
  // What a class holds under a name, unless the trace itself wrote it there.
  void note_class_value(PyTypeObject* type, PyObject* name, PyObject* value);
  // The container itself, or what holds the contents that it had before the trace changed it.
  PyObject* holder_of(PyObject* container) const {
    PyObject* original = journal_.original(container);
    return original ? original : container;
  }
  // The trace wrote to an attribute of this object: reads by other ways than the attribute cannot be told apart.
  bool has_written(PyObject* object) const { return journal_.has_places(object); }
  // Torch's own code, and no code of the program's, executes an operation on these.
  static bool is_tensor_operation(PyObject* const* operands, Py_ssize_t count);
  PyObject* peek(int depth) const { return position_.stack_top[-depth]; }
  PyObject* name_at(int index) const { return PyTuple_GET_ITEM(position_.frame->f_code->co_names, index); }

  Start* start_;
  std::optional<Stop> stop_;
  int depth_ = 0;
  std::vector<int> standing_in_;  // depths at which C code called a stand-in
  int64_t number_ = 0;
  int64_t nested_ = 0;            // instructions below C code
  bool deciding_ = false;         // the instruction has not begun
  std::vector<py::Frame*> base_;  // the frames that the trace began in; those from kept_frames_ on are gone
  std::vector<bool> begun_;       // .. of generators that hung on them too: those that were resumed
  std::vector<int> lowest_;       // .. and the lowest depth that each one's stack had
  size_t kept_frames_ = 0;
  bool deferred_texts_ = false;
  std::vector<py::Frame*> defining_;                    // frames that wait for a class
  std::unordered_map<PyObject*, Ref<>> class_bodies_;   // functions
  std::unordered_map<PyObject*, Ref<>> fresh_globals_;  // dicts of globals and of builtins
  struct Executed {
    int depth = 0;  // of the call; 0: there is none
    PyObject* globals = nullptr;
  } executed_;
  bool made_function_ = false;  // the instruction before was MAKE_FUNCTION
  std::unordered_map<PyObject*, Ref<>> fresh_functions_;
  std::vector<Ref<>> generators_;  // made and begun by the trace; weak references: they die when the program says so
  std::unordered_map<PyObject*, Py_ssize_t> advanced_;  // items that iterators from outside gave
  std::unordered_map<PyObject*, Followed> followed_;
  std::optional<Item> awaited_;
  std::optional<Followed> awaited_number_;
  PyObject* awaited_value_ = nullptr;
  py::Frame* awaiting_ = nullptr;
  std::vector<bool> read_slots_;
  std::vector<bool> written_slots_;
  std::vector<bool> varying_;
  const std::set<std::string>* moving_ = nullptr;
  bool all_move_ = false;
  bool leaves_what_it_reads_ = false;  // the instruction puts on the stack what it reads, and nothing else
  const std::unordered_set<const void*>* skipped_ = nullptr;
  Ref<PyCodeObject> asks_to_be_skipped_;
  std::optional<interp::StackState> stopped_;
  interp::Position position_{};
  ReadGraph graph_;
  journal::Journal journal_;
  size_t writes_ = 0;
  DropWatch drops_;
  std::unordered_map<PyTypeObject*, std::vector<int>> compared_;  // nodes by class
  std::unordered_map<PyObject*, std::vector<int>>
      tensor_keys_;                                          // dict from outside: the tensors that were looked up there
  std::unordered_map<PyObject*, PyObject*> instance_dicts_;  // __dict__ that was read: whose it is
  Ref<> result_;
  bool ended_ = false;
  const uint64_t shortages_ = count_shortages();  // before
  std::string place_;                   // kept where frames may be gone before somebody asks; empty: the frame is there
  std::shared_ptr<const Trail> trail_;  // likewise
  const void* raised_ = nullptr;        // the last exception that was seen; only to be compared
  std::shared_ptr<const Trail> raised_trail_;
  std::string raised_place_;
  bool notes_sites_ = false;
  Ref<> spy_;
  bool keying_ = false;                        // the instruction or call that is recorded may have addresses
  const Contract* expected_result_ = nullptr;  // of the call that the instruction before made
  const py::Frame* expecting_ = nullptr;
  bool computed_ = false;    // the call that is recorded computes with symbols
  bool opaque_ = false;      // the call that is recorded is to run as one step
  int64_t torch_steps_ = 0;  // instructions that torch executed, calls of lru_caches and of what sets states
  std::vector<int64_t> steps_before_caches_;  // .. before the functions of lru_caches were called that still run
  PyObject* tracer_ = nullptr;
  std::function<void(bool)> turn_mode_;
  bool mode_hidden_ = false;
  std::vector<std::pair<Ref<>, Ref<>>> given_names_;
  bool found_in_registry_ = false;    // the attribute is a parameter, buffer or child of a module
  bool module_getattr_read_ = false;  // module_getattr has its guards
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

// Whether what a property, or a descriptor whose class is no builtin one, does is Python code: its part `accessor` (fget), or
// its class's method (__get__).
bool is_python_descriptor(PyObject* descriptor, const char* accessor, const char* method);

}  // namespace alternator::record
