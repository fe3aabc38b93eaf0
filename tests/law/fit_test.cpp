// Planted coefficients, faults of rows and options, and designs that cannot tell coefficients
// apart.
#include "smelt/law/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/expect_error.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using smelt::testing::expect_error;
using ::testing::HasSubstr;

void expect_planted(const Law& planted, const FitResult& result) {
  EXPECT_TRUE(result.identifiable) << result.status_words;
  for (std::size_t j = 0; j < planted.coefficients.size(); ++j) {
    EXPECT_LT(std::abs(result.law.coefficients[j] / planted.coefficients[j] - 1), 1e-8)
        << planted.form->name << " " << planted.form->coefficients[j];
  }
}

/// One law per form, of realistic numbers.
std::vector<Law> planted_laws() {
  const auto law = [](const char* form, std::vector<double> coefficients) {
    return Law{&find_form(form), std::move(coefficients), std::nullopt, {}};
  };
  return {testing::paper_baseline(),
          law("smelt-no-sparsity", {1.7, 900, 3e5, 0.35, 0.5}),
          law("chinchilla", {1.69, 406.4, 410.7, 0.34, 0.28}),
          law("chinchilla-tied", {1.9, 500, 700, 0.31}),
          law("recurrence", {1.6, 300, 500, 0.33, 0.3, 0.46}),
          law("saturating-experts", {-0.082, -0.108, 0.009, 2.6, 1.3, 290}),
          law("coupled", {1.2, 8e7, 2e9, 0.3, 0.4}),
          law("power", {1.8, 60, 0.09})};
}

std::vector<Point> planted_points(const Law& law) {
  const Form& form = *law.form;
  std::vector<Point> points;
  for (int size = 0; size < 5; ++size) {
    for (int tokens = 0; tokens < (form.tokens ? 5 : 1); ++tokens) {
      for (int third = 0; third < (form.uses_sparsity() || form.visits || form.experts ? 4 : 1);
           ++third) {
        Point point;
        point.size = (form.size == SizeKind::kCompute ? 1e17 : 6e7) * std::pow(3.1, size);
        if (form.tokens) point.tokens = 1e9 * std::pow(2.7, tokens);
        if (form.uses_sparsity()) point.sparsity = 1 - std::pow(0.4, third);
        if (form.visits) {
          point.recurrent = (third % 2 ? 0.5 : 2) * point.size;
          point.visits = 1 + third;
        }
        if (form.experts) point.experts = std::pow(6.0, third);
        point.cell = std::to_string(size) + "/" + std::to_string(third);
        point.loss = evaluate(law, point.inputs());
        points.push_back(point);
      }
    }
  }
  return points;
}

TEST(Fit, RecoversPlantedCoefficientsOfEveryForm) {
  ASSERT_EQ(planted_laws().size(), all_forms().size());
  for (const Law& law : planted_laws()) {
    const FitResult result = fit(planted_points(law), *law.form);
    expect_planted(law, result);
    // Where experts saturate, X_start and X_max leave a long valley: not every start gets out.
    if (law.form->experts) continue;
    EXPECT_GE(result.starts_agreeing, 0.95 * static_cast<double>(result.starts_tried))
        << law.form->name;
  }
}

TEST(Fit, RobustToOneWildRow) {
  auto points = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95, 0.97}, 6);
  points[17].loss *= 1.5;
  const FitResult result = fit(points, find_form("smelt"));
  // One Huber term pulls with delta only: the floor moves in the fourth digit, least squares in the
  // first.
  EXPECT_NEAR(result.law.coefficient("E"), 1.4439, 2e-3);
  FitOptions squares;
  squares.delta = 10;
  EXPECT_GT(std::abs(fit(points, find_form("smelt"), squares).law.coefficient("E") - 1.4439), 2e-2);
}

TEST(Fit, WeightsCountRows) {
  const auto base = testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 4, 0.01);
  auto weighted = base, repeated = base;
  for (std::size_t i = 0; i < base.size(); i += 3) {
    weighted[i].weight = 2;
    repeated.push_back(base[i]);
  }
  const FitResult a = fit(weighted, find_form("smelt")), b = fit(repeated, find_form("smelt"));
  EXPECT_LT(std::abs(a.objective / b.objective - 1), 1e-12);
  for (std::size_t j = 0; j < 6; ++j) {
    EXPECT_LT(std::abs(a.law.coefficients[j] / b.law.coefficients[j] - 1), 1e-7);
  }
}

TEST(Fit, HoldsCoefficients) {
  FitOptions options;
  options.fix = {"E=1.6", "a=0.4"};
  const FitResult result = fit(testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 4),
                               find_form("smelt"), options);
  EXPECT_EQ(result.law.coefficient("E"), 1.6);
  EXPECT_EQ(result.law.coefficient("a"), 0.4);
  options.fix = {"E", "q=1", "A=3", "c=-1"};
  expect_error([&] { fit({}, find_form("smelt"), options); },
               "[law] fix: expected COEFFICIENT=NUMBER, got \"E\"\n"
               "[law] fix: form smelt has no coefficient \"q\"; there are E, A, K, a, b or c\n"
               "[law] fix: c = -1 is out of range");
  options.fix = {"E=1", "E=1"};
  expect_error([&] { fit({}, find_form("smelt"), options); }, "[law] fix: two values for E");
  options.fix = {"A=3"};
  expect_error([&] { fit({}, find_form("coupled"), options); },
               "[law] fix: A of form coupled is made of several unknowns and cannot be held");
}

