// A call that is about to be made: where its callable and arguments are on the stack.
//
//   CALL              [method, self, arguments..] or [NULL, callable, arguments..]; the values of keywords are the last ones
//   CALL_FUNCTION_EX  [NULL, callable, args] or [NULL, callable, args, kwargs]
#pragma once

#include <optional>

#include "py/code.h"

namespace alternator::py {

struct CallSite {
  // Places on the stack: what is put there takes part in the call instead.
  PyObject** callable = nullptr;
  PyObject** arguments = nullptr;  // of CALL: `count` of them, self in front if there is one, then values of keywords
  Py_ssize_t count = 0;
  PyObject* names = nullptr;      // of keywords; null: there are none. Borrowed
  PyObject** star = nullptr;      // of CALL_FUNCTION_EX: args
  PyObject** keywords = nullptr;  // .. and kwargs; null: there are none

  bool is_star_call() const { return star != nullptr; }
  Py_ssize_t positional() const { return count - (names != nullptr ? PyTuple_GET_SIZE(names) : 0); }

  // Empty if the instruction is no call.
  static std::optional<CallSite> at(const CodeUnit* instruction, PyCodeObject* code, PyObject** stack_top) {
    Step step(instruction);
    CallSite site;
    if (step.op == Op::kCALL) {
      PyObject** arguments = stack_top - step.oparg;
      int self = arguments[-2] != nullptr;
      site.callable = &arguments[-1 - self];
      site.arguments = arguments - self;
      site.count = step.oparg + self;
      site.names = step.names >= 0 ? PyTuple_GET_ITEM(code->co_consts, step.names) : nullptr;
      return site;
    }
    if (step.op == Op::kCALL_FUNCTION_EX) {
      bool has_keywords = step.oparg & 1;
      site.star = stack_top - (has_keywords ? 2 : 1);
      site.callable = site.star - 1;
      site.keywords = has_keywords ? stack_top - 1 : nullptr;
      return site;
    }
    return std::nullopt;
  }
};

}  // namespace alternator::py
