// What went wrong in published law fits, one test each; `sources` in docs/fit.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "smelt/law/compare.h"
#include "smelt/law/gain.h"
#include "smelt/law/isoflop.h"
#include "tests/core/expect_error.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using smelt::testing::expect_error;
using ::testing::Contains;
using ::testing::HasSubstr;

std::vector<Point> noisy(double noise, std::uint64_t stream = 1) {
  return testing::grid(testing::paper_baseline(), 4, {0.85, 0.95, 0.97}, 6, noise, stream);
}

void expect_same(const FitResult& a, const FitResult& b, double tolerance = 1e-8) {
  for (std::size_t c = 0; c < a.law.coefficients.size(); ++c) {
    EXPECT_NEAR(b.law.coefficients[c] / a.law.coefficients[c], 1, tolerance)
        << a.law.form->coefficients[c];
  }
}

// 1. Tolerances in absolute numbers stop at the start where the objective is of the order 1e-6.
TEST(Pitfall01, TinyObjectivesAreStillMinimised) {
  auto points = noisy(0.003);
  for (const double delta : {1e-2, 1e-3, 1e-4, 1e-5}) {
    FitOptions options;
    options.delta = delta;
    const FitResult result = fit(points, find_form("smelt"), options);
    EXPECT_EQ(result.status, FitStatus::kConverged) << delta;
    EXPECT_LT(result.scaled_gradient, 1e-9) << delta;
    auto light = points;
    for (Point& point : light) point.weight = 1e-9;
    expect_same(result, fit(light, find_form("smelt"), options));
  }
}

// 2. "success" says nothing.
TEST(Pitfall02, AResultSaysHowMuchItCanBeTrusted) {
  const FitResult good = fit(noisy(0.003), find_form("smelt"));
  EXPECT_EQ(good.starts_tried, 16);
  EXPECT_GE(good.starts_agreeing, 15);
  EXPECT_TRUE(good.bound_hits.empty());
  auto rising = noisy(0.003);
  for (Point& point : rising) point.loss = 2 + 1e-11 * point.tokens;
  const FitResult bad = fit(rising, find_form("smelt"));
  EXPECT_FALSE(bad.identifiable);
  EXPECT_FALSE(bad.bound_hits.empty());
}

// 3. Starts far off that a general optimiser does not bring home.
TEST(Pitfall03, NearlyEveryStartReachesTheBestOptimum) {
  for (std::uint64_t stream = 1; stream <= 10; ++stream) {
    const FitResult result = fit(noisy(0.005, stream), find_form("smelt"));
    EXPECT_GE(result.starts_agreeing, 15) << stream;
  }
}

// 4. Bounds and starts in linear amplitudes depend on units.
TEST(Pitfall04, UnitsAndOrderChangeNothing) {
  for (const char* name : {"chinchilla", "chinchilla-tied", "recurrence", "coupled"}) {
    const Form& form = find_form(name);
    std::vector<Point> points;
    const Philox noise(4, name);
    for (int size = 0; size < 5; ++size) {
      for (int tokens = 0; tokens < 5; ++tokens) {
        Point point;
        point.size = 5e7 * std::pow(2.5, size);
        point.tokens = 1e9 * std::pow(2.2, tokens);
        point.recurrent = (1 + tokens % 3) * point.size;
        point.visits = 1 + (size + tokens) % 4;
        const double effective =
            form.visits ? point.size + std::pow(point.visits, 0.4) * point.recurrent : point.size;
        point.loss = (1.7 + 300 * std::pow(effective, -0.3) + 900 * std::pow(point.tokens, -0.33)) *
                     std::exp(0.002 * noise.normal(points.size()));
        points.push_back(point);
      }
    }
    auto millions = points;
    std::reverse(millions.begin(), millions.end());
    for (Point& point : millions) {
      point.size /= 1e6;
      point.recurrent /= 1e6;
      point.tokens /= 1e9;
    }
    const FitResult a = fit(points, form), b = fit(millions, form);
    EXPECT_NEAR(b.objective / a.objective, 1, 1e-9) << name;
    for (const char* exponent : {"E", "alpha", "beta", "phi"}) {
      if (!form.index(exponent)) continue;
      EXPECT_NEAR(b.law.coefficient(exponent) / a.law.coefficient(exponent), 1, 1e-7)
          << name << " " << exponent;
    }
  }
}

// 5. Huber's delta is a choice: the share of residuals inside says which regime it makes.
TEST(Pitfall05, TheShareInsideDeltaIsToldAndCounted) {
  const auto points = noisy(0.003);
  const FitResult result = fit(points, find_form("smelt"));
  double inside = 0;
  for (const double r : log_residuals(result.law, points)) inside += std::abs(r) <= 1e-3;
  EXPECT_EQ(result.share_inside_delta, inside / static_cast<double>(points.size()));
  EXPECT_EQ(to_json(result)["residuals"], "ln loss");
}

