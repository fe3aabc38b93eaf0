#include "smelt/arch/loop_schedule.h"

#include <gtest/gtest.h>

#include <string>

namespace smelt::arch {
namespace {

ModelConfig with_loop(std::int64_t layers, Loop loop) {
  ModelConfig config;
  config.num_hidden_layers = layers;
  config.loop = loop;
  return config;
}

std::string order(const LoopSchedule& schedule) {
  std::string text;
  for (const ExecutedLayer& e : schedule) text += std::to_string(e.layer + 1) + " ";
  return text;
}

// Paper section 2: "L=10 → 3–7, L=12 → 4–9, L=20 → 6–15, L=30 → 8–22".
TEST(MiddleLoop, IsThePapersSpan) {
  const std::int64_t expected[][3] = {{10, 3, 7}, {12, 4, 9}, {20, 6, 15}, {30, 8, 22}};
  for (const auto& [layers, first, last] : expected) {
    const Loop loop = middle_loop(layers, layers / 2, 2);
    EXPECT_EQ(loop.first, first) << layers;
    EXPECT_EQ(loop.last, last) << layers;
    EXPECT_EQ(loop.residual_scale, 0.5);
  }
}

TEST(MiddleLoop, RefusesASpanThatDoesNotFit) {
  EXPECT_THROW(middle_loop(4, 5, 2), Error);
  EXPECT_THROW(middle_loop(4, 0, 2), Error);
  EXPECT_THROW(middle_loop(4, 2, 0), Error);
}

TEST(Schedule, RunsTheSpanAsABlock) {
  EXPECT_EQ(order(make_schedule(with_loop(4, {2, 3, 2, 0.5}))), "1 2 3 2 3 4 ");
  EXPECT_EQ(order(make_schedule(with_loop(3, {1, 2, 3, 1.0 / 3}))), "1 2 1 2 1 2 3 ");
  EXPECT_EQ(order(make_schedule(with_loop(3, {2, 2, 2, 1.0}))), "1 2 2 3 ");
}

TEST(Schedule, ScalesOnlyTheSpanOnEveryVisit) {
  const LoopSchedule schedule = make_schedule(with_loop(4, {2, 3, 2, 0.5}));
  const double scales[] = {1, 0.5, 0.5, 0.5, 0.5, 1};
  const std::int64_t visits[] = {1, 1, 1, 2, 2, 1};
  ASSERT_EQ(schedule.size(), 6u);
  for (std::size_t e = 0; e < 6; ++e) {
    EXPECT_EQ(schedule[e].residual_scale, scales[e]) << e;
    EXPECT_EQ(schedule[e].visit, visits[e]) << e;
  }
}

TEST(Schedule, LengthIsEffectiveDepth) {
  EXPECT_EQ(make_schedule(with_loop(12, middle_loop(12, 6, 3))).size(), 24u);
  EXPECT_EQ(with_loop(12, middle_loop(12, 6, 3)).executed_layers(), 24);
}

}  // namespace
}  // namespace smelt::arch
