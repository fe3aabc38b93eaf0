// Public end points whose optimum is known to 1e-12 (tests/data/law/README.md), Chinchilla form.
// The values were found by 4500 starts of another optimiser and polished; scipy_check.py finds them
// again.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "smelt/law/fit.h"

namespace smelt::law {
namespace {

const std::string kData = SMELT_TEST_DATA "/law/";

struct Optimum {
  const char* set;
  double delta, objective, alpha, beta, log_a, log_b, log_e;
};

class Gemstones : public ::testing::TestWithParam<Optimum> {};

std::vector<Point> gemstones(const char* set) {
  const auto columns = parse_columns({"N=params_active_precise", "D=tokens", "loss=final_loss"});
  return read_endpoints(kData + "gemstones_" + set + ".csv", columns).rows;
}

TEST_P(Gemstones, OptimumFromEveryStart) {
  const Optimum& known = GetParam();
  FitOptions options;
  options.delta = known.delta;
  const FitResult result = fit(gemstones(known.set), find_form("chinchilla"), options);
  EXPECT_LT(std::abs(result.objective / known.objective - 1), 3e-9);
  EXPECT_NEAR(result.law.coefficient("alpha"), known.alpha, 6e-5);
  EXPECT_NEAR(result.law.coefficient("beta"), known.beta, 6e-5);
  EXPECT_NEAR(std::log(result.law.coefficient("A")), known.log_a, 6e-5);
  EXPECT_NEAR(std::log(result.law.coefficient("B")), known.log_b, 6e-5);
  EXPECT_NEAR(std::log(result.law.coefficient("E")), known.log_e, 6e-5);
  EXPECT_EQ(result.starts_tried, 16);
  EXPECT_EQ(result.starts_agreeing, 16);
  EXPECT_LT(result.scaled_gradient, 1e-11);
  EXPECT_TRUE(result.identifiable);
  EXPECT_EQ(result.status, FitStatus::kConverged);
}

INSTANTIATE_TEST_SUITE_P(
    All, Gemstones,
    ::testing::Values(
        Optimum{"hot", 1e-3, 0.001981612809, .2929, .7130, 5.3617, 15.4185, .7623},
        Optimum{"hot", 1e-4, 0.000207505156, .2928, .7289, 5.3582, 15.7720, .7652},
        Optimum{"cool_end", 1e-3, 0.001964086431, .3004, .5802, 5.4211, 12.5123, .7299},
        Optimum{"cool_end", 1e-4, 0.000204779068, .3006, .5860, 5.4225, 12.6420, .7323},
        Optimum{"lr_ablation_hot", 1e-3, 0.001972862397, .3255, .6513, 5.8391, 14.3071, .7912},
        Optimum{"lr_ablation_hot", 1e-4, 0.000205842082, .3296, .6468, 5.9039, 14.2094, .7933},
        Optimum{"hot_120b_plus", 1e-3, 0.003862397955, .2424, .6448, 4.6621, 14.1131, .6272},
        Optimum{"hot_120b_plus", 1e-4, 0.000408078525, .2407, .7314, 4.6365, 16.2356, .6287}),
    [](const auto& test) {
      return std::string(test.param.set) + (test.param.delta == 1e-3 ? "_3" : "_4");
    });

// Published: A=12.48 B=33.48 E=0.93438 alpha=0.10360 beta=0.16197; predicts 2.3443873053 for the
// 13B run, and a mean relative error of 0.0024730744 on its own points: a good fit that
// extrapolates badly.
TEST(OlmoLadder, PublishedFitAndItsWarning) {
  const auto table = read_endpoints(
      kData + "olmo_ladder_c4.csv",
      parse_columns({"N=n_params", "D=tokens", "loss=c4_loss_mean_last5", "group=split"}));
  const auto points = table.points("train");
  const FitResult result = fit(points, find_form("chinchilla"));
  EXPECT_NEAR(result.law.coefficient("A"), 12.48, 0.006);
  EXPECT_NEAR(result.law.coefficient("B"), 33.48, 0.006);
  EXPECT_NEAR(result.law.coefficient("E"), 0.93438, 1e-5);
  EXPECT_NEAR(result.law.coefficient("alpha"), 0.10360, 1e-5);
  EXPECT_NEAR(result.law.coefficient("beta"), 0.16197, 1e-5);
  double error = 0;
  for (const Point& point : points) {
    error += std::abs(evaluate(result.law, point.inputs()) / point.loss - 1);
  }
  EXPECT_NEAR(error / static_cast<double>(points.size()), 0.0024730744, 1e-8);
  bool held_out = false;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.csv.rows[i][0] != "peteish13_eval_final") continue;
    held_out = true;
    EXPECT_NEAR(evaluate(result.law, table.rows[i].inputs()), 2.3443873053, 1e-8);
  }
  EXPECT_TRUE(held_out);
  EXPECT_TRUE(result.identifiable);
  EXPECT_FALSE(result.identifiability.warnings.empty());  // alpha may move by its own size
}

TEST(Gemstones, SameCoefficientsInOtherUnitsAndOrder) {
  const auto points = gemstones("hot");
  const FitResult one = fit(points, find_form("chinchilla"));
  for (const double unit : {1e6, 1e9}) {
    auto scaled = points;
    for (Point& point : scaled) point.size /= unit;
    const FitResult other = fit(scaled, find_form("chinchilla"));
    for (const char* name : {"E", "B", "alpha", "beta"}) {
      EXPECT_LT(std::abs(other.law.coefficient(name) / one.law.coefficient(name) - 1), 1e-8)
          << name;
    }
    const double a = other.law.coefficient("A") * std::pow(unit, other.law.coefficient("alpha"));
    EXPECT_LT(std::abs(a / one.law.coefficient("A") - 1), 1e-8);
  }
  auto shuffled = points;
  std::reverse(shuffled.begin(), shuffled.end());
  std::swap_ranges(shuffled.begin(), shuffled.begin() + 50, shuffled.begin() + 100);
  const FitResult other = fit(shuffled, find_form("chinchilla"));
  EXPECT_EQ(other.law.coefficients,
            one.law.coefficients);  // to the bit: rows are put in order first
}

}  // namespace
}  // namespace smelt::law
