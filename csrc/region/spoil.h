// Faults in regions, for tests: a guard that says once that it does not hold, a step of an exit that raises an exception.
// Nothing is asked on warm calls: the region itself is changed.
#pragma once

#include "region/region.h"

namespace alternator::region {

// What can be spoiled of a region. The names are those that Python uses.
enum class Part : uint8_t { Guard, Step, Effect, Position };
std::optional<Part> find_part(const char* name);
size_t count_parts(const Region& region, Part part);

// A guard: the next check of the region says that it does not hold. Others: when the exit comes to it, `error` is raised
// instead, until mend(). One part is spoiled at a time.
void spoil(const std::shared_ptr<Region>& region, Part part, size_t index, PyObject* error);
void mend();

}  // namespace alternator::region
