// What guards know of tensors and of torch's global state.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ref.h"

namespace alternator::tensor {

// What a trace relied on: class, dispatch keys, dtype, device, sizes, strides, requires_grad, and where it is said the offset.
class Facts {
 public:
  virtual ~Facts() = default;
  virtual bool matches(PyObject* tensor) const = 0;
  // The addresses of words that decide matches() for an object of the same class: visit_tensor_words() in
  // torch/tensor_words.h. False if there are none.
  virtual bool visit_words(PyObject* tensor, const std::function<void(const void*)>& visit) const = 0;
  // What is different now, in words.
  virtual std::string difference(PyObject* tensor) const = 0;
  // What it is: "Tensor float32 [2, 3] cpu".
  virtual std::string describe() const = 0;
  // The dimensions that have another size now; none if that is not all, or if there are more or less of them.
  virtual std::vector<int> changed_sizes(PyObject* tensor) const = 0;
  // The offset into the storage is to stay as it is, too. Where sizes may be any that is left to conditions.
  virtual void rely_on_offset() = 0;
};
// `free`: dimensions that may have any size; then strides and offset may be any as well.
std::unique_ptr<Facts> facts_of(PyObject* tensor, const std::vector<int>& free = {});

// A number of a tensor's geometry. The tensor is strided, and has that dimension.
enum class Extent : uint8_t { Size, Stride, Offset };
int64_t extent_of(PyObject* tensor, Extent extent, int dimension);

// A tensor without dimensions, of type float64.
Ref<> make_scalar(double value);

// For each tensor the number of the first one that it shares memory with, its own if there is none.
std::vector<int> group_by_storage(const std::vector<PyObject*>& tensors);

// The gradient of a tensor as Python has it, borrowed from the tensor; null if there is none.
PyObject* grad_of(PyObject* tensor);

// How often a tensor was written to. It must not be one of inference mode.
uint32_t version_of(PyObject* tensor);

// How many operators ran on fakes in this thread so far that do not come with torch, and may do anything.
uint64_t count_foreign();
// .. and that draw random numbers.
uint64_t count_draws();
// The generator is set: a draw, for those who count.
void note_draw();

// The state of the generator that random numbers are drawn from.
class RandomState {
 public:
  // As it is now.
  RandomState();
  ~RandomState();
  RandomState(const RandomState&) = delete;
  RandomState& operator=(const RandomState&) = delete;

  void restore() const;
  // There is no other device whose operators would draw from another generator.
  static bool is_only();

 private:
  struct Fields;
  std::unique_ptr<Fields> fields_;
};

// Whether something of torch's is on in this thread that is to see every call: a function mode (a default device is none
// in this sense) or dispatch mode, the
// tracer of torch.jit, a transform of torch.func, hooks for the tensors that autograd saves (torch.utils.checkpoint counts
// them).
bool has_modes();

// Grad mode, inference mode, autocast, default dtype and device, deterministic algorithms, threads.
class GlobalState {
 public:
  GlobalState();
  ~GlobalState();
  GlobalState(GlobalState&&) noexcept;
  GlobalState& operator=(GlobalState&&) noexcept;

  // As it is now.
  static GlobalState capture();
  bool is_current() const;
  // What is different now, in words.
  std::string difference() const;
  // Puts it back as it was.
  void restore() const;

 private:
  struct Fields;
  std::unique_ptr<Fields> fields_;
  int autocast_nesting_ = 0;
};

}  // namespace alternator::tensor
