// The read graph: objects that a trace met from outside, and the reads that led to them. It grows while tracing and is the
// guard list when the trace ends.
//
// Every object that existed before the trace must have a node when the trace uses it: its first read is its source. An
// object without a node was made by the trace itself; reading from it leaves no guard.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "guard/guard.h"
#include "py/class_census.h"

namespace alternator::record {

class ReadGraph {
 public:
  // The node of an object, or -1 if the trace made it (or never met it).
  int node_of(PyObject* object) const;
  // How many references to an object the graph and its guards hold.
  Py_ssize_t count_references(PyObject* object) const;
  bool is_outside(PyObject* object) const { return node_of(object) >= 0; }

  // The node of a primitive, of which it matters which object it is: every place where the trace found this very object must
  // hold one and the same. A constant, if it was found nowhere: it belongs to code, or the trace made it.
  int identify(PyObject* primitive);
  bool has_place(PyObject* primitive) const { return primitives_.count(primitive) != 0; }

  // Whether a node is there by identity, for good.
  bool is_constant(int node) const { return constants_.count(node) != 0; }
  // A function that is made anew each time that the function around it runs, or a builtin method that is bound to an object:
  // it is compared by its parts.
  static bool has_parts(PyObject* object);

  // An object that is reached by identity alone: a globals dict, a cell of a pinned function, a type, a module.
  int add_constant(PyObject* object, std::string name);
  // An argument of the call.
  void read_local(Py_ssize_t index, PyObject* name, PyObject* value);
  // One thing read from a node: absent (null), a primitive, a pinned object, or an object that gets a node.
  void read(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index, PyObject* value);
  // Whether there is a guard for what was there.
  bool was_read(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index) const;
  // A number whose value does not matter yet: its type does. The node that has it, which no object is known by; -1 if its
  // value was read before.
  int read_number(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index, PyObject* value);
  void read_value_of_number(int node, PyObject* value);
  // Only whether it is there at all.
  void read_presence(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index, bool present);
  // As read(), of an object that gets a node in any case.
  void read_object(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index, PyObject* value);
  void read_length(int parent, Py_ssize_t length);
  // The keys of a dict, the items of a set: in their order, as `holder` has them.
  void read_dict_keys(int parent, PyObject* holder);
  void read_set_items(int parent, PyObject* holder);
  void read_set_layout(int parent, PyObject* holder);
  // How many items lie ahead of an iterator: more than so many, or no more.
  void read_iterator(int parent, Py_ssize_t count, bool more);
  // A number in the body of an object.
  void read_word(int parent, Py_ssize_t offset, Py_ssize_t value);
  // A class that something was looked up on. False if it cannot be watched (CPython ran out of versions).
  bool read_type(PyTypeObject* type);
  // The trace is about to make a class: those that there are now are from outside.
  void count_classes() {
    if (!classes_before_.is_taken()) {
      classes_before_.take();
    }
  }
  // A class that the trace made: not watched, but its bases are. None dies before the trace ends: that takes a collection.
  bool is_fresh_class(PyObject* type) const {
    return classes_before_.is_taken() && PyType_Check(type) &&
           !classes_before_.has(reinterpret_cast<PyTypeObject*>(type)) && !is_outside(type);
  }
  // What a class holds, once read_type() watches the class: it is there for good, what is in it by its own reads.
  void note_class_value(PyTypeObject* type, PyObject* name, PyObject* value);
  // What a function without arguments says of the state of torch or Python.
  void read_setting(PyObject* getter, PyObject* value);
  // A functools.lru_cache does not have a key, or has `value` for it unless that is null. There are less than `room`
  // others; -1: the cache has no limit.
  void read_cache_entry(int results, PyObject* key, Py_ssize_t room, PyObject* value);
  // The facts, which the list keeps; null if it has some of that tensor.
  tensor::Facts* read_tensor(int node, std::unique_ptr<tensor::Facts> facts);
  void read_distinct(int a, int b);
  void read_all_distinct(std::vector<int> nodes);
  // Tensors that the region changes, by their nodes, stay others than all other tensors that it looks at, but for those at
  // the nodes `compared`, which are kept apart in another way.
  void read_distinct_tensors(std::vector<int> changed, const std::vector<int>& compared);
  // The object is written: no other object of its type may become the same one.
  void read_distinct_from_all(PyObject* object);

  const std::string& name_of(int node) const { return list_.names[node]; }
  void rename(int node, std::string name) { list_.names[node] = std::move(name); }
  // Where the guards were needed that are new since the last time.
  bool has_guards_without_site() const { return list_.guards.size() > with_site_; }
  void set_site(int site) {
    for (; with_site_ < list_.guards.size(); ++with_site_) {
      list_.guards[with_site_].site = site;
    }
  }
  guard::GuardList take() { return std::move(list_); }

  std::string name_of_read(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index) const;

 private:
  static std::pair<uint64_t, uint64_t> read_id(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index);
  // False if this very read was made before.
  bool is_new(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index);
  int add_node(PyObject* object, std::string name);
  std::optional<guard::Guard> begin_read(int parent, guard::Kind kind, PyObject* key, Py_ssize_t index);
  void end_read_of_object(guard::Guard guard, PyObject* key, PyObject* value);
  // The next guard finds this primitive.
  void note_place(PyObject* primitive);
  // Another guard that looks at the same thing.
  guard::Guard look_again(size_t guard) const;
  void read_hidden(int node, PyObject* object);
  guard::TypeContents contents_of(PyTypeObject* type);

  guard::GuardList list_;
  size_t with_site_ = 0;
  std::unordered_map<PyObject*, int> nodes_;
  py::ClassCensus classes_before_;
  std::unordered_set<int> constants_;
  std::unordered_map<PyTypeObject*, std::shared_ptr<const guard::ClassContents>> classes_;
  struct SeenHash {
    size_t operator()(const std::pair<uint64_t, uint64_t>& pair) const {
      uint64_t mixed = pair.first * 0x9E3779B97F4A7C15ull ^ (pair.second >> 3) * 0xC2B2AE3D27D4EB4Full;
      return mixed ^ mixed >> 29;
    }
  };
  std::unordered_set<std::pair<uint64_t, uint64_t>, SeenHash> seen_;
  struct Number {
    int node;
    size_t guard;  // that fills the node
    bool has_value = false;
  };
  std::unordered_map<std::pair<uint64_t, uint64_t>, Number, SeenHash> numbers_;
  // The guards that found a primitive, of which there may be other objects of the same value; and its node, once it matters.
  std::unordered_map<PyObject*, std::vector<size_t>> primitives_;
  struct Identity {
    int node = -1;
    size_t places = 0;  // guards that are known to find this very object
  };
  std::unordered_map<PyObject*, Identity> identities_;
  std::vector<Ref<>> kept_;  // objects must not die, or their addresses mean nothing, while the trace lasts
};

}  // namespace alternator::record
