// Checks the guards of a region: by lists of words where the objects of earlier calls are met again, by a walk otherwise.
// guard::check(), the walk, is what decides; the lists are a faster way to the same answer.
#pragma once

#include <memory>
#include <vector>

#include "guard/words.h"

namespace alternator::guard {

class Checker {
 public:
  // As guard::check().
  Py_ssize_t check(const GuardList& list, PyObject* const* locals);
  // The objects of the nodes, borrowed, after a check that held; up to the next check, by any thread.
  const std::vector<PyObject*>& slots() const { return *slots_; }

  // For tests: the next check says that this guard does not hold.
  void fail_once(Py_ssize_t guard) {
    forced_ = prepared_ ? guard : -1;
    prepared_ = prepared_ && forced_ < 0;
  }

  // An object that the guards or the region cannot do without is gone: they will never hold again.
  bool is_dead() const { return !watch_.all_alive(); }
  // Called when one of them died, at any moment: it must not run Python code. Set once.
  static inline void (*on_death)() = nullptr;

  struct Counts {
    size_t lists = 0;   // lists of words, one for each combination of roots
    size_t words = 0;   // in the list that was used last
    size_t walked = 0;  // guards that are walked beside it
    size_t hits = 0;    // checks that a list decided
    size_t walks = 0;   // checks that needed a walk
  };
  Counts counts() const;

 private:
  using Lists = std::vector<std::unique_ptr<WordList>>;

  bool prepare(const GuardList& list);
  WordList* find(PyObject* const* locals);
  Py_ssize_t walk(const GuardList& list, PyObject* const* locals, bool has_list);
  void note_moves(PyObject* const* locals);
  bool is_worth_a_list() const;

  bool prepared_ = false;
  Py_ssize_t forced_ = -1;  // fail_once(): looked at only while it is not prepared
  GuardIndex index_;
  Watch watch_{on_death};  // of what the guards compare by identity
  Moves moves_;
  Lists lists_;  // most recently used first
  std::vector<PyObject*> walked_slots_;
  const std::vector<PyObject*>* slots_ = &walked_slots_;
  size_t hits_ = 0;
  size_t walks_ = 0;
};

}  // namespace alternator::guard
