// Frontier and CE Gain against the paper's tables and against direct minimisation; the paired
// bootstrap.
#include "smelt/law/gain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/expect_error.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using ::testing::HasSubstr;

Law published(const std::string& arm) {
  const Csv csv = read_csv(SMELT_TEST_DATA "/law/paper_fit.csv");
  Law law{&find_form("smelt"), {}, std::nullopt, {}};
  for (std::size_t row = 0; row < csv.rows.size(); ++row) {
    if (csv.rows[row][0] != arm) continue;
    for (const auto& name : law.form->coefficients) {
      law.coefficients.push_back(csv.number(row, csv.column(name)));
    }
  }
  return law;
}

// The printed digits of the coefficients leave some 0.8 point; what they give is within 0.15 of
// every entry.
TEST(Frontier, PublishedGains) {
  const Csv csv = read_csv(SMELT_TEST_DATA "/law/paper_ce_gain.csv");
  ASSERT_EQ(csv.rows.size(), 9u);
  for (std::size_t row = 0; row < csv.rows.size(); ++row) {
    const auto exact =
        ce_gain(published("baseline"), published("smelt"), csv.number(row, 0), csv.number(row, 1));
    EXPECT_NEAR(100 * exact.gain.value(), csv.number(row, 2), 0.15) << csv.where(row);
  }
}

TEST(Frontier, PublishedTokensPerParameter) {
  const Csv csv = read_csv(SMELT_TEST_DATA "/law/paper_tpp.csv");
  ASSERT_EQ(csv.rows.size(), 6u);
  for (std::size_t row = 0; row < csv.rows.size(); ++row) {
    const auto best = frontier(published(csv.rows[row][2]), csv.number(row, 0), csv.number(row, 1));
    EXPECT_EQ(std::round(best.tokens_per_parameter), csv.number(row, 3)) << csv.where(row);
  }
}

TEST(Frontier, PublishedGamma) {
  EXPECT_NEAR(frontier(published("baseline"), 1e21, 0.95).gamma, 0.237, 5e-4);
  EXPECT_NEAR(frontier(published("smelt"), 1e21, 0.95).gamma, 0.250, 5e-4);
}

TEST(Frontier, IsTheMinimumOverSizes) {
  const Law chinchilla{
      &find_form("chinchilla"), {1.69, 406.4, 410.7, 0.34, 0.28}, std::nullopt, {}};
  for (const Law& law : {published("smelt"), chinchilla}) {
    const double compute = 3e20, sparsity = 0.9;
    double best = std::numeric_limits<double>::infinity(), best_tokens = 0;
    const double per_size = law.form->size == SizeKind::kParameters ? 6 : 1;
    for (double log_tokens = 20; log_tokens < 32; log_tokens += 1e-4) {
      const double tokens = std::exp(log_tokens);
      const double loss = evaluate(law, {compute / tokens / per_size, sparsity, tokens});
      if (loss < best) best = loss, best_tokens = tokens;
    }
    const Frontier exact = frontier(law, compute, sparsity);
    EXPECT_NEAR(exact.loss, best, 1e-9);
    EXPECT_NEAR(exact.tokens / best_tokens, 1, 2e-4);
    EXPECT_NEAR(exact.flops_per_token * exact.tokens / compute, 1, 1e-12);
    EXPECT_NEAR(compute_for_loss(law, exact.loss, sparsity).value() / compute, 1, 1e-10);
  }
}

TEST(Frontier, UndefinedBelowTheFloorAndWithoutTerms) {
  Law low = published("smelt");
  low.coefficients[0] = 0.5;
  const auto exact = ce_gain(published("baseline"), low, 1e21, 0.95);
  EXPECT_FALSE(exact.gain.has_value());
  EXPECT_GT(exact.loss_gap, 0.5);
  GainOptions options;
  options.compute = {1e21};
  options.sparsity = {0.95};
  const GainResult result = gain(published("baseline"), low, options);
  EXPECT_EQ(result.points[0].words,
            "undefined: the target's loss lies below the reference's floor E");
  low.coefficients[1] = 0;
  EXPECT_FALSE(has_frontier(low, 0.95));
  smelt::testing::expect_error(
      [&] { frontier(low, 1e21, 0.95); },
      "[law] the law has no compute-optimal frontier: a term in size or tokens is absent");
}

