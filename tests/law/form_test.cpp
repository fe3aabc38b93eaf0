// Values by hand, gradients against central differences, law files.
#include "smelt/law/form.h"

#include <gtest/gtest.h>

#include <cmath>

#include "smelt/core/philox.h"
#include "tests/core/expect_error.h"

namespace smelt::law {
namespace {

TEST(Form, ValuesByHand) {
  const Law smelt{&find_form("smelt"), {1.5, 8, 100, 0.5, 1, 0.5}, std::nullopt, {}};
  EXPECT_NEAR(evaluate(smelt, {16, 0.75, 400}), 1.5 + 8 * 0.25 / 4 + 100.0 / 20, 1e-14);
  const Law chinchilla{
      &find_form("chinchilla"), {1.69, 406.4, 410.7, 0.34, 0.28}, std::nullopt, {}};
  // Chinchilla itself: 70e9 parameters, 1.4e12 tokens; Hoffmann et al. 2022, approach 3.
  EXPECT_NEAR(evaluate(chinchilla, {70e9, 0, 1.4e12}), 1.937, 5e-4);
  const Law tied{&find_form("chinchilla-tied"), {2, 3, 5, 0.5}, std::nullopt, {}};
  EXPECT_NEAR(evaluate(tied, {9, 0, 25}), 2 + 1 + 1, 1e-14);
  // N + r^phi N_rec = 10 + 4^0.5 · 7 = 24; 2 + 12 / sqrt(...)
  const Law looped{&find_form("recurrence"), {2, 3, 5, 0.5, 0.5, 0.5}, std::nullopt, {}};
  EXPECT_NEAR(evaluate(looped, {10, 0, 25, 7, 4}), 2 + 3 / std::sqrt(24) + 1, 1e-14);
  // X_start 2, X_max 10: G = 1 / (1/2 − 1/10) = 2.5; X = 4 gives 1 / (1/5.5 + 1/10).
  const Law experts{
      &find_form("saturating-experts"), {-0.1, -0.2, 0.03, 2, 2, 10}, std::nullopt, {}};
  const double x = std::log(1 / (1 / 5.5 + 0.1)), n = std::log(50);
  EXPECT_NEAR(evaluate(experts, {.size = 50, .experts = 4}),
              std::exp(-0.1 * n - 0.2 * x + 0.03 * n * x + 2), 1e-13);
  const Law coupled{&find_form("coupled"), {1, 16, 3, 1, 2}, std::nullopt, {}};
  EXPECT_NEAR(evaluate(coupled, {4, 0, 6}), 1 + std::pow(2 + 0.5, 2), 1e-13);
  const Law power{&find_form("power"), {1, 6, 0.5}, std::nullopt, {}};
  EXPECT_NEAR(evaluate(power, {.size = 9}), 3, 1e-14);
}

/// Coefficients of a size that a form can have, and a place.
struct Trial {
  Law law;
  Inputs at;
};
Trial trial_of(const Form& form, const Philox& random, std::uint64_t trial) {
  std::uint64_t draw = 100 * trial;
  const auto uniform = [&](double low, double high) {
    return low + random.uniform(draw++) * (high - low);
  };
  Trial made{{&form, {}, std::nullopt, {}}, {}};
  for (const std::string& name : form.coefficients) {
    const bool amplitude = name == "A" || name == "B" || name == "K";
    made.law.coefficients.push_back(name == "E"         ? uniform(0.5, 2)
                                    : name == "X_start" ? uniform(1, 3)
                                    : name == "X_max"   ? uniform(20, 200)
                                    : amplitude         ? uniform(0.5, 4)
                                                        : uniform(0.1, 0.8));
  }
  made.at = {uniform(2, 20), uniform(0, 0.9), uniform(3, 50),
             uniform(1, 10), uniform(1, 4),   uniform(1, 64)};
  return made;
}

TEST(Form, GradientsMatchFiniteDifferences) {
  const Philox random(7, "form");
  for (const Form& form : all_forms()) {
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto [law, at] = trial_of(form, random, i);
      std::vector<double> gradient(form.coefficients.size());
      evaluate(law, at, gradient);
      for (std::size_t j = 0; j < gradient.size(); ++j) {
        Law up = law, down = law;
        const double h = 1e-5 * std::abs(law.coefficients[j]);
        up.coefficients[j] += h;
        down.coefficients[j] -= h;
        EXPECT_NEAR((evaluate(up, at) - evaluate(down, at)) / (2 * h), gradient[j],
                    1e-8 * std::max(1.0, std::abs(evaluate(law, at) / law.coefficients[j])))
            << form.name << " " << form.coefficients[j];
      }
    }
  }
}

// The slopes of the log terms, and of curved forms their second derivatives.
TEST(Form, LogTermsMatchFiniteDifferences) {
  const Philox random(8, "form");
  for (const Form& form : all_forms()) {
    const std::size_t shapes = form.shape.size(), terms = form.amplitudes;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const LogInputs at = log_inputs(trial_of(form, random, i).at);
      std::vector<double> shape, values(terms), slopes(terms * shapes),
          second(slopes.size() * shapes);
      for (std::size_t j = 0; j < shapes; ++j) {
        shape.push_back(0.3 + 0.5 * random.uniform(1000 + 10 * i + j));
      }
      form.log_terms(at, shape.data(), values.data(), slopes.data(),
                     form.curved ? second.data() : nullptr);
      for (std::size_t j = 0; j < shapes; ++j) {
        const double h = 1e-5;
        std::vector<double> up = shape, down = shape, high(terms), low(terms);
        std::vector<double> high_slopes(slopes.size()), low_slopes(slopes.size());
        up[j] += h;
        down[j] -= h;
        form.log_terms(at, up.data(), high.data(), high_slopes.data(), nullptr);
        form.log_terms(at, down.data(), low.data(), low_slopes.data(), nullptr);
        for (std::size_t k = 0; k < terms; ++k) {
          EXPECT_NEAR((high[k] - low[k]) / (2 * h), slopes[k * shapes + j], 1e-8) << form.name;
          for (std::size_t l = 0; form.curved && l < shapes; ++l) {
            const std::size_t place = k * shapes + l;
            EXPECT_NEAR((high_slopes[place] - low_slopes[place]) / (2 * h),
                        second[place * shapes + j], 1e-7)
                << form.name << " " << l << " " << j;
          }
        }
      }
    }
  }
}

