// Runs frames for real from a break on: the instruction that could not be captured, and then up to the next point where a
// region can start.
#pragma once

#include <optional>

#include "interp/observer.h"
#include "interp/snapshot.h"

namespace alternator::region {

class Stepper : public interp::Observer {
 public:
  // `dull`: nothing worth capturing is expected; on up to the next instruction that has to do with a tensor.
  // `taker`: for the frames of the calls that run for real.
  Stepper(bool dull, interp::FrameTaker* taker) : dull_(dull), taker_(taker) {}

  // Puts the frames back and runs them. The result of the outermost function, or null with an exception set, unless
  // stopped() holds the frames at the next point.
  Ref<> run(interp::StackState state);
  std::optional<interp::StackState>& stopped() { return stopped_; }

  // Making the frames may collect garbage, and run the program's finalisers, before they begin.
  void enter(py::Frame* entry) override { ++(foreign_ > 0 || (depth_ == 0 && !is_ours(entry)) ? foreign_ : depth_); }
  void leave() override {
    if (foreign_ > 0) {
      --foreign_;
    } else if (--depth_ == 0) {
      over_ = true;  // finalisers may follow
    }
  }
  interp::Verdict before_instruction(const interp::Position& position) override;
  interp::FrameTaker* taker_of_opaque() override { return taker_; }

 private:
  interp::Verdict decide(const interp::Position& position);
  bool is_ours(const py::Frame* entry) const { return !over_ && entry->f_code == code_; }

  bool dull_;
  interp::FrameTaker* taker_;
  const PyCodeObject* code_ = nullptr;  // of the outermost frame
  bool begun_ = false;
  bool over_ = false;
  int depth_ = 0;
  int foreign_ = 0;  // activations that have nothing to do with the frames
  std::optional<interp::StackState> stopped_;
};

}  // namespace alternator::region