// 6. Draws that do not search again, and spreads over starts taken for errors, are too narrow: the
// spread of the draws is that of estimates from new data.
TEST(Pitfall06, TheSpreadOfTheDrawsIsThatOfNewData) {
  double mean = 0, squares = 0, said = 0;
  constexpr int kSets = 40;
  for (int set = 0; set < kSets; ++set) {
    const auto points = noisy(0.003, 50 + static_cast<std::uint64_t>(set));
    BootstrapOptions bootstrap;
    bootstrap.draws = 60;
    bootstrap.unit = Unit::kPoint;
    FitOptions options;
    options.delta = 0.01;
    const FitResult result = bootstrap_fit(points, find_form("smelt"), options, bootstrap);
    const double c = result.law.coefficient("c");
    mean += c / kSets;
    squares += c * c / kSets;
    said += result.standard_errors[5] / kSets;
  }
  const double spread = std::sqrt(squares - mean * mean);
  EXPECT_GT(said / spread, 0.7);
  EXPECT_LT(said / spread, 1.5);
}

// 7. The unit of the draws matters more than the method: runs of one cell that share an offset.
TEST(Pitfall07, CellsThatShareAnOffsetNeedTheCellAsUnit) {
  auto points = noisy(0);
  const Philox offset(3, "cells");
  std::map<std::string, double> of_cell;
  for (Point& point : points) {
    const auto [it, fresh] = of_cell.emplace(point.cell, 0);
    if (fresh) it->second = 0.01 * offset.normal(of_cell.size());
    point.loss *= std::exp(it->second);
  }
  const auto error_of_a = [&](Unit unit) {
    BootstrapOptions bootstrap;
    bootstrap.draws = 150;
    bootstrap.unit = unit;
    FitOptions options;
    options.delta = 0.05;
    return bootstrap_fit(points, find_form("smelt"), options, bootstrap).standard_errors[3];
  };
  EXPECT_GT(error_of_a(Unit::kCell), 1.5 * error_of_a(Unit::kPoint));
}

// 8. With the total size fixed, F and 1 − S move together: a = -485, b = -487 fit perfectly.
TEST(Pitfall08, SizeAndSparsityThatMoveTogetherAreRefused) {
  auto points = noisy(0.003);
  for (Point& point : points) point.size = 1e10 * (1 - point.sparsity);
  const FitResult result = fit(points, find_form("smelt"));
  EXPECT_FALSE(result.identifiable);
  EXPECT_THAT(result.law.unidentified, Contains(HasSubstr("a and b cannot be told apart")));
}

// 9. A fit that is good to a quarter of a percent in its range missed a larger run by 4 %.
TEST(Pitfall09, ErrorsOnLargerRunsStandBesideTheFit) {
  const auto points = noisy(0.003);
  const FitResult result = fit(points, find_form("smelt"));
  ASSERT_TRUE(result.law.range);
  EXPECT_EQ(result.law.range->tokens.max, points.back().tokens);
  const Comparison comparison =
      compare({{&find_form("smelt"), points}, {&find_form("smelt-no-sparsity"), points}}, {});
  const FormScore& without = comparison.scores.back();
  EXPECT_EQ(without.form->name, "smelt-no-sparsity");
  ASSERT_TRUE(without.rollout_compute);
  EXPECT_GT(*without.rollout_compute, *comparison.scores.front().rollout_compute);
}

// 10. A gain needs paired draws, and none exists where the reference never gets there.
TEST(Pitfall10, GainsBelowTheReferencesFloorAreFlagged) {
  Law low = testing::paper_smelt();
  low.coefficients[0] = 1.2;
  GainOptions options;
  options.compute = {1e26};
  options.sparsity = {0.95};
  const GainResult result = gain(testing::paper_baseline(), low, options);
  EXPECT_FALSE(result.points[0].gain);
  EXPECT_THAT(result.points[0].words, HasSubstr("below the reference's floor E"));
}

// 11. Dropping a few points of few tokens moved B sixfold: what leaving out a unit does is told.
TEST(Pitfall11, WhatOneUnitDecidesIsTold) {
  auto points = noisy(0.001);
  points[0].loss *= 1.05;
  BootstrapOptions bootstrap;
  bootstrap.draws = 20;
  bootstrap.unit = Unit::kPoint;
  FitOptions options;
  options.loss = RobustLoss::kSquared;
  const FitResult result = bootstrap_fit(points, find_form("smelt"), options, bootstrap);
  auto without = points;
  without.erase(without.begin());
  const double moved =
      fit(without, find_form("smelt"), options).law.coefficient("c") - result.law.coefficient("c");
  EXPECT_NEAR(result.leave_one_out[5], moved, 1e-6);
}

