#include "py/liveness.h"

#include <algorithm>
#include <iterator>

namespace alternator::py {
namespace {

bool uses_name(PyCodeObject* code, const char* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i), name) == 0) {
      return true;
    }
  }
  return false;
}

bool may_look_at_locals(PyCodeObject* code) {
  constexpr const char* kNames[] = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) { return uses_name(code, name); });
}

// MAKE_CELL puts an argument into its cell.
bool reads_local(Op op) { return op == Op::kLOAD_FAST || op == Op::kDELETE_FAST || op == Op::kMAKE_CELL; }

}  // namespace

Liveness::Liveness(PyCodeObject* code) : all_(may_look_at_locals(code)), first_(uses_name(code, "super")) {
  auto count = static_cast<size_t>(instruction_count(code));
  in_.assign(count + 1, std::vector<bool>(code->co_nlocalsplus));
  jumps_.assign(count + 1, -1);
  std::vector<int> starts;
  for (size_t offset = 0; offset < count;) {
    starts.push_back(static_cast<int>(offset));
    offset += 1 + cache_units(canonical(first_instruction(code)[offset]));
  }
  for (bool changed = !all_; changed;) {
    changed = false;
    for (size_t i = starts.size(); i-- > 0;) {
      int next = i + 1 < starts.size() ? starts[i + 1] : static_cast<int>(count);
      changed = flow(code, starts[i], next) || changed;
      // A call in progress stands somewhere in its caches.
      for (int unit = starts[i] + 1; unit < next; ++unit) {
        in_[unit] = in_[next];
      }
    }
  }
}

bool Liveness::join(int offset, int from, int written) {
  bool changed = false;
  for (size_t i = 0; i < in_[offset].size(); ++i) {
    if (in_[from][i] && !in_[offset][i] && static_cast<int>(i) != written) {
      in_[offset][i] = changed = true;
    }
  }
  return changed;
}

bool Liveness::flow(PyCodeObject* code, int offset, int next) {
  Op op = canonical(first_instruction(code)[offset]);
  const OpRow& row = op_row(op);
  int oparg = full_oparg(code, offset);
  bool local = oparg >= 0 && oparg < code->co_nlocalsplus;
  bool changed = false;
  if (local && reads_local(op) && !in_[offset][oparg]) {
    in_[offset][oparg] = changed = true;
  }
  int written = op == Op::kSTORE_FAST && local ? oparg : -1;
  int count = static_cast<int>(in_.size()) - 1;
  if (row.next == Next::Falls) {
    changed = join(offset, next, written) || changed;
  }
  if (row.jump != Jump::None) {
    int target = next + (row.jump == Jump::Forward ? oparg : -oparg);
    if (target >= 0 && target <= count) {
      jumps_[offset] = target;
      changed = join(offset, target, -1) || changed;
    }
  }
  Handler handler;
  if (find_handler(code, offset, &handler)) {
    changed = join(offset, handler.target, -1) || changed;
  }
  return changed;
}

bool Liveness::is_live(int local, int offset, bool inside) const {
  if (all_ || (first_ && local == 0)) {
    return true;
  }
  if (!inside) {
    return in_[offset][local];
  }
  return in_[offset + 1][local] || (jumps_[offset] >= 0 && in_[jumps_[offset]][local]);
}

}  // namespace alternator::py