struct Arms {
  std::vector<Point> reference =
      testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 3, 0.002, 11);
  std::vector<Point> target = testing::grid(testing::paper_smelt(), 4, {0.85, 0.95}, 3, 0.002, 12);
};

GainOptions some_options(std::int64_t draws) {
  GainOptions options;
  options.compute = {5e19, 1e22};
  options.sparsity = {0.85, 0.95};
  options.bootstrap.draws = draws;
  return options;
}

TEST(Gain, NoiseFreeArmsGiveTheExactGainWithNoWidth) {
  const auto reference = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95, 0.97}, 6);
  const auto target = testing::grid(testing::paper_smelt(), 4, {0.85, 0.95, 0.97}, 6);
  const GainResult result = gain(reference, target, find_form("smelt"), some_options(50));
  ASSERT_EQ(result.points.size(), 4u);
  EXPECT_EQ(result.points[0].extrapolated, false);
  EXPECT_EQ(result.points[1].extrapolated, true);
  for (const GainPoint& point : result.points) {
    const auto exact =
        ce_gain(testing::paper_baseline(), testing::paper_smelt(), point.compute, point.sparsity);
    EXPECT_NEAR(point.gain.value(), exact.gain.value(), 1e-8);
    EXPECT_NEAR(point.interval.value().min, exact.gain.value(), 1e-6);
    EXPECT_NEAR(point.interval.value().max, exact.gain.value(), 1e-6);
  }
}

TEST(Gain, SameIntervalsOnAnyThreadCountAndRowOrder) {
  Arms arms;
  GainOptions options = some_options(200);
  options.bootstrap.threads = 1;
  const GainResult one = gain(arms.reference, arms.target, find_form("smelt"), options);
  options.bootstrap.threads = 2;
  std::reverse(arms.reference.begin(), arms.reference.end());
  const GainResult two = gain(arms.reference, arms.target, find_form("smelt"), options);
  options.bootstrap.seed = 1;
  const GainResult other = gain(arms.reference, arms.target, find_form("smelt"), options);
  for (std::size_t i = 0; i < one.points.size(); ++i) {
    ASSERT_TRUE(one.points[i].interval && two.points[i].interval && other.points[i].interval);
    EXPECT_EQ(one.points[i].interval->min, two.points[i].interval->min);
    EXPECT_EQ(one.points[i].interval->max, two.points[i].interval->max);
    EXPECT_NE(one.points[i].interval->max, other.points[i].interval->max);
    EXPECT_LE(one.points[i].interval->min, one.points[i].interval->max);
  }
  EXPECT_EQ(one.draws, 200);
  EXPECT_GT(one.draws_used, 150);
}

TEST(Gain, PairedDrawsCancelWhatArmsShare) {
  // Both arms with the same noise: the gain of identical laws is exactly 0 in every paired draw.
  const auto points = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 3, 0.003, 5);
  const GainResult result = gain(points, points, find_form("smelt"), some_options(100));
  EXPECT_NEAR(result.points[0].interval.value().min, 0, 1e-9);
  EXPECT_NEAR(result.points[0].interval.value().max, 0, 1e-9);
}

TEST(Gain, TinyGridRefusesInWordsAtOnce) {
  const auto reference = testing::grid(testing::paper_baseline(), 2, {0.85}, 2, 0.01, 1, 2);
  const auto target = testing::grid(testing::paper_smelt(), 2, {0.85}, 2, 0.01, 2, 2);
  const GainResult result = gain(reference, target, find_form("smelt"), {});
  EXPECT_FALSE(result.identifiable);
  EXPECT_EQ(result.draws, 0);
  ASSERT_EQ(result.points.size(), 3u);  // three budgets inside the data at its one sparsity
  for (const GainPoint& point : result.points) {
    EXPECT_FALSE(point.gain.has_value());
    EXPECT_EQ(point.words, "undefined: the points do not determine a law");
  }
  ASSERT_FALSE(result.warnings.empty());
  EXPECT_THAT(result.warnings[0],
              HasSubstr("reference: the law is not identifiable: 5 coefficients"));
  EXPECT_LT(result.seconds, 1.0);
  const Json json = to_json(result);
  EXPECT_EQ(json["schema"], "smelt.gain/1");
  EXPECT_TRUE(json["points"][0]["gain"].is_null());
}

