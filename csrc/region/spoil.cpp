#include "region/spoil.h"
#include "base/once.h"

#include <cstring>
#include <memory>
#include <utility>

namespace alternator::region {
namespace {

struct Spoiled {
  std::shared_ptr<Region> region;
  Part part;
  size_t index;
  // What was there: one of the two.
  std::unique_ptr<exits::Step> step;
  std::unique_ptr<exits::Effect> effect;
};

// Guarded by the GIL.
std::optional<Spoiled>& spoiled() {
  static constinit Once<std::optional<Spoiled>*> one;
  return *one.get([] { return new std::optional<Spoiled>; });
}

std::vector<exits::Step>& steps_of(Region& region, Part part) {
  return part == Part::Step ? region.exit.steps : region.exit.positions;
}

}  // namespace

std::optional<Part> find_part(const char* name) {
  for (auto [text, part] : {std::pair{"guard", Part::Guard},
                            {"step", Part::Step},
                            {"effect", Part::Effect},
                            {"position", Part::Position}}) {
    if (std::strcmp(text, name) == 0) {
      return part;
    }
  }
  return std::nullopt;
}

size_t count_parts(const Region& region, Part part) {
  switch (part) {
    case Part::Guard: return region.guards.guards.size();
    case Part::Step: return region.exit.steps.size();
    case Part::Effect: return region.exit.effects.size();
    case Part::Position: break;
  }
  return region.exit.positions.size();
}

void spoil(const std::shared_ptr<Region>& region, Part part, size_t index, PyObject* error) {
  mend();
  if (part == Part::Guard) {
    region->checker.fail_once(static_cast<Py_ssize_t>(index));
  } else if (part == Part::Effect) {
    exits::Effect& effect = region->exit.effects[index];
    exits::Effect raising(exits::EffectKind::Raise, effect.node);
    raising.key = share(error);
    auto original = std::make_unique<exits::Effect>(std::exchange(effect, std::move(raising)));
    spoiled() = Spoiled{region, part, index, nullptr, std::move(original)};
  } else {
    exits::Step raising(exits::StepKind::Raise);
    raising.object = share(error);
    auto original = std::make_unique<exits::Step>(std::exchange(steps_of(*region, part)[index], std::move(raising)));
    spoiled() = Spoiled{region, part, index, std::move(original), nullptr};
  }
}

void mend() {
  std::optional<Spoiled> one = std::exchange(spoiled(), std::nullopt);
  if (!one) {
    return;
  }
  if (one->part == Part::Effect) {
    std::swap(one->region->exit.effects[one->index], *one->effect);
  } else {
    std::swap(steps_of(*one->region, one->part)[one->index], *one->step);
  }
}

}  // namespace alternator::region
