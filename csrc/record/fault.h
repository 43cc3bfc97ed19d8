// Faults that tests put into the traces of a thread: at a chosen instruction a trace is given up, or an exception is
// raised there; and in front of a trace, and when it is over and rolled back, before anything else runs, the test may look
// at the world.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ref.h"

namespace alternator::record {

struct Fault {
  int64_t at = -1;           // the instruction, counted over all traces of the thread since the fault was set; -1: none
  Ref<> error;               // what is raised there; null: the trace is given up
  Ref<> begins;              // begins(), called in front of a trace; null: nobody looks
  Ref<> rolling_back;        // rolling_back(), called in front of the roll-back; null: nobody looks
  Ref<> rolled_back;         // rolled_back(), called when a trace is over; null: nobody looks
  int64_t instructions = 0;  // seen so far
  bool fired = false;
};

// Empty but in tests. A pointer, so that a trace asks one word whether there is anything to do.
extern thread_local constinit Fault* current_fault;

// The journal is about to be rolled back.
void announce_roll_back();

// Declared first in a function that traces: it ends when everything that belongs to the trace is gone.
class TraceWatch {
 public:
  TraceWatch();
  ~TraceWatch();
  TraceWatch(const TraceWatch&) = delete;
  TraceWatch& operator=(const TraceWatch&) = delete;
};

}  // namespace alternator::record
