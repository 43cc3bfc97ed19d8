// Where the time of captures goes. A phase stops the clock of the one around it, so that they add up.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

namespace alternator {

enum class Phase {
#define PHASE(name, text) name,
#include "base/phase.def"
#undef PHASE
};
constexpr const char* kPhaseNames[] = {
#define PHASE(name, text) text,
#include "base/phase.def"
#undef PHASE
};
constexpr size_t kPhases = sizeof kPhaseNames / sizeof *kPhaseNames;

class Phased {
 public:
  explicit Phased(Phase phase) : before_(current_) { turn(static_cast<int>(phase)); }
  ~Phased() { turn(before_); }
  Phased(const Phased&) = delete;
  Phased& operator=(const Phased&) = delete;

  // Whether this thread is in a phase: it captures something.
  static bool is_capturing() { return current_ != kNone; }
  // Nanoseconds of this thread since the last time.
  static std::array<int64_t, kPhases> take() { return std::exchange(spent_, {}); }

 private:
  static constexpr int kNone = -1;

  static void turn(int phase) {
    int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    if (current_ != kNone) {
      spent_[current_] += now - since_;
    }
    current_ = phase;
    since_ = now;
  }

  static inline thread_local int current_ = kNone;
  static inline thread_local int64_t since_ = 0;
  static inline thread_local std::array<int64_t, kPhases> spent_{};

  int before_;
};

}  // namespace alternator
