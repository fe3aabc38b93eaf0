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

}  // namespace

double learning_rate(const TrainOptions& options, std::int64_t step) {
  const std::int64_t fork = options.steps - options.decay_steps;
  if (options.decay_steps == 0 || step <= fork) return stable_rate(options, step);
  // 0 on the first step of the tail, 1 on its last.
  const double way = static_cast<double>(step - fork - 1) /
                     static_cast<double>(std::max<std::int64_t>(options.decay_steps - 1, 1));
  const double left =
      options.decay == DecayShape::kCosine ? 0.5 * (1 + std::cos(std::numbers::pi * way)) : 1 - way;
  // Written so that the first rate is the stable one and the last the floor, exactly.
  return stable_rate(options, fork) * (left + options.min_lr_ratio * (1 - left));
}

}  // namespace smelt::train
