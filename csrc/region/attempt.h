// A graph that may fail: what is kept before it runs, so that the program can run eagerly in its place.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "region/call_objects.h"

namespace alternator::region {

class Attempt {
 public:
  Attempt(const Region& region, const CallObjects& objects) : region_(region), objects_(objects) {}

  // False: the graph would fail, or there is no memory for copies of what it writes to. It is not to run then.
  bool begin() {
    if (!region_.repeatable) {
      return true;
    }
    const std::vector<tensor::ValueCheck>& checks = region_.later.undoing.checks;
    if (!checks.empty() && !tensor::holds(checks, objects_.inputs())) {
      return false;
    }
    if (region_.draws) {
      random_.emplace();
    }
    // Copies for the first run are a precaution: not at any price.
    return (!region_.has_run && prepare(region_.first, kMostAtFirst)) || prepare(region_.later, INT64_MAX);
  }

  // The graph failed, or the exit before it wrote anything; the exception is set. Torch's state is as it was, and the exception is
  // cleared if no harm was done.
  void forgive() {
    // A graph that fails in the middle leaves scopes of torch's state open, which `with` would have closed.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    region_.state.restore();
    PyErr_Restore(type, value, traceback);
    if (PyErr_ExceptionMatches(PyExc_Exception) && undo()) {
      PyErr_Clear();
    }
  }

 private:
  static constexpr int64_t kMostAtFirst = int64_t{1} << 28;

  // False if there is no memory for the copies.
  bool prepare(const Recovery& recovery, int64_t most) {
    recovery_ = &recovery;
    if (!recovery.written.empty()) {
      versions_ = objects_.versions(recovery.written);
    }
    if (!recovery.undoing.ranges.empty()) {
      backup_ = tensor::Backup::take(recovery.undoing, objects_.inputs(), most);
      return backup_ != nullptr;
    }
    return true;
  }

  // False if the graph has done something that cannot be undone.
  bool undo() {
    if (recovery_ == nullptr || (!recovery_->written.empty() && versions_ != objects_.versions(recovery_->written)) ||
        (backup_ && !backup_->restore())) {
      return false;
    }
    if (random_) {
      random_->restore();
    }
    return true;
  }

  const Region& region_;
  const CallObjects& objects_;
  const Recovery* recovery_ = nullptr;  // null: nothing can be done
  std::optional<tensor::RandomState> random_;
  std::vector<uint32_t> versions_;
  std::unique_ptr<tensor::Backup> backup_;
};

}  // namespace alternator::region
