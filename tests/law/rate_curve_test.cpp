// The minimum over learning rates: against a parabola known in full, and against NumPy and SciPy.
#include "smelt/law/rate_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "smelt/core/error.h"

namespace smelt::law {
namespace {

using ::testing::HasSubstr;

TEST(RateCurve, FindsTheMinimumOfAnExactParabola) {
  // loss = 3 + 0.2 (ln lr - ln 0.0025)², seeds a constant apart: the interval closes on it.
  std::vector<RateLoss> tried;
  for (const double lr : {0.001, 0.002, 0.004}) {
    for (const std::int64_t seed : {1, 2})
      tried.push_back({lr, seed, 3 + 0.1 * seed + 0.2 * std::pow(std::log(lr / 0.0025), 2)});
  }
  const RateCurve curve = fit_rate_curve(tried);
  EXPECT_TRUE(curve.fitted);
  EXPECT_EQ(curve.lr, 0.0025);
  EXPECT_NEAR(curve.loss, 3.15, 1e-12);
  ASSERT_TRUE(curve.interval);
  EXPECT_NEAR(curve.interval->low, 0.0025, 1e-8);
  EXPECT_NEAR(curve.interval->high, 0.0025, 1e-8);
}

TEST(RateCurve, SpreadIsWhatNumpyAndScipyGive) {
  // numpy.linalg.lstsq with one column per seed; the interval's ends are the roots of
  // |b + 2 c u| / se - t(0.975, 2) by scipy.optimize.brentq.
  const RateCurve curve = fit_rate_curve({{1e-3, 1, 3.310},
                                          {2e-3, 1, 3.200},
                                          {4e-3, 1, 3.255},
                                          {1e-3, 2, 3.332},
                                          {2e-3, 2, 3.215},
                                          {4e-3, 2, 3.280}});
  EXPECT_EQ(curve.lr, 0.00223);
  EXPECT_NEAR(curve.loss, 3.205437860230548, 1e-12);
  EXPECT_NEAR(curve.spread.value(), 0.00362859017617962, 1e-12);
  ASSERT_TRUE(curve.interval);
  EXPECT_NEAR(curve.interval->low, 0.0021528318788199214, 1e-9);
  EXPECT_NEAR(curve.interval->high, 0.0023130539778441236, 1e-9);
}

TEST(RateCurve, NoiseLargerThanTheCurveLeavesNoInterval) {
  const RateCurve curve = fit_rate_curve({{1e-3, 1, 3.23},
                                          {2e-3, 1, 3.20},
                                          {4e-3, 1, 3.25},
                                          {1e-3, 2, 3.26},
                                          {2e-3, 2, 3.25},
                                          {4e-3, 2, 3.21}});
  EXPECT_TRUE(curve.fitted);
  EXPECT_FALSE(curve.interval);
  EXPECT_THAT(curve.words, HasSubstr("within noise"));
}

TEST(RateCurve, OneSeedOfThreeRatesHasNoSpread) {
  const RateCurve curve = fit_rate_curve({{1e-3, 1, 3.3}, {2e-3, 1, 3.2}, {4e-3, 1, 3.3}});
  EXPECT_EQ(curve.lr, 0.002);
  EXPECT_FALSE(curve.interval);
  EXPECT_FALSE(curve.spread);
  EXPECT_THAT(curve.words, HasSubstr("spread is not known"));
}

TEST(RateCurve, FarRatesDoNotMoveTheMinimum) {
  // A wall at large rates, as training has: only the neighbours of the best are fitted.
  const RateCurve near = fit_rate_curve({{1e-3, 1, 3.3}, {2e-3, 1, 3.2}, {4e-3, 1, 3.25}});
  const RateCurve far = fit_rate_curve({{2.5e-4, 1, 3.9},
                                        {1e-3, 1, 3.3},
                                        {2e-3, 1, 3.2},
                                        {4e-3, 1, 3.25},
                                        {1e-2, 1, 7},
                                        {2e-2, 1, std::nullopt}});
  EXPECT_EQ(far.lr, near.lr);
}

TEST(RateCurve, SaysWhereThereIsNoMinimum) {
  const RateCurve edge = fit_rate_curve({{1e-3, 1, 3.3}, {2e-3, 1, 3.2}, {4e-3, 1, 3.1}});
  EXPECT_TRUE(edge.at_edge);
  EXPECT_EQ(edge.lr, 4e-3);
  EXPECT_THAT(edge.words, HasSubstr("edge of what was tried"));

  // A rate that diverged with one seed of two is not taken, however good the other was.
  const RateCurve wall = fit_rate_curve({{1e-3, 1, 3.3},
                                         {2e-3, 1, 3.2},
                                         {4e-3, 1, 3.1},
                                         {1e-3, 2, 3.3},
                                         {2e-3, 2, 3.2},
                                         {4e-3, 2, std::nullopt}});
  EXPECT_EQ(wall.lr, 2e-3);
  EXPECT_FALSE(wall.fitted);
  EXPECT_FALSE(wall.at_edge);
  EXPECT_THAT(wall.words, HasSubstr("diverged"));

  const RateCurve none = fit_rate_curve({{1e-3, 1, std::nullopt}, {2e-3, 1, std::nullopt}});
  EXPECT_TRUE(none.diverged);
  EXPECT_TRUE(to_json(none).at("lr").is_null());
  EXPECT_THROW(fit_rate_curve({}), Error);
}

}  // namespace
}  // namespace smelt::law
