// Functions that are not captured themselves, while those that they call are: they called torch._dynamo.skip_frame(), or
// are marked with torch.compiler.disable(recursive=False). Their frames run in CPython's loop, and the frames of what they
// call are taken like that of the compiled function.
#pragma once

#include "interp/hook.h"
#include "region/region.h"

namespace alternator::region {

class Captured::Callees : public interp::FrameTaker {
 public:
  enum class Which : uint8_t { Skipped, All };

  // `Skipped`: only frames of functions that are not captured themselves, to look after what they call. `inside`: another
  // code that is not captured.
  Callees(Captured* owner, Which which, const void* inside = nullptr) : owner_(owner), which_(which), inside_(inside) {}

  bool wants(const py::Frame* frame) const override;
  PyObject* take(py::ThreadState* ts, py::Frame* frame) override;

  // Runs a frame in CPython's loop, and takes those of what it calls.
  static PyObject* run(Captured* owner, py::ThreadState* ts, py::Frame* frame, const void* inside = nullptr);

 private:
  bool is_skipped(const py::Frame* frame) const;

  Captured* owner_;
  Which which_;
  const void* inside_;
};

}  // namespace alternator::region
