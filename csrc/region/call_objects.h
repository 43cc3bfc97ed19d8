// The objects of one call, put together without allocating anything in the ordinary case.
#pragma once

#include <algorithm>

#include "base/ref_list.h"
#include "py/frame.h"
#include "region/region.h"

namespace alternator::region {

// The slots of a function that has not begun (record/start.h), borrowed.
class EntrySlots {
 public:
  EntrySlots(py::ThreadState* ts, PyFunctionObject* function, PyObject* const* locals, int bound)
      : count_(reinterpret_cast<PyCodeObject*>(function->func_code)->co_nlocalsplus),
        heap_(count_ + 4 > kOnStack ? new PyObject*[count_ + 4] : nullptr) {
    PyObject** slots = data();
    std::copy(locals, locals + bound, slots);
    std::fill(slots + bound, slots + count_, nullptr);
    slots += count_;
    *slots++ = reinterpret_cast<PyObject*>(function);
    *slots++ = nullptr;
    *slots++ = nullptr;
    *slots++ = py::handled_exception(ts);
  }
  PyObject** data() { return heap_ ? heap_.get() : stack_; }

 private:
  static constexpr int kOnStack = 64;
  int count_;
  std::unique_ptr<PyObject*[]> heap_;
  PyObject* stack_[kOnStack];
};

// What a region needs of a call while its graph runs, held: another call may change what the region's slots have, and the
// program may drop what they point to. A place for the `self` of a method, the graph's inputs, then what the exit needs.
class CallObjects {
 public:
  explicit CallObjects(const Region& region) : objects_(1 + region.inputs.size() + region.exit_nodes.size()) {
    const std::vector<PyObject*>& nodes = region.checker.slots();
    objects_.add(nullptr);
    for (int node : region.inputs) {
      objects_.add(share(nodes[node]));
    }
    for (int node : region.exit_nodes) {
      objects_.add(share(nodes[node]));
    }
    for (const guard::Quantity& quantity : region.arguments) {
      made_.push_back(quantity.object(nodes));
      given_.push_back(made_.back().get());
    }
  }
  // False with an exception set.
  bool are_made() const { return std::find(given_.begin(), given_.end(), nullptr) == given_.end(); }
  // Calls a function with the inputs. A method of Python puts its object in front of them, for as long as it runs.
  Ref<> pass_inputs(const Region& region, PyObject* function) {
    if (!region.arguments.empty()) {
      return steal(PyObject_Vectorcall(function, given_.data(), given_.size(), nullptr));
    }
    return steal(PyObject_Vectorcall(function, objects_.data() + 1,
                                     region.inputs.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  }
  // Of the inputs that the graph writes to.
  std::vector<uint32_t> versions(const std::vector<int>& inputs) const {
    std::vector<uint32_t> found;
    found.reserve(inputs.size());
    for (int input : inputs) {
      found.push_back(tensor::version_of(objects_[1 + input]));
    }
    return found;
  }
  PyObject* const* inputs() const { return objects_.data() + 1; }
  PyObject* const* of_exit(const Region& region) const { return objects_.data() + 1 + region.inputs.size(); }

 private:
  RefList<256> objects_;
  std::vector<Ref<>> made_;  // arguments, where they are not the inputs alone
  std::vector<PyObject*> given_;
};

}  // namespace alternator::region
