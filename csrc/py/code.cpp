#include "py/code.h"

#include <algorithm>

#include "base/error.h"

namespace alternator::py {
namespace {

// The exception table: entries of four numbers (start, length, target, depth << 1 | lasti), big-endian base 64, with
// bit 6 of a byte set when more follow and bit 7 set on the first byte of an entry.
struct TableReader {
  const uint8_t* at;
  const uint8_t* end;

  explicit TableReader(PyCodeObject* code)
      : at(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(code->co_exceptiontable))),
        end(at + PyBytes_GET_SIZE(code->co_exceptiontable)) {}

  int number() {
    int byte = *at++;
    int value = byte & 63;
    while (byte & 64) {
      byte = *at++;
      value = (value << 6) | (byte & 63);
    }
    return value;
  }

  bool next(int* start, int* length, Handler* handler) {
    if (at >= end) {
      return false;
    }
    *start = number();
    *length = number();
    handler->target = number();
    int packed = number();
    handler->depth = packed >> 1;
    handler->push_lasti = packed & 1;
    return true;
  }
};

}  // namespace

bool find_handler(PyCodeObject* code, int offset, Handler* handler) {
  TableReader table(code);
  int start, length;
  while (table.next(&start, &length, handler)) {
    if (start > offset) {
      return false;
    }
    if (offset < start + length) {
      return true;
    }
  }
  return false;
}

int instruction_start(PyCodeObject* code, int offset) {
  const CodeUnit* first = first_instruction(code);
  if (offset == 0 || canonical(first[offset - 1]) != Op::kEXTENDED_ARG) {
    return offset;
  }
  // The unit in front may be an inline cache that only looks like a prefix: walk from the code's start to know.
  int start = 0;
  int at = 0;
  while (at < offset) {
    bool prefix = canonical(first[at]) == Op::kEXTENDED_ARG;
    at += 1 + kCachesOf[kDeoptOf[raw_opcode(first[at])]];
    if (!prefix) {
      start = at;
    }
  }
  return start;
}

bool is_instruction(PyCodeObject* code, const CodeUnit* at, Op op) {
  if (canonical(*at) != op) {
    return false;
  }
  const CodeUnit* first = first_instruction(code);
  constexpr int kCallCaches = cache_units(Op::kCALL);
  if (at - first < kCallCaches || canonical(at[-kCallCaches]) != Op::kCALL) {
    return true;  // only behind a CALL could it be a cache
  }
  const CodeUnit* walk = first;
  while (walk < at) {
    walk += 1 + kCachesOf[kDeoptOf[raw_opcode(*walk)]];
  }
  return walk == at;
}

int full_oparg(PyCodeObject* code, int offset) {
  const CodeUnit* first = first_instruction(code);
  int oparg = 0;
  for (int i = instruction_start(code, offset); i <= offset; ++i) {
    oparg = oparg << 8 | oparg_of(first[i]);
  }
  return oparg;
}

StackMap::StackMap(PyCodeObject* code) : shapes_(instruction_count(code) + 1) {
  StackShape start;
  start.depth = 0;
  reach(0, start);
  do {
    while (!pending_.empty()) {
      int offset = pending_.back();
      pending_.pop_back();
      step(code, offset);
    }
    // Handlers are reached from whatever they protect; their shape is that of the protected code, cut down.
    TableReader table(code);
    int begin, length;
    Handler handler;
    while (table.next(&begin, &length, &handler)) {
      for (int i = begin; i < begin + length; ++i) {
        // PUSH_EXC_INFO is protected by the handler behind it and cannot raise: the shape in front of it is not the one.
        if (shapes_[i].depth == StackShape::kUnreachable ||
            canonical(first_instruction(code)[i]) == Op::kPUSH_EXC_INFO) {
          continue;
        }
        StackShape shape = shapes_[i];
        shape.cut_to(handler.depth);
        shape.depth += (handler.push_lasti ? 1 : 0) + 1;
        reach(handler.target, shape);
        break;
      }
    }
  } while (!pending_.empty());
}

