#include "smelt/plan/power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace smelt::plan {
namespace {

law::Endpoints table(const std::string& rows) {
  return law::endpoints_from(
      parse_csv("arch,cell,seed,sparsity,flops_per_token,tokens,loss\n" + rows, "endpoints.csv"));
}

// Tables of the t distribution: t(0.975; 2) = 4.3027, t(0.8; 2) = 1.0607.
TEST(Power, DetectableGapAgreesWithTheTables) {
  const double gap = detectable_gap(0.03, 2, 3).value();
  EXPECT_NEAR(gap, (4.3027 + 1.0607) * 0.03 / std::sqrt(6.0), 1e-5);
  EXPECT_FALSE(detectable_gap(0.03, 2, 1));
  // Many seeds: (1.96 + 0.8416) sigma / sqrt(n).
  EXPECT_NEAR(detectable_gap(1, 1, 1000).value(), 2.8016 / std::sqrt(1000.0), 3e-4);
}

TEST(Power, GainAndGapAreInverse) {
  EXPECT_NEAR(gain_of_gap(0.2 * std::log(2.0), 0.2), 0.5, 1e-12);  // half the compute
  EXPECT_NEAR(gain_of_gap(gap_of_gain(0.18, 0.2), 0.2), 0.18, 1e-12);
}

TEST(Power, SeedsNeededAreTheFewest) {
  const std::size_t seeds = seeds_for_gap(0.02, 0.03, 2).value();
  EXPECT_LE(detectable_gap(0.03, 2, seeds).value(), 0.02);
  EXPECT_GT(detectable_gap(0.03, 2, seeds - 1).value(), 0.02);
  EXPECT_FALSE(seeds_for_gap(1e-6, 1, 1));
}

TEST(Noise, ComesFromTheReplicasOfPairs) {
  // Gaps 0.1, 0.2, 0.3 in one cell and 0.0, 0.2 in the other: pooled variance (0.02 + 0.02) / 3.
  const Noise noise =
      noise_of(table("baseline,a,1,0,1e6,1e5,3.1\nsmelt,a,1,0,1e6,1e5,3.0\n"
                     "baseline,a,2,0,1e6,1e5,3.2\nsmelt,a,2,0,1e6,1e5,3.0\n"
                     "baseline,a,3,0,1e6,1e5,3.3\nsmelt,a,3,0,1e6,1e5,3.0\n"
                     "baseline,b,1,0,2e6,1e5,3.0\nsmelt,b,1,0,2e6,1e5,3.0\n"
                     "baseline,b,2,0,2e6,1e5,3.2\nsmelt,b,2,0,2e6,1e5,3.0\n"));
  EXPECT_NEAR(noise.gap_deviation.value(), std::sqrt(0.04 / 3), 1e-9);
  EXPECT_EQ(noise.replicas, 3u);
  EXPECT_FALSE(noise.loss_per_efold);  // one horizon
  EXPECT_THAT(noise.worth_words, ::testing::HasSubstr("no cell has two horizons"));
}

TEST(Noise, SlopeIsThatOfTheReferenceWithinItsCells) {
  // Cell levels differ; within each, loss falls by 0.3 per e-fold.
  std::string rows;
  for (const double tokens : {1e5, 2e5, 8e5}) {
    for (const auto& [cell, level] : {std::pair("a", 5.0), std::pair("b", 4.0)}) {
      rows += std::string("baseline,") + cell + ",1,0,1e6," + number_text(tokens) + "," +
              number_text(level - 0.3 * std::log(tokens / 1e5)) + "\n";
    }
  }
  const Noise noise = noise_of(table(rows));
  EXPECT_NEAR(noise.loss_per_efold.value(), 0.3, 1e-9);
  EXPECT_FALSE(noise.gap_deviation);
  EXPECT_THAT(noise.deviation_words, ::testing::HasSubstr("no cell has two seeds"));
}

}  // namespace
}  // namespace smelt::plan
