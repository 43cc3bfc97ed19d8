// Warnings that torch gives while it runs on fakes. The graph gives them again when it runs, as often as the program would;
// so those of the trace are nobody's to see.
#pragma once

#include "base/ref.h"

namespace alternator::tensor {

// While it lives, warnings of this thread are counted and not shown. What the `warnings` module remembers of places that
// have warned stays as it is, and so does what torch keeps of warnings that it gives once only.
class IgnoredWarnings {
 public:
  IgnoredWarnings();
  ~IgnoredWarnings();
  IgnoredWarnings(const IgnoredWarnings&) = delete;
  IgnoredWarnings& operator=(const IgnoredWarnings&) = delete;

  // How many there were in this thread.
  static uint64_t count();
  // To be called once, when the module is made. False with an exception set.
  static bool prepare();
};

}  // namespace alternator::tensor
