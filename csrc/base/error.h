// The three error channels. They never mix.
//
//   1. A user's exception      a null Ref / nullptr / -1 with CPython's error indicator set.
//   2. "Not possible here"     an Abort: a row of abort.def and where it happened. Not an exception of the program.
//   3. A bug of our own        ALTERNATOR_CHECK: says what was expected. In a checked build it aborts the process with
//                              a message; in a release build ALTERNATOR_ENSURE tells its caller, who falls back.
//                              Where there is nothing to fall back to (the program's objects cannot be put back as they
//                              were), die() ends the process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ref.h"

namespace alternator {

enum class AbortReason {
#define ABORT(name) name,
#include "base/abort.def"
#undef ABORT
};

const char* abort_name(AbortReason reason);
std::optional<AbortReason> find_abort(std::string_view name);

// Frames, from the outermost: code object and offset of the instruction in it, in bytes.
using Trail = std::vector<std::pair<Ref<>, int>>;

struct Abort {
  AbortReason reason;
  std::string where;                     // the user's place: file:line in function
  std::string detail;                    // what exactly, in the user's words; may be empty
  std::shared_ptr<const Trail> trail{};  // all frames of the function; null if it is not about any

  // One line: what and where.
  std::string describe() const;
};

// Ends the process with a message, in every build: nothing that could be done instead would be right.
[[noreturn]] void die(const std::string& message);

// Reports a broken invariant. Aborts the process in a checked build.
void report_broken_invariant(const char* expression, const char* file, int line, const char* message);

}  // namespace alternator

#if defined(ALTERNATOR_CHECKS)
#define ALTERNATOR_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::alternator::report_broken_invariant(#condition, __FILE__, __LINE__, message))
#else
// A release build pays for no check on hot paths; cold paths use ALTERNATOR_ENSURE.
#define ALTERNATOR_CHECK(condition, message) (static_cast<void>(0))
#endif

// Checked in every build; the value tells whether it held.
#define ALTERNATOR_ENSURE(condition, message) \
  ((condition) ? true : (::alternator::report_broken_invariant(#condition, __FILE__, __LINE__, message), false))
