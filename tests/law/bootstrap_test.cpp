// Intervals: profiles against the likelihood's own, draws kept and paired, coverage.
#include "smelt/law/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "smelt/law/gain.h"
#include "smelt/law/profile.h"
#include "tests/core/expect_error.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

Law power_law() {
  return {&find_form("power"), {1.8, 30, 0.12}, std::nullopt, {}};
}

/// n points over four decades of compute with Gaussian noise of ln loss.
std::vector<Point> power_points(std::size_t n, double noise, std::uint64_t stream) {
  const Philox random(stream, "tests/law/power");
  std::vector<Point> points;
  for (std::size_t i = 0; i < n; ++i) {
    Point point;
    point.size = 1e17 * std::pow(1e4, static_cast<double>(i) / static_cast<double>(n - 1));
    point.tokens = 1;
    point.loss = evaluate(power_law(), point.inputs()) * std::exp(noise * random.normal(i));
    point.cell = std::to_string(i);
    points.push_back(point);
  }
  return points;
}

// With all but the exponent held and squares, the interval is that of a straight line's slope as
// long as the law is nearly linear: estimate ± z · σ̂ / √Σ(dr/dγ)².
TEST(Profile, IsTheLikelihoodsOwnForANearlyLinearLaw) {
  const auto points = power_points(80, 1e-4, 3);
  FitOptions options;
  options.loss = RobustLoss::kSquared;
  options.fix = {"E=1.8", "A=30"};
  const FitResult result = fit(points, find_form("power"), options);
  const auto intervals = profile_intervals(points, find_form("power"), options, 0.95);
  EXPECT_FALSE(intervals[0]);
  EXPECT_FALSE(intervals[1]);
  const double gamma = result.law.coefficients[2];
  double slopes = 0, squares = 0;
  for (const Point& point : points) {
    std::vector<double> gradient(3);
    const double loss = evaluate(result.law, point.inputs(), gradient);
    slopes += std::pow(gradient[2] / loss, 2);
    squares += std::pow(std::log(loss / point.loss), 2);
  }
  const double reach = 1.959964 * std::sqrt(squares / 79 / slopes);
  EXPECT_NEAR(intervals[2].value().min, gamma - reach, 0.002 * reach);
  EXPECT_NEAR(intervals[2].value().max, gamma + reach, 0.002 * reach);
}

TEST(Profile, HoldsTheEstimateOfEveryCoefficientAndStopsAtBounds) {
  const auto points = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 5, 0.003, 4);
  BootstrapOptions bootstrap;
  bootstrap.interval = Interval::kProfile;
  bootstrap.draws = 0;
  const FitResult result = bootstrap_fit(points, find_form("smelt"), {}, bootstrap);
  EXPECT_EQ(result.interval_kind, "profile");
  for (std::size_t c = 0; c < 6; ++c) {
    ASSERT_TRUE(result.intervals[c]) << c;
    EXPECT_LT(result.intervals[c]->min, result.law.coefficients[c]) << c;
    EXPECT_GT(result.intervals[c]->max, result.law.coefficients[c]) << c;
  }
  // Noise that hides the floor: the interval reaches down to 0.
  const FitResult open =
      bootstrap_fit(power_points(12, 0.05, 2), find_form("power"), {}, bootstrap);
  ASSERT_TRUE(open.identifiable) << open.status_words;
  ASSERT_TRUE(open.intervals[0]);
  EXPECT_EQ(open.intervals[0]->min, 0);
}

