#include "smelt/law/diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "smelt/law/fit.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Diagnostics, ExactPointsLeaveNoResidual) {
  const auto points = testing::grid(testing::paper_smelt(), 3, {0.85, 0.95}, 4);
  const Diagnostics d = diagnose(testing::paper_smelt(), points);
  ASSERT_EQ(d.residuals_by_ratio.size(), 3u);
  ASSERT_EQ(d.residuals_by_sparsity.size(), 2u);
  std::size_t rows = 0;
  for (const ResidualGroup& group : d.residuals_by_ratio) {
    EXPECT_LT(group.rms, 1e-12);
    rows += group.points;
  }
  EXPECT_EQ(rows, points.size());
  EXPECT_EQ(d.residuals_by_sparsity[0].points, 12u);
  EXPECT_NEAR(d.residuals_by_sparsity[0].range.min, 0.85, 1e-12);
}

TEST(Diagnostics, LeverageSumsToTheRankAndSeesALonelyRow) {
  // By hand: one row far from the others in S alone decides what b is.
  auto points = testing::grid(testing::paper_smelt(), 4, {0.85}, 4);
  Point lonely = points.front();
  lonely.sparsity = 0.99;
  lonely.where = "e.csv:99";
  lonely.loss = evaluate(testing::paper_smelt(), lonely.inputs());
  points.push_back(lonely);
  const Diagnostics d = diagnose(testing::paper_smelt(), points);
  EXPECT_EQ(d.leverage.front().where, "e.csv:99");
  EXPECT_NEAR(d.leverage.front().value, 1, 1e-6);
  EXPECT_THAT(d.words, Contains(HasSubstr("e.csv:99")));
  EXPECT_EQ(d.leverage.size(), 3u);
}

TEST(Diagnostics, AGroupThatTheLawMissesIsNamed) {
  auto points = testing::grid(testing::paper_smelt(), 4, {0.85, 0.95}, 6, 0.001);
  for (Point& point : points) {
    if (point.sparsity > 0.9) point.loss *= 1.01;
  }
  const Diagnostics d = diagnose(testing::paper_smelt(), points);
  EXPECT_NEAR(d.residuals_by_sparsity[1].mean, -std::log(1.01), 1e-3);
  EXPECT_THAT(d.words, Contains(HasSubstr("understates the loss")));
}

// The sandwich against the scatter of fits to many sets with known noise.
TEST(Sandwich, IsTheScatterOfTheEstimates) {
  FitOptions least;
  least.delta = 1e9;
  least.starts = 2;
  const Law truth{
      &find_form("smelt-no-sparsity"), {1.45, 1.4e3, 2.0e6, 0.37, 0.66}, std::nullopt, {}};
  std::vector<double> sum(5), squares(5), told(5);
  constexpr int kSets = 120;
  for (int set = 0; set < kSets; ++set) {
    const auto points = testing::grid(truth, 5, {0.9}, 6, 0.002, 100 + set, 2);
    const FitResult result = fit(points, *truth.form, least);
    ASSERT_TRUE(result.identifiable);
    ASSERT_EQ(result.standard_error_kind, "sandwich by point");
    for (std::size_t j = 0; j < 5; ++j) {
      // Amplitudes spread over decades: on a log scale.
      const bool amplitude = j == 1 || j == 2;
      const double value = result.law.coefficients[j];
      const double x = amplitude ? std::log(value) : value;
      sum[j] += x / kSets;
      squares[j] += x * x / kSets;
      told[j] += result.standard_errors[j] / (amplitude ? value : 1) / kSets;
    }
  }
  for (std::size_t j = 0; j < 5; ++j) {
    const double scatter = std::sqrt(squares[j] - sum[j] * sum[j]);
    EXPECT_NEAR(told[j] / scatter, 1, 0.25) << truth.form->coefficients[j];
  }
}

TEST(Sandwich, HeldCoefficientsHaveNone) {
  const auto points = testing::grid(testing::paper_smelt(), 4, {0.85, 0.95}, 4, 0.002);
  FitOptions options;
  options.fix = {"E=1.4493"};
  const FitResult result = fit(points, find_form("smelt"), options);
  ASSERT_FALSE(result.standard_errors.empty());
  EXPECT_EQ(result.standard_errors[0], 0);
  EXPECT_GT(result.standard_errors[3], 0);
}

}  // namespace
}  // namespace smelt::law
