#include "smelt/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace smelt::train {
namespace {

double stable_rate(const TrainOptions& options, std::int64_t step) {
  if (step >= options.warmup_steps) return options.lr;
  return options.lr * static_cast<double>(step) / static_cast<double>(options.warmup_steps);
}

double cosine(double way) {
  return 0.5 * (1 + std::cos(std::numbers::pi * way));
}

/// From 1 at the tail's first step to 0 at its last.
double left(DecayShape shape, double way) {
  switch (shape) {
    case DecayShape::kCosine:
      return cosine(way);
    case DecayShape::kLinear:
      return 1 - way;
    case DecayShape::kSqrt:
      break;
  }
  return 1 - std::sqrt(way);
}

/// Written so that left = 1 gives the rate and left = 0 the floor, exactly.
double between(double rate, double floor, double left) {
  return rate * (left + floor * (1 - left));
}

}  // namespace

double learning_rate(const TrainOptions& options, std::int64_t step) {
  if (options.schedule == Schedule::kConstant) return stable_rate(options, step);
  if (options.schedule == Schedule::kCosine) {
    if (step <= options.warmup_steps) return stable_rate(options, step);
    // full at the warmup's end, the floor at the last step
    const double way = static_cast<double>(step - options.warmup_steps) /
                       static_cast<double>(options.steps - options.warmup_steps);
    return between(options.lr, options.min_lr_ratio, cosine(way));
  }
  const std::int64_t fork = options.steps - options.decay_steps;
  if (options.decay_steps == 0 || step <= fork) return stable_rate(options, step);
  // 0 on the first step of the tail, 1 on its last.
  const double way = static_cast<double>(step - fork - 1) /
                     static_cast<double>(std::max<std::int64_t>(options.decay_steps - 1, 1));
  return between(stable_rate(options, fork), options.min_lr_ratio, left(options.decay, way));
}

}  // namespace smelt::train
