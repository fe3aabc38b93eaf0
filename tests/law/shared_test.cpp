#include "smelt/law/shared.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/expect_error.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using Groups = std::vector<std::pair<std::string, std::vector<Point>>>;

Law two_term(std::vector<double> coefficients) {
  return {&find_form("chinchilla"), std::move(coefficients), std::nullopt, {}};
}

BootstrapOptions no_draws() {
  BootstrapOptions bootstrap;
  bootstrap.draws = 0;
  return bootstrap;
}

TEST(Shared, RecoversPlantedGroupsWithCommonExponents) {
  const std::vector<Law> planted = {two_term({1.7, 400, 900, 0.34, 0.29}),
                                    two_term({1.5, 300, 1500, 0.34, 0.29}),
                                    two_term({2.1, 700, 600, 0.34, 0.29})};
  Groups groups;
  for (const Law& law : planted) groups.emplace_back("g", testing::grid(law, 4, {0.0}, 5));
  const auto results =
      fit_shared(groups, find_form("chinchilla"), {}, {"alpha", "beta"}, no_draws());
  ASSERT_EQ(results.size(), 3u);
  for (std::size_t g = 0; g < 3; ++g) {
    EXPECT_TRUE(results[g].identifiable) << results[g].status_words;
    for (std::size_t c = 0; c < 5; ++c) {
      EXPECT_NEAR(results[g].law.coefficients[c] / planted[g].coefficients[c], 1, 1e-7) << g << c;
    }
    EXPECT_THAT(results[g].held, ::testing::Contains("alpha shared"));
  }
}

// What is shared is equal to the last digit, and the sum of the objectives is no larger than with
// the exponents held at either group's own.
TEST(Shared, IsTheBestCommonValue) {
  const auto a = testing::grid(two_term({1.7, 400, 900, 0.34, 0.29}), 4, {0.0}, 5, 0.004, 1);
  const auto b = testing::grid(two_term({1.5, 300, 1500, 0.31, 0.33}), 4, {0.0}, 5, 0.004, 2);
  const auto results =
      fit_shared({{"a", a}, {"b", b}}, find_form("chinchilla"), {}, {"alpha", "beta"}, no_draws());
  EXPECT_EQ(results[0].law.coefficient("alpha"), results[1].law.coefficient("alpha"));
  EXPECT_EQ(results[0].law.coefficient("beta"), results[1].law.coefficient("beta"));
  const double together = results[0].objective + results[1].objective;
  const auto held_sum = [&](double alpha, double beta) {
    FitOptions options;
    options.fix = {"alpha=" + number_text(alpha), "beta=" + number_text(beta)};
    return fit(a, find_form("chinchilla"), options).objective +
           fit(b, find_form("chinchilla"), options).objective;
  };
  const double alpha = results[0].law.coefficient("alpha"),
               beta = results[0].law.coefficient("beta");
  EXPECT_NEAR(held_sum(alpha, beta) / together, 1, 1e-7);
  for (const auto& [da, db] : {std::pair{0.01, 0.0}, {-0.01, 0.0}, {0.0, 0.01}, {0.0, -0.01}}) {
    EXPECT_GT(held_sum(alpha + da, beta + db), together);
  }
}

TEST(Shared, DrawsGiveIntervalsAndTheSameOnAnyThreadCount) {
  const auto a = testing::grid(two_term({1.7, 400, 900, 0.34, 0.29}), 4, {0.0}, 5, 0.004, 1);
  const auto b = testing::grid(two_term({1.5, 300, 1500, 0.34, 0.29}), 4, {0.0}, 5, 0.004, 2);
  BootstrapOptions bootstrap;
  bootstrap.draws = 40;
  bootstrap.unit = Unit::kPoint;
  std::vector<std::vector<FitResult>> runs;
  for (const std::int64_t threads : {1, 2}) {
    bootstrap.threads = threads;
    runs.push_back(
        fit_shared({{"a", a}, {"b", b}}, find_form("chinchilla"), {}, {"beta"}, bootstrap));
  }
  const Range one = runs[0][0].intervals[4].value(), two = runs[1][0].intervals[4].value();
  EXPECT_EQ(one.min, two.min);
  EXPECT_EQ(one.max, two.max);
  EXPECT_EQ(runs[0][1].intervals[4]->min, one.min);  // shared draws are shared
  EXPECT_TRUE(one.contains(runs[0][0].law.coefficients[4]));
}

TEST(Shared, RefusesWhatCannotBeShared) {
  using smelt::testing::expect_error;
  const auto a = testing::grid(two_term({1.7, 400, 900, 0.34, 0.29}), 3, {0.0}, 3);
  expect_error(
      [&] { fit_shared({{"a", a}, {"b", a}}, find_form("coupled"), {}, {"A", "q"}, no_draws()); },
      "[law] share: A of form coupled is made of several unknowns and cannot be shared\n"
      "[law] share: form coupled has no coefficient \"q\"; there are E, A, B, alpha or beta");
  expect_error([&] { fit_shared({{"a", a}}, find_form("chinchilla"), {}, {"E"}, no_draws()); },
               "[law] share: expected two groups at least, got one");
}

}  // namespace
}  // namespace smelt::law
