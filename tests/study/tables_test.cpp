#include "smelt/study/tables.h"

#include <gtest/gtest.h>

namespace smelt::study {
namespace {

using plan::Arm;

StudySetup setup() {
  StudySetup made;
  made.config.seeds = {1, 2};
  made.config.rows = 2;
  made.config.row_length = 10;
  made.config.horizons = {{10}, 5};
  plan::Cell cell;
  cell.name = "c";
  made.plan.cells = {cell};
  return made;
}

Endpoint endpoint(Arm arm, std::int64_t seed, double loss, double code, double web) {
  Endpoint e;
  e.arm = arm;
  e.seed = seed;
  e.horizon = 10;
  e.tokens = 300;
  e.eval = {{"overall", {{"loss", loss}}},
            {"domains",
             {{{"name", "Code"}, {"loss", code}, {"tokens", 5}},
              {{"name", "Web"}, {"loss", web}, {"tokens", 7}}}},
            {"lengths",
             {{{"name", "<=32"},
               {"up_to", 32},
               {"cut", false},
               {"documents", 3},
               {"tokens", 40},
               {"loss", loss}},
              {{"name", "<=64"},
               {"up_to", 64},
               {"cut", true},
               {"documents", 0},
               {"tokens", 0},
               {"loss", nullptr}}}}};
  return e;
}

std::vector<Endpoint> endpoints() {
  return {endpoint(Arm::kBaseline, 1, 3.0, 2.0, 4.0), endpoint(Arm::kSmelt, 1, 2.9, 2.1, 3.7),
          endpoint(Arm::kBaseline, 2, 3.2, 2.2, 4.2), endpoint(Arm::kSmelt, 2, 2.9, 2.1, 3.7)};
}

// Gaps by hand: seed 1: 0.1, seed 2: 0.3; mean 0.2, standard error 0.1; t(1, 95 %) = 12.7062.
TEST(Tables, GapIsBaselineMinusSmeltWithItsSpreadOverSeeds) {
  const Json gaps = gaps_json(endpoints(), setup());
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_NEAR(gaps[0].at("gap").get<double>(), 0.2, 1e-12);
  EXPECT_NEAR(gaps[0].at("standard_error").get<double>(), 0.1, 1e-12);
  EXPECT_NEAR(gaps[0].at("interval")[0].get<double>(), 0.2 - 12.7062 * 0.1, 1e-4);
  EXPECT_TRUE(gaps[0].at("within_noise").get<bool>());
  EXPECT_EQ(gaps[0].at("tokens").get<double>(), 300);
}

TEST(Tables, DomainsKeepTheirOwnGaps) {
  const Json domains = domains_json(endpoints(), setup());
  ASSERT_EQ(domains.size(), 2u);
  EXPECT_EQ(domains[0].at("domain"), "Code");
  EXPECT_NEAR(domains[0].at("baseline").get<double>(), 2.1, 1e-12);
  EXPECT_NEAR(domains[0].at("gap").get<double>(), 0.0, 1e-12);
  EXPECT_NEAR(domains[1].at("gap").get<double>(), 0.4, 1e-12);
}

TEST(Tables, ABucketWithoutTokensIsLeftOut) {
  const Json lengths = lengths_json(endpoints(), setup());
  ASSERT_EQ(lengths.size(), 1u);
  EXPECT_EQ(lengths[0].at("bucket"), "<=32");
}

TEST(Tables, PooledGapSaysWhatTheSeedsSay) {
  const law::LossGap gap = pooled_gap(endpoints(), setup(), 10);
  EXPECT_NEAR(gap.mean, 0.2, 1e-12);
  EXPECT_EQ(gap.per_seed.size(), 2u);
}

}  // namespace
}  // namespace smelt::study
