// Learning rates step by step, against values worked out by hand.
#include "smelt/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace smelt::train {
namespace {

TrainOptions tail(DecayShape shape) {
  TrainOptions options;
  options.steps = 25;
  options.lr = 0.01;
  options.warmup_steps = 4;
  options.decay_steps = 5;
  options.decay = shape;
  options.min_lr_ratio = 0.2;
  return options;
}

TEST(Schedule, WarmupIsLinearAndReachesTheRate) {
  const TrainOptions options = tail(DecayShape::kLinear);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.0025);
  EXPECT_DOUBLE_EQ(learning_rate(options, 3), 0.0075);
  for (const std::int64_t step : {4, 5, 19, 20}) EXPECT_EQ(learning_rate(options, step), 0.01);
}

TEST(Schedule, TailsBeginAtTheRateAndEndAtTheFloor) {
  // Steps 21 … 25 are a quarter of the tail apart.
  const double linear[] = {0.01, 0.008, 0.006, 0.004, 0.002};
  const double root_half = std::sqrt(0.5);
  const double cosine[] = {0.01, 0.002 + 0.004 * (1 + root_half), 0.006,
                           0.002 + 0.004 * (1 - root_half), 0.002};
  const double one_minus_sqrt[] = {0.01, 0.002 + 0.008 * 0.5, 0.002 + 0.008 * (1 - root_half),
                                   0.002 + 0.008 * (1 - std::sqrt(0.75)), 0.002};
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(learning_rate(tail(DecayShape::kLinear), 21 + i), linear[i], 1e-17);
    EXPECT_NEAR(learning_rate(tail(DecayShape::kCosine), 21 + i), cosine[i], 1e-17);
    EXPECT_NEAR(learning_rate(tail(DecayShape::kSqrt), 21 + i), one_minus_sqrt[i], 1e-17);
  }
  for (const DecayShape shape : {DecayShape::kLinear, DecayShape::kCosine, DecayShape::kSqrt}) {
    EXPECT_EQ(learning_rate(tail(shape), 21), 0.01);
    EXPECT_EQ(learning_rate(tail(shape), 25), 0.2 * 0.01);
  }
}

TEST(Schedule, CosineFallsFromTheWarmupsEndToTheLastStep) {
  TrainOptions options;
  options.schedule = Schedule::kCosine;
  options.steps = 104;
  options.lr = 0.01;
  options.warmup_steps = 4;
  options.min_lr_ratio = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(options, 2), 0.005);
  EXPECT_EQ(learning_rate(options, 4), 0.01);
  EXPECT_NEAR(learning_rate(options, 54), 0.0055, 1e-17);
  EXPECT_NEAR(learning_rate(options, 29), 0.001 + 0.0045 * (1 + std::sqrt(0.5)), 1e-17);
  EXPECT_EQ(learning_rate(options, 104), 0.1 * 0.01);
}

TEST(Schedule, ConstantStaysAndADecayOfOneStepKeepsTheRate) {
  TrainOptions options = tail(DecayShape::kCosine);
  options.schedule = Schedule::kConstant;
  options.decay_steps = 0;
  EXPECT_EQ(learning_rate(options, 25), 0.01);
  options.schedule = Schedule::kWsd;
  options.decay_steps = 1;
  EXPECT_EQ(learning_rate(options, 25), 0.01);
}

}  // namespace
}  // namespace smelt::train