// With an amplitude held at its planted value the rest is the planted rest; at another one the fit
// is worse, and the coefficient stays what it was held at whatever the units of the points are.
TEST(Fit, HoldsAmplitudes) {
  for (const Law& law : planted_laws()) {
    const auto points = planted_points(law);
    for (std::size_t c = 0; c < law.coefficients.size(); ++c) {
      if (!law.form->unknown_of(c)) continue;
      FitOptions options;
      options.fix = {law.form->coefficients[c] + "=" + number_text(law.coefficients[c])};
      expect_planted(law, fit(points, *law.form, options));
    }
  }
  FitOptions options;
  options.fix = {"A=500"};
  const Law chinchilla = planted_laws()[2];
  const FitResult result = fit(planted_points(chinchilla), *chinchilla.form, options);
  EXPECT_EQ(result.law.coefficient("A"), 500);
  EXPECT_GT(result.objective, 1e-8);
}

// Exact points have every loss's minimum at 0.
TEST(Fit, EveryLossFindsThePlantedLaw) {
  const Law law = testing::paper_baseline();
  for (const auto& [loss, name] : EnumNames<RobustLoss>::kNames) {
    for (const auto& [residuals, kind] : EnumNames<Residuals>::kNames) {
      FitOptions options;
      options.loss = loss;
      options.residuals = residuals;
      SCOPED_TRACE(std::string(name) + " " + kind);
      expect_planted(law, fit(testing::grid(law, 4, {0.85, 0.95, 0.97}, 6), *law.form, options));
    }
  }
}

// A constant is the mean, the median or a quantile of the losses: 1, 2, 3, 4, 10 around it, all
// other terms held away.
TEST(Fit, LossesAreWhatTheySay) {
  std::vector<Point> points;
  for (const double loss : {1.0, 2.0, 3.0, 4.0, 10.0}) {
    Point point;
    point.size = 100 + loss;
    point.tokens = 1e9 + loss;
    point.loss = loss;
    points.push_back(point);
  }
  FitOptions options;
  options.residuals = Residuals::kPlain;
  options.fix = {"A=1e-12", "B=1e-12", "alpha=1", "beta=1"};
  const auto floor = [&] {
    return fit(points, find_form("chinchilla"), options).law.coefficients[0];
  };
  options.loss = RobustLoss::kSquared;
  EXPECT_NEAR(floor(), 4, 1e-7);
  options.loss = RobustLoss::kAbsolute;
  EXPECT_NEAR(floor(), 3, 1e-6);
  options.loss = RobustLoss::kAsymmetric;
  options.delta = 1e-6;
  options.quantile = 0.3;  // the second of five
  EXPECT_NEAR(floor(), 2, 1e-4);
  options.quantile = 0.9;
  EXPECT_NEAR(floor(), 10, 1e-4);
  options.loss = RobustLoss::kHuber;  // one point pulls with delta, four with their distance
  options.delta = 2;
  EXPECT_NEAR(floor(), (1 + 2 + 3 + 4 + 2) / 4.0, 1e-7);
}

TEST(Fit, BadRowsAreNamedAllAtOnce) {
  auto points = testing::grid(testing::paper_baseline(), 2, {0.85}, 2);
  points[0].loss = std::numeric_limits<double>::quiet_NaN();
  points[1].sparsity = 1;
  points[2].size = 0;
  points[3].where = "runs.csv:5";
  points[3].weight = -1;
  expect_error([&] { fit(points, find_form("smelt")); },
               "[law] loss: expected a finite number above 0, got nan (row 1)\n"
               "[law] S: expected at least 0 and below 1, got 1 (row 2)\n"
               "[law] F: expected a finite number above 0, got 0 (row 3)\n"
               "[law] weight: expected a finite number, at least 0, got -1 (runs.csv:5)");
}

TEST(Fit, OneSparsityHoldsB) {
  const FitResult result =
      fit(testing::grid(testing::paper_baseline(), 4, {0.85}, 4), find_form("smelt"));
  EXPECT_TRUE(result.identifiable) << result.status_words;
  EXPECT_EQ(result.law.coefficient("b"), 0);
  EXPECT_NEAR(result.law.coefficient("A"), 1.366e3 * std::pow(0.15, 0.1530), 1e-4);
  ASSERT_EQ(result.identifiability.warnings.size(), 1u);
  EXPECT_EQ(result.identifiability.warnings[0],
            "S is 0.85 in every row: b is held at 0, and the law holds at this sparsity only");
}

