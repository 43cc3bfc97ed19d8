// While it lives, allocating an object does not start a garbage collection, which could run anybody's finalisers.
#pragma once

#include "py/python.h"

namespace alternator::py {

class CollectorPause {
 public:
  CollectorPause() : was_enabled_(PyGC_Disable()) {}
  ~CollectorPause() {
    if (was_enabled_) {
      PyGC_Enable();
    }
  }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;

 private:
  int was_enabled_;
};

}  // namespace alternator::py