TEST(Draws, KeptOnesGiveTheIntervalOfThePairedFit) {
  const auto a = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95, 0.97}, 5, 0.003, 1);
  const auto b = testing::grid(testing::paper_smelt(), 4, {0.85, 0.95, 0.97}, 5, 0.003, 2);
  GainOptions options;
  options.compute = {1e20};
  options.sparsity = {0.95};
  options.bootstrap.draws = 60;
  for (const Interval interval : {Interval::kPercentile, Interval::kBca}) {
    options.bootstrap.interval = interval;
    const GainResult paired = gain(a, b, find_form("smelt"), options);
    const FitResult first = bootstrap_fit(a, find_form("smelt"), {}, options.bootstrap);
    const FitResult second = bootstrap_fit(b, find_form("smelt"), {}, options.bootstrap);
    // Through JSON, as two files would.
    const Json json_a = parse_json(to_text(to_json(first, true)), "a");
    const Json json_b = parse_json(to_text(to_json(second, true)), "b");
    const Draws draws_a = draws_from_json(json_a.at("draws_kept"), "a"),
                draws_b = draws_from_json(json_b.at("draws_kept"), "b");
    const GainResult later =
        gain(law_from_json(json_a, "a"), law_from_json(json_b, "b"), options, &draws_a, &draws_b);
    ASSERT_TRUE(later.points[0].interval);
    EXPECT_NEAR(later.points[0].interval->min, paired.points[0].interval->min, 1e-12);
    EXPECT_NEAR(later.points[0].interval->max, paired.points[0].interval->max, 1e-12);
    EXPECT_TRUE(later.points[0].target_loss_interval);

    Draws other = draws_b;
    other.key.seed = 1;
    const GainResult unpaired = gain(first.law, second.law, options, &draws_a, &other);
    EXPECT_FALSE(unpaired.points[0].interval);
    EXPECT_THAT(unpaired.warnings, ::testing::Contains(::testing::HasSubstr("other units, seeds")));
    EXPECT_THAT(gain(first.law, second.law, options, &draws_a, nullptr).warnings,
                ::testing::Contains(::testing::HasSubstr("carries no draws")));
  }
  smelt::testing::expect_error(
      [] { draws_from_json({{"unit", "row"}}, "f.json"); },
      "[law] draws.unit: expected cell, run, point, size or compute (f.json)");
}

// The interval of the gain holds the gain; the way back is the same pair of laws seen from the
// other side.
TEST(Gain, OtherDirectionAndFrontiers) {
  GainOptions options;
  options.compute = {1e20, 1e21};
  options.sparsity = {0.95};
  const Law a = testing::paper_baseline(), b = testing::paper_smelt();
  const GainResult result = gain(a, b, options);
  for (const GainPoint& point : result.points) {
    // At the compute that the target needs for the reference's loss the gain is the reverse gain.
    const ExactGain there = ce_gain(a, b, point.target_compute.value(), point.sparsity);
    EXPECT_NEAR(there.gain.value(), point.reverse_gain.value(), 1e-9);
    EXPECT_NEAR(there.reference_compute.value(), point.compute, 1e-6 * point.compute);
    EXPECT_NEAR(*point.size_target * *point.tokens_target, point.compute, 1e-9 * point.compute);
    EXPECT_NEAR(*point.reference_loss - *point.target_loss, *point.loss_gap, 1e-12);
    EXPECT_FALSE(point.wall_clock_gain);
  }
  options.time_ratio = 1.25;
  const GainPoint timed = gain(a, b, options).points[0];
  EXPECT_NEAR(*timed.wall_clock_gain, 1 - 1.25 * (1 - *timed.gain), 1e-12);
}

