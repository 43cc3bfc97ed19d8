#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace alternator {
namespace {

struct Row {
  const char* name;
  const char* what;
  const char* hint;
};

constexpr Row kRows[] = {
#define ABORT(name, what, hint) {#name, what, hint},
#include "base/abort.def"
#undef ABORT
};

}  // namespace

const char* abort_name(AbortReason reason) { return kRows[static_cast<int>(reason)].name; }
const char* abort_what(AbortReason reason) { return kRows[static_cast<int>(reason)].what; }
const char* abort_hint(AbortReason reason) { return kRows[static_cast<int>(reason)].hint; }

std::string Abort::describe() const {
  std::string text = std::string(abort_name(reason)) + ": " + abort_what(reason);
  if (!detail.empty()) {
    text += ": " + detail;
  }
  return text + " (at " + where + "; " + abort_hint(reason) + ")";
}

void report_broken_invariant(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "alternator: broken invariant at %s:%d: %s (%s)\n", file, line, message, expression);
#if defined(ALTERNATOR_CHECKS)
  std::abort();
#endif
}

}  // namespace alternator
