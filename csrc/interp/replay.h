// Replay: a run that is taken away and put back on the way, for tests. Proves that snapshots hold everything.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"

namespace alternator::interp {

struct ReplayReport {
  uint64_t instructions = 0;
  uint64_t recreated = 0;
  std::vector<std::string> refused;
};

// Calls `callable` in our loop. At instruction number `start`, and then every `every` instructions (0: once only), the
// whole stack of frames is snapshotted, abandoned, re-created and continued.
Ref<> replay(PyObject* callable, PyObject* args, PyObject* kwargs, uint64_t start, uint64_t every,
             ReplayReport* report);

}  // namespace alternator::interp
