// What can be known of a code object without running it: exception handlers, stack depths, saved exceptions.
#pragma once

#include <vector>

#include "py/frame.h"

namespace alternator::py {

struct Handler {
  int target;       // instruction to go on at
  int depth;        // stack depth to cut down to
  bool push_lasti;  // whether the offset of the raising instruction is pushed
};

// Finds the handler for an exception raised at an instruction.
bool find_handler(PyCodeObject* code, int offset, Handler* handler);

// The shape of the value stack before an instruction.
struct StackShape {
  static constexpr int kUnreachable = -1;
  // A slot that holds an exception saved by PUSH_EXC_INFO: what POP_EXCEPT makes the current one again.
  struct Saved {
    uint16_t slot;
    uint16_t level;  // 0 for the outermost handler; SWAP moves such a value and COPY copies it
  };
  int depth = kUnreachable;
  std::vector<Saved> saved_exceptions;

  void cut_to(int new_depth);
  void swap_slots(int a, int b);
  void copy_slot(int from, int to);
};

// The shapes at every instruction, by abstract interpretation with the stack effects of opcode.def.
class StackMap {
 public:
  explicit StackMap(PyCodeObject* code);
  const StackShape& at(int offset) const { return shapes_[offset]; }

 private:
  void reach(int offset, StackShape shape);
  void step(PyCodeObject* code, int offset);

  std::vector<StackShape> shapes_;
  std::vector<int> pending_;
};

// A value of ours attached to code objects, freed with them.
class CodeAttachment {
 public:
  // `free` is called when a code object with an attachment dies. Returns false with an exception set.
  bool request(freefunc free);
  void* get(const PyCodeObject* code) const {
    auto* extra = static_cast<Extra*>(code->co_extra);
    return (extra != nullptr && index_ < extra->size) ? extra->values[index_] : nullptr;
  }
  // False, with no exception set, if memory is short.
  bool set(PyCodeObject* code, void* value) const;

 private:
  // Must match _PyCodeObjectExtra of Objects/codeobject.c, which is in no header: tests/py/test_code.py would notice.
  struct Extra {
    Py_ssize_t size;
    void* values[1];
  };

  Py_ssize_t index_ = PY_SSIZE_T_MAX;
};

// An instruction that begins at `from`, with the EXTENDED_ARGs in front of it; `at` is its own unit.
struct Instruction {
  explicit Instruction(const CodeUnit* from) : at(from), oparg(oparg_of(*from)) {
    while (canonical(*at) == Op::kEXTENDED_ARG) {
      oparg = oparg << 8 | oparg_of(*++at);
    }
    op = canonical(*at);
  }

  const CodeUnit* at;
  int oparg;
  Op op;
};

// An instruction as an observer sees it: KW_NAMES, PRECALL and CALL are one step, a CALL that has `names`.
struct Step : Instruction {
  explicit Step(const CodeUnit* from) : Instruction(from) {
    if (op == Op::kKW_NAMES) {
      names = oparg;
      Instruction precall(at + 1);
      at = precall.at;
      op = Op::kCALL;
      oparg = precall.oparg;
    }
  }

  int names = -1;  // the constant with the names of the last arguments; -1: they have none
};

// The whole oparg of the instruction at `offset`, with the EXTENDED_ARGs in front of it.
int full_oparg(PyCodeObject* code, int offset);
// Whether a call that is in progress stands at an instruction of this kind, which has no caches. A CALL stands at the last
// unit of its caches, which may look like anything.
bool is_instruction(PyCodeObject* code, const CodeUnit* at, Op op);
// The start of the instruction at `offset`: its first EXTENDED_ARG, if it has one.
int instruction_start(PyCodeObject* code, int offset);

}  // namespace alternator::py