void StackMap::reach(int offset, StackShape shape) {
  if (shapes_[offset].depth != StackShape::kUnreachable) {
    return;
  }
  shapes_[offset] = std::move(shape);
  pending_.push_back(offset);
}

void StackMap::step(PyCodeObject* code, int offset) {
  const CodeUnit* first = first_instruction(code);
  StackShape shape = shapes_[offset];
  int at = offset;
  int oparg = oparg_of(first[at]);
  Op op = canonical(first[at]);
  while (op == Op::kEXTENDED_ARG) {
    ++at;
    shapes_[at].depth = shape.depth;
    shapes_[at].saved_exceptions = shape.saved_exceptions;
    oparg = oparg << 8 | oparg_of(first[at]);
    op = canonical(first[at]);
  }
  const OpRow& row = op_row(op);
  int after = at + 1 + kCachesOf[kDeoptOf[raw_opcode(first[at])]];
  for (int i = at + 1; i < after; ++i) {
    shapes_[i] = shape;  // a frame may stand in the caches of the call that it is in
  }
  if (row.jump != Jump::None) {
    int target = row.jump == Jump::Forward ? after + oparg : after - oparg;
    StackShape jumped = shape;
    jumped.cut_to(shape.depth + stack_effect(op, oparg, true));
    reach(target, std::move(jumped));
  }
  if (row.next == Next::Falls) {
    StackShape falls = shape;
    falls.cut_to(shape.depth + stack_effect(op, oparg, false));
    if (op == Op::kPUSH_EXC_INFO) {
      // [.., exception] becomes [.., saved, exception]
      uint16_t level = 0;
      for (const StackShape::Saved& saved : shape.saved_exceptions) {
        level = std::max<uint16_t>(level, saved.level + 1);
      }
      falls.saved_exceptions.push_back({static_cast<uint16_t>(shape.depth - 1), level});
    } else if (op == Op::kSWAP) {
      falls.swap_slots(shape.depth - 1, shape.depth - oparg);
    } else if (op == Op::kCOPY) {
      falls.copy_slot(shape.depth - oparg, shape.depth);
    }
    reach(after, std::move(falls));
  }
}

void StackShape::cut_to(int new_depth) {
  depth = new_depth;
  std::erase_if(saved_exceptions, [&](const Saved& saved) { return saved.slot >= new_depth; });
}

void StackShape::swap_slots(int a, int b) {
  for (Saved& saved : saved_exceptions) {
    if (saved.slot == a) {
      saved.slot = static_cast<uint16_t>(b);
    } else if (saved.slot == b) {
      saved.slot = static_cast<uint16_t>(a);
    }
  }
}

void StackShape::copy_slot(int from, int to) {
  for (size_t i = 0; i < saved_exceptions.size(); ++i) {
    if (saved_exceptions[i].slot == from) {
      saved_exceptions.push_back({static_cast<uint16_t>(to), saved_exceptions[i].level});
      return;
    }
  }
}

bool CodeAttachment::set(PyCodeObject* code, void* value) const {
  auto* extra = static_cast<Extra*>(code->co_extra);
  if (extra == nullptr || extra->size <= index_) {
    // _PyCode_SetExtra() would make room for everybody's values, and when the code object dies everybody's free function
    // would be called, with null: also one that was a Python callback and is gone by then. We make room for ours.
    Py_ssize_t old_size = extra != nullptr ? extra->size : 0;
    size_t bytes = sizeof(Extra) + static_cast<size_t>(index_) * sizeof(void*);
    extra = static_cast<Extra*>(PyMem_Realloc(extra, bytes));
    if (extra == nullptr) {
      return false;
    }
    std::fill(extra->values + old_size, extra->values + index_ + 1, nullptr);
    extra->size = index_ + 1;
    code->co_extra = extra;
  }
  extra->values[index_] = value;
  return true;
}

bool CodeAttachment::request(freefunc free) {
  index_ = _PyEval_RequestCodeExtraIndex(free);
  if (index_ < 0) {
    index_ = PY_SSIZE_T_MAX;
    PyErr_SetString(PyExc_RuntimeError, "alternator: CPython has no slot left for data attached to code objects");
    return false;
  }
  return true;
}

}  // namespace alternator::py
