#include "smelt/law/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const Form& smelt_form() {
  return find_form("smelt");
}
const Form& plain_form() {
  return find_form("smelt-no-sparsity");
}

Comparison both(const std::vector<Point>& points) {
  return compare({{&plain_form(), points}, {&smelt_form(), points}}, {});
}

TEST(Compare, FindsTheFormThatMadeThePoints) {
  const Comparison sparse =
      both(testing::grid(testing::paper_smelt(), 4, {0.85, 0.95, 0.97}, 6, 0.002));
  EXPECT_EQ(sparse.scores.front().form->name, "smelt");
  EXPECT_GT(sparse.scores.front().weight.value(), 0.99);
  EXPECT_LT(sparse.scores.front().cross_validated.value(),
            sparse.scores.back().cross_validated.value());

  Law flat = testing::paper_smelt();
  flat.coefficients[4] = 0;  // b
  const Comparison plain = both(testing::grid(flat, 4, {0.85, 0.95, 0.97}, 6, 0.002));
  EXPECT_EQ(plain.scores.front().form->name, "smelt-no-sparsity");
}

TEST(Compare, CriteriaAreThoseOfLeastSquares) {
  const auto points = testing::grid(testing::paper_smelt(), 3, {0.85, 0.95}, 4, 0.003);
  FitOptions least;
  least.delta = 1e9;
  const FitResult fitted = fit(points, smelt_form(), least);
  double squares = 0;
  for (const double r : log_residuals(fitted.law, points)) squares += r * r;
  const double n = 24, k = 7;  // six coefficients and the variance
  const double aicc = n * std::log(squares / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1);
  const Comparison comparison = compare({{&smelt_form(), points}}, {});
  EXPECT_NEAR(comparison.scores.front().aicc.value(), aicc, 1e-9);
  EXPECT_NEAR(comparison.scores.front().bic.value(), n * std::log(squares / n) + k * std::log(n),
              1e-9);
  EXPECT_EQ(comparison.scores.front().weight.value(), 1);
}

TEST(Compare, HeldOutErrorIsOfRowsThatTheFitDidNotSee) {
  // Without noise the form that made the points predicts what it did not see; a wrong one does not.
  const auto points = testing::grid(testing::paper_smelt(), 4, {0.85, 0.95, 0.97}, 5);
  const Comparison comparison = both(points);
  const FormScore& right = comparison.scores.front();
  EXPECT_LT(right.cross_validated.value(), 1e-6);
  EXPECT_LT(right.rollout_tokens.value(), 1e-6);
  EXPECT_LT(right.rollout_size.value(), 1e-6);
  EXPECT_LT(right.rollout_compute.value(), 1e-6);
  EXPECT_GT(comparison.scores.back().cross_validated.value(), 1e-3);
}

// 198 public runs of at least 2e10 tokens cannot tell whether the two exponents differ.
TEST(Compare, NamesNearTies) {
  auto points =
      read_endpoints(SMELT_TEST_DATA "/law/gemstones_hot.csv",
                     parse_columns({"N=params_active_precise", "D=tokens", "loss=final_loss"}))
          .points("");
  std::erase_if(points, [](const Point& point) { return point.tokens < 2e10; });
  const Comparison comparison =
      compare({{&find_form("chinchilla"), points}, {&find_form("chinchilla-tied"), points}}, {});
  EXPECT_THAT(comparison.words, Contains(HasSubstr("nearly tied")));
  EXPECT_LT(std::abs(comparison.scores[1].aicc.value() - comparison.scores[0].aicc.value()), 2);
}

TEST(Compare, FewPointsHaveNoCriterion) {
  const auto points = testing::grid(testing::paper_smelt(), 2, {0.85}, 2);
  const Comparison comparison = compare({{&smelt_form(), points}}, {});
  EXPECT_FALSE(comparison.scores.front().aicc);
  EXPECT_THAT(comparison.words, Contains(HasSubstr("too few points")));
  EXPECT_TRUE(to_json(comparison)["forms"][0]["aicc"].is_null());
}

TEST(Compare, RefusesOtherRowsAndHeldCoefficients) {
  const auto points = testing::grid(testing::paper_smelt(), 3, {0.85, 0.95}, 4);
  auto fewer = points;
  fewer.pop_back();
  EXPECT_THROW(compare({{&smelt_form(), points}, {&plain_form(), fewer}}, {}), Error);
  EXPECT_THROW(compare({}, {}), Error);
  FitOptions held;
  held.fix = {"E=1.4"};
  EXPECT_THROW(compare({{&smelt_form(), points}}, held), Error);
}

}  // namespace
}  // namespace smelt::law