TEST(Gain, FewCellsGiveNoIntervalButWords) {
  // Three cells: most draws repeat one, and two sizes do not determine a law.
  const auto reference = testing::grid(testing::paper_baseline(), 3, {0.85}, 4, 0.001, 1);
  const auto target = testing::grid(testing::paper_smelt(), 3, {0.85}, 4, 0.001, 2);
  GainOptions options;
  options.bootstrap.draws = 200;
  const GainResult result = gain(reference, target, find_form("smelt"), options);
  if (!result.identifiable) GTEST_SKIP() << result.warnings[0];
  EXPECT_FALSE(result.points[0].interval.has_value());
  bool said = false;
  for (const auto& warning : result.warnings) {
    said = said || warning.find("too few for an interval") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

TEST(Gain, WrongOptionsAllAtOnce) {
  GainOptions options;
  options.compute = {-1};
  options.sparsity = {1};
  options.bootstrap.confidence = 2;
  smelt::testing::expect_error([&] { gain(published("smelt"), published("smelt"), options); },
                               "[law] compute: expected above 0, got -1\n"
                               "[law] sparsity: expected at least 0 and below 1, got 1\n"
                               "[law] confidence: expected 0.5 to 0.999, got 2");
}

TEST(BootstrapFit, StandardErrorsShrinkWithNoise) {
  BootstrapOptions bootstrap;
  bootstrap.draws = 100;
  double last = 1e9;
  for (const double noise : {0.01, 0.001}) {
    const auto points = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 4, noise, 3);
    const FitResult result = bootstrap_fit(points, find_form("smelt-no-sparsity"), {}, bootstrap);
    ASSERT_EQ(result.standard_errors.size(), 5u) << result.status_words;
    EXPECT_LT(result.standard_errors[4], last);
    last = result.standard_errors[4];
    EXPECT_LE(result.intervals[4].value().min, result.law.coefficient("c"));
    EXPECT_GE(result.intervals[4].value().max, result.law.coefficient("c"));
  }
}

TEST(BootstrapFit, EveryUnitAndBothIntervalsHoldTheEstimate) {
  const auto points =
      testing::grid(testing::paper_baseline(), 4, {0.85, 0.95, 0.97}, 6, 0.003, 5, 2);
  for (const auto& [unit, name] : EnumNames<Unit>::kNames) {
    for (const Interval interval : {Interval::kPercentile, Interval::kBca}) {
      BootstrapOptions bootstrap;
      bootstrap.draws = 120;
      bootstrap.unit = unit;
      bootstrap.interval = interval;
      const FitResult result = bootstrap_fit(points, find_form("smelt"), {}, bootstrap);
      ASSERT_EQ(result.intervals.size(), 6u) << name;
      EXPECT_EQ(result.standard_error_kind, "draws");
      EXPECT_EQ(result.leave_one_out.size(), 6u);
      const std::size_t a = 3;
      ASSERT_TRUE(result.intervals[a]) << name;
      EXPECT_TRUE(result.intervals[a]->contains(result.law.coefficients[a])) << name;
      // Leaving one unit out moves a coefficient by something like its error, not by decades.
      EXPECT_GT(std::abs(result.leave_one_out[a]), 0) << name;
      EXPECT_LT(std::abs(result.leave_one_out[a]), 10 * result.standard_errors[a]) << name;
    }
  }
}

TEST(BootstrapFit, BcaFollowsTheSkewness) {
  const auto points = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 5, 0.01, 9);
  BootstrapOptions bootstrap;
  bootstrap.draws = 400;
  const FitResult plain = bootstrap_fit(points, find_form("smelt"), {}, bootstrap);
  bootstrap.interval = Interval::kBca;
  const FitResult corrected = bootstrap_fit(points, find_form("smelt"), {}, bootstrap);
  EXPECT_EQ(plain.standard_errors, corrected.standard_errors);  // the same draws
  // A floor that is reached from below by long tails: the corrected interval is another one, and as
  // wide within a factor.
  const Range p = plain.intervals[0].value(), c = corrected.intervals[0].value();
  EXPECT_NE(p.min, c.min);
  EXPECT_GT((c.max - c.min) / (p.max - p.min), 0.3);
  EXPECT_LT((c.max - c.min) / (p.max - p.min), 3);
}

}  // namespace
}  // namespace smelt::law