// Matched models of one nominal sparsity: S differs in the third digit, which is no evidence on b.
TEST(Fit, NearlyOneSparsityHoldsB) {
  auto points = testing::grid(testing::paper_baseline(), 4, {0.85}, 4, 0.003);
  for (std::size_t i = 0; i < points.size(); ++i)
    points[i].sparsity += 0.001 * static_cast<double>(i / 4);
  const FitResult result = fit(points, find_form("smelt"));
  EXPECT_EQ(result.law.coefficient("b"), 0);
  EXPECT_EQ(
      result.identifiability.warnings.at(0),
      "S is 0.85 to 0.853 in every row: b is held at 0, and the law holds at this sparsity only");
}

TEST(Fit, TinyStudyGridIsNotIdentifiableAndFast) {
  const auto points = testing::grid(testing::paper_baseline(), 2, {0.85}, 2, 0.01, 1, 2);
  const FitResult result = fit(points, find_form("smelt"));
  EXPECT_FALSE(result.identifiable);
  EXPECT_EQ(result.status, FitStatus::kNotIdentifiable);
  EXPECT_THAT(result.status_words,
              HasSubstr("5 coefficients, but only 4 distinct points (F, S, D)"));
  EXPECT_THAT(result.status_words,
              HasSubstr("2 values of F and 2 of D; a floor and a power law need 3 of each"));
  EXPECT_LT(result.seconds, 1.0);
}

TEST(Fit, ConstantColumns) {
  const auto one_size =
      fit(testing::grid(testing::paper_baseline(), 1, {0.85}, 6), find_form("smelt"));
  EXPECT_FALSE(one_size.identifiable);
  EXPECT_THAT(
      one_size.status_words,
      HasSubstr(
          "F does not vary, so A (1-S)^b / F^a cannot be separated from E, which holds both"));
  EXPECT_EQ(one_size.law.coefficient("A"), 0);
  // What the points do say stays right: the loss along D.
  EXPECT_NEAR(one_size.law.coefficient("c"), 0.6594, 1e-6);
  const auto one_horizon =
      fit(testing::grid(testing::paper_baseline(), 5, {0.85}, 1), find_form("smelt-no-sparsity"));
  EXPECT_THAT(
      one_horizon.status_words,
      HasSubstr("D does not vary, so K / D^c cannot be separated from E, which holds both"));
  const auto same =
      fit(std::vector<Point>(8, testing::grid(testing::paper_baseline(), 1, {0.85}, 1)[0]),
          find_form("smelt"));
  EXPECT_FALSE(same.identifiable);
  EXPECT_NEAR(same.rmse, 0, 1e-9);
}

// With the total size fixed, F and 1 - S move together (a public MoE grid of this kind "fits" with
// exponents near -486).
TEST(Fit, SizeAndSparsityMovingTogether) {
  std::vector<Point> points;
  for (auto point : testing::grid(testing::paper_baseline(), 5, {0.85}, 4)) {
    point.sparsity = 1 - point.size / 5e10;
    point.loss = evaluate(testing::paper_baseline(), point.inputs());
    points.push_back(point);
  }
  const FitResult result = fit(points, find_form("smelt"));
  EXPECT_FALSE(result.identifiable);
  EXPECT_THAT(result.status_words,
              HasSubstr("F and 1-S move together: a and b cannot be told apart"));
  EXPECT_LT(result.identifiability.smallest_singular_value, 1e-7);
  EXPECT_THAT(result.identifiability.degenerate_direction, HasSubstr("a up with b up"));
}

TEST(Fit, FewPointsAreAnExpectedOutcome) {
  EXPECT_EQ(fit({}, find_form("smelt")).status, FitStatus::kTooFewPoints);
  auto points = testing::grid(testing::paper_baseline(), 2, {0.85, 0.95}, 1);
  const FitResult result = fit(points, find_form("smelt"));
  EXPECT_FALSE(result.identifiable);
  points = testing::grid(testing::paper_baseline(), 2, {0.85, 0.9}, 2);
  points.resize(5);
  EXPECT_EQ(fit(points, find_form("smelt")).status, FitStatus::kTooFewPoints);
}

TEST(Fit, LossThatRisesWithTokensSaysSo) {
  auto points = testing::grid(testing::paper_baseline(), 4, {0.85}, 4);
  for (Point& point : points) point.loss += 0.5 * std::log(point.tokens / 1e10);
  const FitResult result = fit(points, find_form("smelt"));
  EXPECT_FALSE(result.identifiable);
  EXPECT_FALSE(result.bound_hits.empty());
}

TEST(Fit, JsonHasTheStableKeysAndReadsBack) {
  const FitResult result =
      fit(testing::grid(testing::paper_baseline(), 4, {0.85, 0.95}, 4), find_form("smelt"));
  const Json json = to_json(result);
  for (const char* key : {"schema", "form", "delta", "points", "coefficients", "objective", "rmse",
                          "starts", "scaled_gradient", "share_inside_delta", "identifiability",
                          "intervals", "standard_errors", "seconds"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["schema"], "smelt.fit/1");
  EXPECT_TRUE(json["intervals"].is_null());
  const Law law = law_from_json(parse_json(to_text(json), "f"), "f");
  EXPECT_EQ(law.coefficients, result.law.coefficients);
  EXPECT_TRUE(law.range.has_value());
}

}  // namespace
}  // namespace smelt::law