// 12. Weights enter as 1 / sigma²; one published code has them the other way round.
TEST(Pitfall12, WeightsAreInverseVariances) {
  const Law law = testing::paper_baseline();
  double right = 0, wrong = 0;
  for (std::uint64_t set = 0; set < 12; ++set) {
    auto points = testing::grid(law, 4, {0.85, 0.95, 0.97}, 6);
    const Philox noise(set, "weights");
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double sigma = i % 2 ? 0.02 : 0.001;
      points[i].loss *= std::exp(sigma * noise.normal(i));
      points[i].weight = 1 / (sigma * sigma);
    }
    FitOptions options;
    options.loss = RobustLoss::kSquared;
    right += std::pow(fit(points, *law.form, options).law.coefficient("c") - 0.6594, 2);
    for (Point& point : points) point.weight = 1 / point.weight;
    wrong += std::pow(fit(points, *law.form, options).law.coefficient("c") - 0.6594, 2);
  }
  EXPECT_LT(4 * right, wrong);
}

// 13. Which count of parameters is N changes the exponents: any column can be named, others stay.
TEST(Pitfall13, EveryCountIsCarried) {
  const Csv csv = parse_csv(
      "stored,active,tokens,loss\n1e9,1e8,1e9,3\n4e9,1.5e8,1e9,2.9\n1e9,1e8,4e9,2.8\n", "t.csv");
  Columns columns = columns_of(find_form("chinchilla"));
  columns.size = "stored";
  const Endpoints stored = endpoints_from(csv, columns);
  columns.size = "active";
  const Endpoints active = endpoints_from(csv, columns);
  EXPECT_EQ(stored.rows[1].size, 4e9);
  EXPECT_EQ(active.rows[1].size, 1.5e8);
  EXPECT_EQ(active.csv.header, csv.header);
}

// 14. Parabolas through sizes that are off their centre.
TEST(Pitfall14, AMinimumAtAnEdgeIsRefused) {
  std::vector<Point> points;
  for (const double size : {2e8, 4e8, 8e8}) {
    Point point;
    point.size = size;
    point.tokens = 1e19 / (6 * size);
    point.loss = 2 + 0.1 * std::pow(std::log(size / 1.5e8), 2);
    points.push_back(point);
  }
  const Isoflop result = isoflop(points, find_form("chinchilla"));
  EXPECT_FALSE(result.bins[0].size);
  EXPECT_THAT(result.bins[0].words, HasSubstr("edge"));
}

// 15. R² above 0.99 for every law: near ties are named.
TEST(Pitfall15, NearTiesAreNamed) {
  const auto points =
      testing::grid({&find_form("smelt-no-sparsity"), {1.7, 900, 3e5, 0.35, 0.5}, std::nullopt, {}},
                    4, {0.8, 0.9}, 5, 0.01);
  const Comparison comparison =
      compare({{&find_form("smelt"), points}, {&find_form("smelt-no-sparsity"), points}}, {});
  ASSERT_TRUE(comparison.scores.front().weight);
  const double difference = *comparison.scores[1].aicc - *comparison.scores[0].aicc;
  EXPECT_EQ(difference < 2, !comparison.words.empty() &&
                                comparison.words.front().find("nearly tied") != std::string::npos);
}

// 16. Bad input: one error that names row and column.
TEST(Pitfall16, BadTablesAreNamedByRowAndColumn) {
  const auto read = [](const char* text) {
    return endpoints_from(parse_csv(text, "t.csv"), columns_of(find_form("chinchilla")));
  };
  expect_error([&] { read("params,tokens,loss\n1,nan,3\n"); },
               "[law] column \"tokens\": expected a finite number, got \"nan\" (t.csv:2)");
  expect_error([&] { read("params,tokens,loss\n1,2,-3\n"); },
               "[law] column \"loss\": expected a number above 0, got -3 (t.csv:2)");
  expect_error([&] { read("params,tokens,loss\n1,,3\n"); },
               "[law] column \"tokens\": the cell is empty (t.csv:2)");
  expect_error([&] { read("params,tokens,loss\n1,2\n"); },
               "[core] expected 3 columns, got 2 (t.csv:2)");
  expect_error([&] { read("params,toks,loss\n1,2,3\n"); },
               "[law] no column \"tokens\"; there are params, toks or loss (t.csv)");
  // Line ends of other systems and thousands separators are read.
  EXPECT_EQ(read("params,tokens,loss\r\n\"1,000\",2,3\r\n").rows[0].size, 1000);
  // Duplicates, a constant column, fewer points than coefficients: words, not numbers.
  Point point;
  point.size = 1e8, point.tokens = 1e9, point.loss = 3;
  const FitResult same = fit(std::vector<Point>(8, point), find_form("chinchilla"));
  EXPECT_FALSE(same.identifiable);
  EXPECT_THAT(same.law.unidentified, Contains(HasSubstr("N does not vary")));
  EXPECT_EQ(fit({point}, find_form("chinchilla")).status, FitStatus::kNotIdentifiable);
  EXPECT_EQ(fit({}, find_form("chinchilla")).status, FitStatus::kTooFewPoints);
}

}  // namespace
}  // namespace smelt::law
