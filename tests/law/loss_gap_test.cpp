// Paired gaps worked by hand; Student t against its printed table.
#include "smelt/law/loss_gap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/expect_error.h"

namespace smelt::law {
namespace {

using ::testing::HasSubstr;

Point endpoint(const char* cell, double tokens, std::int64_t seed, double loss, double size = 1e8) {
  Point point;
  point.size = size, point.tokens = tokens, point.loss = loss, point.cell = cell, point.seed = seed;
  return point;
}

TEST(StudentT, PrintedTable) {
  EXPECT_NEAR(student_t(1, 0.95), 12.7062, 5e-5);
  EXPECT_NEAR(student_t(2, 0.95), 4.30265, 5e-6);
  EXPECT_NEAR(student_t(3, 0.95), 3.18245, 5e-6);
  EXPECT_NEAR(student_t(5, 0.95), 2.57058, 5e-6);
  EXPECT_NEAR(student_t(30, 0.95), 2.04227, 5e-6);
  EXPECT_NEAR(student_t(4, 0.99), 4.60409, 5e-6);
}

TEST(LossGap, ThreeSeedsByHand) {
  std::vector<Point> reference, target;
  const double gaps[3][2] = {{0.02, 0.04}, {0.03, 0.03}, {0.05, 0.07}};  // [seed][horizon]
  for (int seed = 0; seed < 3; ++seed) {
    for (int horizon = 0; horizon < 2; ++horizon) {
      reference.push_back(endpoint("a", 1e6 * (1 + horizon), seed, 3.0));
      target.push_back(
          endpoint("a", 1e6 * (1 + horizon), seed, 3.0 - gaps[seed][horizon], 1.002e8));
    }
  }
  const LossGap gap = loss_gap(reference, target);
  // Means by seed 0.03, 0.03, 0.06: mean 0.04, deviation sqrt(0.0006/2), error that over sqrt(3) =
  // 0.01.
  EXPECT_NEAR(gap.mean, 0.04, 1e-12);
  ASSERT_EQ(gap.per_seed.size(), 3u);
  EXPECT_NEAR(gap.per_seed[2].gap, 0.06, 1e-12);
  EXPECT_NEAR(gap.standard_error.value(), 0.01, 1e-12);
  EXPECT_NEAR(gap.interval.value().min, 0.04 - 4.30265 * 0.01, 1e-6);
  EXPECT_TRUE(gap.within_noise);
  EXPECT_NEAR(gap.worst_flops_mismatch, 0.002, 1e-12);
  EXPECT_THAT(gap.words, HasSubstr("0.0400 nats lower (mean of 3 seeds, standard error 0.0100"));
  EXPECT_THAT(gap.words, HasSubstr("within the noise between seeds"));
}

TEST(LossGap, TwoSeedsNeedAVeryClearGap) {
  std::vector<Point> reference = {endpoint("a", 1, 0, 3.0), endpoint("a", 1, 1, 3.0)};
  std::vector<Point> target = {endpoint("a", 1, 0, 2.95), endpoint("a", 1, 1, 2.93)};
  const LossGap gap = loss_gap(reference, target);
  EXPECT_NEAR(gap.mean, 0.06, 1e-12);
  EXPECT_NEAR(gap.standard_error.value(), 0.01, 1e-12);
  EXPECT_TRUE(gap.within_noise);  // 12.7 standard errors each way
  target[1].loss = 2.951;
  EXPECT_FALSE(loss_gap(reference, target).within_noise);
}

TEST(LossGap, OneSeedHasNoSpread) {
  const LossGap gap = loss_gap({endpoint("a", 1, 7, 3.0)}, {endpoint("a", 1, 7, 3.1)});
  EXPECT_NEAR(gap.mean, -0.1, 1e-12);
  EXPECT_FALSE(gap.standard_error.has_value());
  EXPECT_TRUE(gap.within_noise);
  EXPECT_EQ(
      gap.words,
      "the target's loss is 0.1000 nats higher, one seed: the spread between seeds is unknown");
  EXPECT_TRUE(to_json(gap)["interval"].is_null());
}

TEST(LossGap, SeedsAreComparedOverTheSameRuns) {
  // Seed 1 lacks the horizon with the large gap: a plain mean would blame the seed.
  const std::vector<Point> reference = {endpoint("a", 1, 0, 3), endpoint("a", 2, 0, 3),
                                        endpoint("a", 1, 1, 3)};
  const std::vector<Point> target = {endpoint("a", 1, 0, 2.9), endpoint("a", 2, 0, 2.5),
                                     endpoint("a", 1, 1, 2.8), endpoint("b", 1, 1, 2.8)};
  const LossGap gap = loss_gap(reference, target);
  EXPECT_NEAR(gap.mean, 0.15, 1e-12);
  ASSERT_EQ(gap.warnings.size(), 2u);
  EXPECT_EQ(gap.warnings[0], "1 endpoints have no partner in the other arm");
  EXPECT_EQ(gap.warnings[1],
            "1 of 2 cells and horizons have every seed; the others are left out of the mean");
}

TEST(LossGap, NothingPairsOrTwice) {
  smelt::testing::expect_error(
      [] { loss_gap({endpoint("a", 1, 0, 3)}, {endpoint("b", 1, 0, 3)}); },
      "[law] no pairs of endpoints: nothing has the same cell, tokens and seed");
  smelt::testing::expect_error(
      [] { loss_gap({endpoint("a", 1, 0, 3), endpoint("a", 1, 0, 3)}, {endpoint("a", 1, 0, 3)}); },
      "[law] reference: cell a, 1 tokens, seed 0 occurs twice");
}

}  // namespace
}  // namespace smelt::law
