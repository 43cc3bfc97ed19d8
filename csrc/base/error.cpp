#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace alternator {
namespace {

constexpr const char* kNames[] = {
#define ABORT(name) #name,
#include "base/abort.def"
#undef ABORT
};

}  // namespace

const char* abort_name(AbortReason reason) { return kNames[static_cast<int>(reason)]; }

std::optional<AbortReason> find_abort(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) {
      return static_cast<AbortReason>(i);
    }
  }
  return std::nullopt;
}

std::string Abort::describe() const {
  return std::string(abort_name(reason)) + (detail.empty() ? "" : ": " + detail) + " (at " + where + ")";
}

void die(const std::string& message) { Py_FatalError(("alternator: " + message).c_str()); }

void report_broken_invariant(const char* expression, const char* file, int line, const char* message) {
  std::fprintf(stderr, "alternator: broken invariant at %s:%d: %s (%s)\n", file, line, message, expression);
#if defined(ALTERNATOR_CHECKS)
  std::abort();
#endif
}

}  // namespace alternator
