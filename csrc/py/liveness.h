// Which local variables of a function are read again from an instruction on.
#pragma once

#include <vector>

#include "py/code.h"

namespace alternator::py {

class Liveness {
 public:
  explicit Liveness(PyCodeObject* code);
  // Before the instruction at `offset`; `inside`: an instruction in progress, a call, stands there.
  bool is_live(int local, int offset, bool inside) const;

 private:
  bool flow(PyCodeObject* code, int offset, int next);
  bool join(int offset, int from, int written);

  bool all_;                           // the function may look at its variables by other ways
  bool first_;                         // super() looks at the first one
  std::vector<std::vector<bool>> in_;  // read before it is written, on some way from this instruction
  std::vector<int> jumps_;             // where an instruction may jump to; -1: nowhere
};

}  // namespace alternator::py
