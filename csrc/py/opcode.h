// Canonical opcodes: what is known of each, and how CPython's numbers map to them. The rows are in opcode.def.
#pragma once

#include "py/python.h"

namespace alternator::py {

using CodeUnit = _Py_CODEUNIT;

// The enumerators must not collide with CPython's opcode macros of the same names: those end here.
enum class Op : uint8_t {
  Unknown,
#define OP(name, ...) k##name,
#include "py/opcode.def"
#undef OP
  Count,
};

enum class Jump : uint8_t { None, Forward, Backward };
enum class Next : uint8_t { Falls, Leaves };
enum class How : uint8_t { Own, Borrow, HandOver };
enum class Recording : uint8_t { Harmless, Rule, Break };
// What an instruction does with a value that it touches.
enum class Role : char {
  Moved = 'M',
  Stored = 'S',
  Used = 'U',
  LookedInto = 'D',
  Truth = 'T',
  Noneness = 'N',
  OfCall = 'C',
};

struct OpRow {
  const char* name;
  Jump jump;
  Next next;
  How how;
  Recording recording;
  uint8_t torch_operands;  // how many values from the top decide whether torch executes it
  const char* operands;    // the roles, as opcode.def writes them
};

const OpRow& op_row(Op op);
// Change of the stack's depth; `jumps` asks for the way that the jump takes.
int stack_effect(Op op, int oparg, bool jumps);
// How many values from the top the instruction takes, replaces or moves.
int count_touched(Op op, int oparg);
// What it does with the value at `depth`, 1 for the topmost, which must be one that it touches.
Role role_of(Op op, int depth);
// It only moves what it touches.
bool only_moves(Op op);

// CPython's opcode byte, specialised or not, to the canonical opcode; and the inline cache units behind it.
extern const uint8_t* const kDeoptOf;
extern const uint8_t* const kCachesOf;
extern Op canonical_table[256];
extern uint8_t number_table[static_cast<int>(Op::Count)];
void fill_opcode_tables();

inline Op canonical(CodeUnit unit) { return canonical_table[_Py_OPCODE(unit)]; }
inline int oparg_of(CodeUnit unit) { return _Py_OPARG(unit); }
inline int raw_opcode(CodeUnit unit) { return _Py_OPCODE(unit); }

// Inline cache units behind an instruction, known at compile time.
constexpr int cache_units(Op op) {
  switch (op) {
    case Op::kBINARY_SUBSCR: return INLINE_CACHE_ENTRIES_BINARY_SUBSCR;
    case Op::kSTORE_SUBSCR: return INLINE_CACHE_ENTRIES_STORE_SUBSCR;
    case Op::kUNPACK_SEQUENCE: return INLINE_CACHE_ENTRIES_UNPACK_SEQUENCE;
    case Op::kSTORE_ATTR: return INLINE_CACHE_ENTRIES_STORE_ATTR;
    case Op::kLOAD_ATTR: return INLINE_CACHE_ENTRIES_LOAD_ATTR;
    case Op::kCOMPARE_OP: return INLINE_CACHE_ENTRIES_COMPARE_OP;
    case Op::kLOAD_GLOBAL: return INLINE_CACHE_ENTRIES_LOAD_GLOBAL;
    case Op::kBINARY_OP: return INLINE_CACHE_ENTRIES_BINARY_OP;
    case Op::kLOAD_METHOD: return INLINE_CACHE_ENTRIES_LOAD_METHOD;
    case Op::kPRECALL: return INLINE_CACHE_ENTRIES_PRECALL;
    case Op::kCALL: return INLINE_CACHE_ENTRIES_CALL;
    default: return 0;
  }
}

}  // namespace alternator::py
