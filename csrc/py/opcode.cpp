#include "py/opcode.h"

#include <cstring>

extern "C" {
extern const uint8_t* const alternator_opcode_deopt;
extern const uint8_t* const alternator_opcode_caches;
}

namespace alternator::py {
namespace {

constexpr OpRow kRows[] = {
    {"<unknown>", Jump::None, Next::Leaves, How::HandOver, Recording::Break, 0, ""},
#define OP(name, effect, jump, jump_effect, next, how, recording, touched, torch, operands) \
  {#name, Jump::jump, Next::next, How::how, Recording::recording, torch, operands},
#include "py/opcode.def"
#undef OP
};

struct Number {
  Op op;
  uint8_t number;
};

// CPython's numbers come from the macros of opcode.h, so they cannot be wrong.
constexpr Number kNumbers[] = {
#define OP(opname, ...) {Op::k##opname, opname},
#include "py/opcode.def"
#undef OP
};

}  // namespace

const uint8_t* const kDeoptOf = alternator_opcode_deopt;
const uint8_t* const kCachesOf = alternator_opcode_caches;
Op canonical_table[256];
uint8_t number_table[static_cast<int>(Op::Count)];

const OpRow& op_row(Op op) { return kRows[static_cast<int>(op)]; }

int stack_effect(Op op, int oparg, bool jumps) {
  [[maybe_unused]] const int a = oparg;
  switch (op) {
#define OP(name, effect, jump, jump_effect, ...) \
  case Op::k##name: return jumps ? (jump_effect) : (effect);
#include "py/opcode.def"
#undef OP
    default: return 0;
  }
}

int count_touched(Op op, int oparg) {
  [[maybe_unused]] const int a = oparg;
  switch (op) {
#define OP(name, effect, jump, jump_effect, next, how, recording, touched, ...) \
  case Op::k##name: return touched;
#include "py/opcode.def"
#undef OP
    default: return 0;
  }
}

Role role_of(Op op, int depth) {
  const char* roles = op_row(op).operands;
  const char* mark = std::strchr(roles, '|');
  auto fixed = static_cast<int>(mark != nullptr ? mark - roles : std::strlen(roles));
  if (depth <= fixed) {
    return static_cast<Role>(roles[depth - 1]);
  }
  const char* repeated = mark != nullptr ? mark + 1 : "D";  // no row is like this: a test compares them
  return static_cast<Role>(repeated[(depth - fixed - 1) % static_cast<int>(std::strlen(repeated))]);
}

bool only_moves(Op op) { return std::strspn(op_row(op).operands, "|M") == std::strlen(op_row(op).operands); }

void fill_opcode_tables() {
  Op exact[256] = {};
  for (const Number& row : kNumbers) {
    exact[row.number] = row.op;
    number_table[static_cast<int>(row.op)] = row.number;
  }
  for (int i = 0; i < 256; ++i) {
    canonical_table[i] = exact[alternator_opcode_deopt[i]];
  }
}

}  // namespace alternator::py
