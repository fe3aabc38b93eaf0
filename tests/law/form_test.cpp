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
}

TEST(Form, GradientsMatchFiniteDifferences) {
  const Philox random(7, "form");
  std::uint64_t draw = 0;
  for (const Form& form : all_forms()) {
    for (int trial = 0; trial < 20; ++trial) {
      Law law{&form, {}, std::nullopt, {}};
      for (std::size_t j = 0; j < form.coefficients.size(); ++j) {
        law.coefficients.push_back(0.2 + random.uniform(draw++) * (j > form.amplitudes ? 0.6 : 3));
      }
      const Inputs at{2 + 20 * random.uniform(draw), 0.9 * random.uniform(draw + 1),
                      3 + 50 * random.uniform(draw + 2)};
      draw += 3;
      std::vector<double> gradient(form.coefficients.size());
      evaluate(law, at, gradient);
      for (std::size_t j = 0; j < gradient.size(); ++j) {
        Law up = law, down = law;
        const double h = 1e-5 * std::abs(law.coefficients[j]);
        up.coefficients[j] += h;
        down.coefficients[j] -= h;
        EXPECT_NEAR((evaluate(up, at) - evaluate(down, at)) / (2 * h), gradient[j], 1e-8)
            << form.name << " " << form.coefficients[j];
      }
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
               "[law] unknown form \"kaplan\"; there are smelt, smelt-no-sparsity, chinchilla or "
               "chinchilla-tied");
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
  expect_error([] { law_from_json(parse_json(R"({"schema":"smelt.plan/1"})", "l"), "l.json"); },
               "[law] expected schema smelt.law/1 or smelt.fit/1, got \"smelt.plan/1\" (l.json)");
}

}  // namespace
}  // namespace smelt::law
