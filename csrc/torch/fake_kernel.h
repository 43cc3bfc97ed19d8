// The kernel that runs for every operator on a fake: it finds the results' metadata and makes fakes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torch/fake_plan.h"

namespace alternator::tensor {

PlanCache& plan_cache();

// Whoever watches Python code (the evaluation hook, the recorder) must not see what torch's Python kernels do for us:
// `leave` runs before and `resume` after any code that may run them.
struct PythonWatch {
  void (*leave)() = nullptr;
  void (*resume)() noexcept = nullptr;
};
void set_python_watch(PythonWatch watch);

// A debug option: every plan that C++ kernels make is compared with FakeTensorMode's; differences are collected.
void set_comparison(bool on);
std::vector<std::string> take_differences();

// How an operator ("aten::add.Tensor") gets its results: the name of its Route. And how many plans FakeTensorMode made.
std::string name_route(const std::string& operator_name);
uint64_t count_torch_plans();

}  // namespace alternator::tensor