// Losses on a subset with the exponents of the whole: a third of the reference's excess over the
// floor, the same for both arms, keeps the gain; a target that is worse there has another.
TEST(Subsets, KeepTheExponentsOfTheWhole) {
  const Law base = testing::paper_baseline(), smelt = testing::paper_smelt();
  const auto a = testing::grid(base, 4, {0.85, 0.95, 0.97}, 5),
             b = testing::grid(smelt, 4, {0.85, 0.95, 0.97}, 5);
  const auto scaled = [](const std::vector<Point>& points, const Law& law, double factor,
                         double floor) {
    std::vector<double> losses;
    for (const Point& p : points) losses.push_back(floor + factor * (p.loss - law.coefficients[0]));
    return losses;
  };
  GainOptions options;
  options.compute = {1e20};
  options.sparsity = {0.95};
  options.bootstrap.draws = 40;
  // Both arms over one floor, their excesses a third of the whole's.
  options.subsets = {{"third", scaled(a, base, 1 / 3.0, 0.9), scaled(b, smelt, 1 / 3.0, 0.9)},
                     {"worse", scaled(a, base, 1, 1.2), scaled(b, smelt, 1.02, 1.2)}};
  const GainResult result = gain(a, b, find_form("smelt"), options);
  ASSERT_EQ(result.subsets.size(), 2u);
  const auto by_hand = [&](double factor_a, double factor_b, double floor) {
    Law x = base, y = smelt;
    x.coefficients[0] = y.coefficients[0] = floor;
    for (const std::size_t k : {1, 2}) {
      x.coefficients[k] *= factor_a;
      y.coefficients[k] *= factor_b;
    }
    return ce_gain(x, y, 1e20, 0.95).gain.value();
  };
  EXPECT_NEAR(*result.subsets[0].points[0].gain, by_hand(1 / 3.0, 1 / 3.0, 0.9), 1e-6);
  EXPECT_NEAR(*result.subsets[1].points[0].gain, by_hand(1, 1.02, 1.2), 1e-6);
  ASSERT_TRUE(result.subsets[0].points[0].interval);
  EXPECT_NEAR(result.subsets[0].points[0].interval->min, *result.subsets[0].points[0].gain, 1e-4);
}

TEST(Subsets, QuartilesRankInEachPair) {
  std::vector<Point> a(2), b(2);
  for (int i = 0; i < 2; ++i) {
    a[i].cell = b[i].cell = std::to_string(i);
    a[i].tokens = b[i].tokens = 5;
  }
  std::swap(b[0], b[1]);  // rows of the arms need no common order
  // Reference losses of five sources in the two pairs; the target's are 10 lower.
  const double losses[5][2] = {{3, 1}, {1, 5}, {2, 4}, {5, 3}, {4, 2}};
  std::vector<Subset> sources;
  for (const auto& row : losses) {
    sources.push_back({"s", {row[0], row[1]}, {row[1] - 10, row[0] - 10}});
  }
  const auto parts = quartiles(sources, a, b);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].reference, (std::vector<double>{1.5, 1.5}));  // two of five in the first
  EXPECT_EQ(parts[1].reference, (std::vector<double>{3, 3}));
  EXPECT_EQ(parts[3].reference, (std::vector<double>{5, 5}));
  EXPECT_EQ(parts[0].target, (std::vector<double>{-8.5, -8.5}));
  EXPECT_THROW(quartiles({sources[0]}, a, b), Error);
}

// 200 sets of points with a known law: the share of 95 % intervals that hold the exponent is 95 %
// within Monte-Carlo error (two standard errors of a share: 3.1 points).
TEST(Coverage, NinetyFivePercentIntervalsHoldTheTruthThatOften) {
  constexpr int kSets = 200;
  int percentile = 0, bca = 0, profile = 0;
  for (int set = 0; set < kSets; ++set) {
    const auto points = power_points(60, 0.01, 100 + static_cast<std::uint64_t>(set));
    FitOptions options;
    options.delta = 0.02;  // most of the noise is inside: an efficient fit
    options.starts = 4;
    BootstrapOptions bootstrap;
    bootstrap.unit = Unit::kPoint;
    bootstrap.draws = 300;
    bootstrap.seed = static_cast<std::uint64_t>(set);
    const auto holds = [&](Interval interval) {
      bootstrap.interval = interval;
      const FitResult result = bootstrap_fit(points, find_form("power"), options, bootstrap);
      return result.identifiable && result.intervals[2] && result.intervals[2]->contains(0.12);
    };
    percentile += holds(Interval::kPercentile);
    bca += holds(Interval::kBca);
    profile += holds(Interval::kProfile);
  }
  RecordProperty("percentile", percentile);
  RecordProperty("bca", bca);
  RecordProperty("profile", profile);
  for (const int covered : {percentile, bca, profile}) {
    EXPECT_GE(covered, 0.95 * kSets - 6.2) << percentile << " " << bca << " " << profile;
    EXPECT_LE(covered, 0.95 * kSets + 6.2) << percentile << " " << bca << " " << profile;
  }
}

}  // namespace
}  // namespace smelt::law
