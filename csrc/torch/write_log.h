// What a graph that fails in the middle has left: which memory from outside its operators write to, and which operators
// may fail over a value (an index out of range, a matrix without an inverse).
//
//   while tracing   WriteLog   sees every operator that runs on fakes, in order: its writes, and whether it may fail
//   of a region     Undoing    .ranges: bytes of inputs to copy before the graph runs, to be put back if it fails
//                              .checks: inputs whose values are looked at before, so that no operator fails over them
//   of a call       Backup     the copies
//
// A write needs a copy only if an operator that may fail runs after it, or is the one that writes. Whoever runs the graph's
// nodes in their order (`keeps_order`) has all that comes earlier behind it; a compiler may put any write first. Of an operator
// that has never run, nobody knows: a fake may have let pass what the operator refuses (a dtype, a form). So there are two
// plans, one for the first run of a graph (Risks::All), and one for those after it (Risks::OfValues).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"

namespace alternator::tensor {

// Bytes of an input's storage, counted from where the input begins; the whole storage if the end is kToTheEnd.
struct Range {
  static constexpr int64_t kToTheEnd = -1;
  int input;
  int64_t begin;
  int64_t end;
};

// Each value of an input (integers, on the CPU) has to be at least `low` and less than `high`, or `ignored`.
struct ValueCheck {
  int input;
  int64_t low;
  int64_t high;
  std::optional<int64_t> ignored;

  bool operator==(const ValueCheck&) const = default;
};

enum class Risks : uint8_t { OfValues, All };

struct Undoing {
  std::vector<Range> ranges;
  std::vector<int> tensors;  // all inputs on that memory: how often they were written to, and their history
  std::vector<ValueCheck> checks;
  bool is_complete = true;  // every input that is written to has its range
};

// Whether all checks hold. The inputs are those of the call.
bool holds(const std::vector<ValueCheck>& checks, PyObject* const* inputs);

class Backup {
 public:
  // Null if there is no memory for the copies, or if they are more bytes than `most`.
  static std::unique_ptr<Backup> take(const Undoing& undoing, PyObject* const* inputs,
                                      int64_t most = INT64_MAX) noexcept;
  ~Backup();
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  // Puts everything back. False, with nothing changed, where that is not possible: hooks have moved with the history.
  bool restore() noexcept;

 private:
  struct Parts;
  explicit Backup(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The log of one trace.
class WriteLog {
 public:
  WriteLog();
  ~WriteLog();
  WriteLog(const WriteLog&) = delete;
  WriteLog& operator=(const WriteLog&) = delete;

  // From here to close() the operators that this thread runs on fakes are noted.
  void open();
  void close();

  // `inputs` are real tensors. `has_symbols`: sizes may be others in another call.
  Undoing plan(const std::vector<PyObject*>& inputs, Risks risks, bool keeps_order, bool has_symbols) const;

  // Where a fake begins in its storage is relied on.
  void rely_on_offset(PyObject* fake);
  // Whether the trace relied on where a real tensor begins in its storage.
  bool relies_on_offset(PyObject* tensor) const;

  struct Entries;
  // Of the trace that runs in this thread; null if none does.
  static Entries* current();

  // While it exists, what this thread runs on fakes is not noted.
  class Unnoted {
   public:
    Unnoted();
    ~Unnoted();
    Unnoted(const Unnoted&) = delete;
    Unnoted& operator=(const Unnoted&) = delete;

   private:
    Entries* kept_;
  };

 private:
  std::unique_ptr<Entries> entries_;
  Entries* outer_ = nullptr;
};

}  // namespace alternator::tensor
