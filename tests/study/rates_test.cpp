#include "smelt/study/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace smelt::study {
namespace {

using plan::Arm;
using ::testing::Contains;
using ::testing::HasSubstr;

std::vector<Trial> trials(const std::string& cell, Arm arm,
                          std::vector<std::pair<double, double>> losses) {
  std::vector<Trial> made;
  for (const auto& [lr, loss] : losses) {
    made.push_back({cell,
                    arm,
                    {lr, 101, std::isfinite(loss) ? std::optional(loss) : std::nullopt},
                    1000,
                    "run"});
  }
  return made;
}

std::vector<Trial> operator+(std::vector<Trial> a, const std::vector<Trial>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const ChosenRate& rate(const RateChoice& choice, const std::string& cell, Arm arm) {
  for (const ChosenRate& chosen : choice.chosen) {
    if (chosen.cell == cell && chosen.arm == arm) return chosen;
  }
  throw std::runtime_error("not chosen");
}

TEST(Rates, EachArmTakesItsOwnMinimum) {
  const RateChoice choice =
      choose_rates({{"a", {1e6, 1e6}}},
                   trials("a", Arm::kBaseline, {{0.001, 3.3}, {0.002, 3.1}, {0.004, 3.3}}) +
                       trials("a", Arm::kSmelt, {{0.001, 3.4}, {0.002, 3.2}, {0.004, 3.1}}));
  EXPECT_EQ(rate(choice, "a", Arm::kBaseline).lr, 0.002);
  EXPECT_FALSE(rate(choice, "a", Arm::kBaseline).at_edge());
  EXPECT_EQ(rate(choice, "a", Arm::kSmelt).lr, 0.004);
  EXPECT_TRUE(rate(choice, "a", Arm::kSmelt).at_edge());
  EXPECT_THAT(choice.words, Contains(HasSubstr("edge of what was tried")));
}

TEST(Rates, BetweenTunedCellsLogLrIsLinearInLogF) {
  const auto both = [](const std::string& cell, double lr) {
    return trials(cell, Arm::kBaseline, {{lr / 2, 4}, {lr, 3}, {lr * 2, 4}}) +
           trials(cell, Arm::kSmelt, {{lr / 2, 4}, {lr, 3}, {lr * 2, 4}});
  };
  // Half way in ln F between 1e6 and 1e8 is 1e7; half way in ln lr between 0.004 and 0.001 is
  // 0.002.
  const RateChoice choice = choose_rates({{"a", {1e6, 1e6}}, {"m", {1e7, 1e7}}, {"z", {1e8, 1e8}}},
                                         both("a", 0.004) + both("z", 0.001));
  EXPECT_NEAR(rate(choice, "m", Arm::kSmelt).lr, 0.002, 1e-12);
  EXPECT_EQ(rate(choice, "m", Arm::kSmelt).source, RateSource::kInterpolated);
}

TEST(Rates, OutsideTheTunedRangeACellIsMarked) {
  const RateChoice choice =
      choose_rates({{"a", {1e6, 1e6}}, {"b", {2e6, 2e6}}},
                   trials("a", Arm::kBaseline, {{0.001, 4}, {0.002, 3}, {0.004, 4}}) +
                       trials("a", Arm::kSmelt, {{0.001, 4}, {0.002, 3}, {0.004, 4}}));
  EXPECT_EQ(rate(choice, "b", Arm::kBaseline).source, RateSource::kNearest);
  EXPECT_NEAR(rate(choice, "b", Arm::kBaseline).lr, 0.002, 1e-12);
  EXPECT_THAT(choice.words, Contains(HasSubstr("taken from the nearest tuned cell")));
}

TEST(Rates, ADivergedTrialIsNotTheBest) {
  const auto all = trials("a", Arm::kBaseline, {{0.001, 3.5}, {0.002, 3.4}, {0.004, NAN}}) +
                   trials("a", Arm::kSmelt, {{0.001, 3.5}, {0.002, 3.4}, {0.004, NAN}});
  EXPECT_EQ(rate(choose_rates({{"a", {1, 1}}}, all), "a", Arm::kSmelt).lr, 0.002);
  EXPECT_FALSE(rate(choose_rates({{"a", {1, 1}}}, all), "a", Arm::kSmelt).at_edge());
}

TEST(Rates, AllDivergedIsAnError) {
  EXPECT_THROW(choose_rates({{"a", {1, 1}}}, trials("a", Arm::kBaseline, {{0.1, NAN}, {0.2, NAN}})),
               Error);
}

TEST(Rates, FixedOnesSaySo) {
  const RateChoice choice = fixed_rates({{"a", {1, 1}}}, 0.001, 0.002);
  EXPECT_EQ(rate(choice, "a", Arm::kSmelt).lr, 0.002);
  EXPECT_THAT(choice.words, Contains(HasSubstr("fixed, not tuned")));
}

}  // namespace
}  // namespace smelt::study
