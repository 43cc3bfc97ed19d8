#include "py/opcode.h"

#include <cstring>

extern "C" {
extern const uint8_t* const alternator_opcode_deopt;
extern const uint8_t* const alternator_opcode_caches;
}

namespace alternator::py {
namespace {

constexpr OpRow kRows[] = {
    {"<unknown>", Jump::None, Next::Leaves, How::HandOver},
#define OP(name, effect, jump, jump_effect, next, how) {#name, Jump::jump, Next::next, How::how},
#include "py/opcode.def"
#undef OP
};

struct Number {
  Op op;
  uint8_t number;
};

// CPython's numbers come from the macros of opcode.h, so they cannot be wrong.
constexpr Number kNumbers[] = {
#define OP(opname, effect, jump, jump_effect, next, how) {Op::k##opname, opname},
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
#define OP(name, effect, jump, jump_effect, next, how) \
  case Op::k##name: return jumps ? (jump_effect) : (effect);
#include "py/opcode.def"
#undef OP
    default: return 0;
  }
}

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