// Unknowns at a centre and coefficients say the same law.
TEST(Form, CoefficientsAndUnknownsAreTwoWaysToSayALaw) {
  const Philox random(9, "form");
  for (const Form& form : all_forms()) {
    if (!form.to_coefficients) continue;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const auto [law, at] = trial_of(form, random, i);
      std::vector<double> unknowns(form.unknowns()), back(law.coefficients.size());
      form.to_unknowns(law.coefficients.data(), unknowns.data(), nullptr);
      form.to_coefficients(unknowns.data(), {}, back.data());
      for (std::size_t c = 0; c < back.size(); ++c) {
        EXPECT_NEAR(back[c], law.coefficients[c], 1e-9 * std::abs(law.coefficients[c]));
      }
      // Seen from another centre with the same unknowns it is the law at the place relative to it.
      const LogInputs centre{0.7, 0, 1.3, 0, 0, 0};
      form.to_coefficients(unknowns.data(), centre, back.data());
      Inputs moved = at;
      moved.size *= std::exp(centre.size);
      moved.tokens *= std::exp(centre.tokens);
      EXPECT_NEAR(evaluate({&form, back, std::nullopt, {}}, moved), evaluate(law, at),
                  1e-9 * evaluate(law, at))
          << form.name;
    }
  }
}

TEST(Form, LawFileByHandAndBack) {
  const Law law = law_from_json(parse_json(R"({"schema":"smelt.law/1","form":"smelt",
                     "coefficients":{"E":1.5,"A":8,"K":100,"a":0.5,"b":1,"c":0.25}})",
                                           "x.json"),
                                "x.json");
  EXPECT_EQ(law.coefficients, (std::vector<double>{1.5, 8, 100, 0.5, 1, 0.25}));
  EXPECT_EQ(law_from_json(to_json(law), "y").coefficients, law.coefficients);
  EXPECT_EQ(law.coefficient("c"), 0.25);
}

TEST(Form, FaultsOfLawFiles) {
  using smelt::testing::expect_error;
  expect_error([] { find_form("kaplan"); },
               "[law] unknown form \"kaplan\"; there are smelt, smelt-no-sparsity, chinchilla, "
               "chinchilla-tied, recurrence, saturating-experts, coupled or power");
  expect_error(
      [] {
        law_from_json(parse_json(R"({"schema":"smelt.law/1","form":"chinchilla-tied",
                                     "coefficients":{"E":1,"A":2,"B":"x","gamma":3}})",
                                 "l"),
                      "l.json");
      },
      "[law] coefficients: form chinchilla-tied needs a number \"B\" (l.json)\n"
      "[law] coefficients: form chinchilla-tied needs a number \"alpha\" (l.json)\n"
      "[law] coefficients: form chinchilla-tied has no \"gamma\" (l.json)");
  expect_error(
      [] {
        law_from_json(parse_json(R"({"schema":"smelt.law/1","form":"power",
                                     "coefficients":{"E":-1,"A":-2,"gamma":0.3}})",
                                 "l"),
                      "l.json");
      },
      "[law] coefficients: expected \"E\" of form power to be at least 0, got -1 (l.json)\n"
      "[law] coefficients: expected \"A\" of form power to be at least 0, got -2 (l.json)");
  expect_error(
      [] { law_from_json(parse_json(R"({"schema":"smelt.fit/1","groups":{}})", "l"), "l.json"); },
      "[law] expected laws in \"groups\", got none (l.json)");
  expect_error([] { law_from_json(parse_json(R"({"schema":"smelt.plan/1"})", "l"), "l.json"); },
               "[law] expected schema smelt.law/1 or smelt.fit/1, got \"smelt.plan/1\" (l.json)");
}

}  // namespace
}  // namespace smelt::law
