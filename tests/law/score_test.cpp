#include "smelt/law/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/expect_error.h"

namespace smelt::law {
namespace {

struct Planted {
  std::vector<double> losses, scores;
};

/// Accuracy from 0.25 at high losses to 0.85 at low ones, steepest at 2.4.
double accuracy(double loss) {
  return 0.25 + 0.6 / (1 + std::exp(4 * (loss - 2.4)));
}

Planted planted() {
  Planted p;
  for (double loss = 1.8; loss < 3.2; loss += 0.1) {
    p.losses.push_back(loss);
    p.scores.push_back(accuracy(loss));
  }
  return p;
}

TEST(Score, RecoversAPlantedSigmoid) {
  const Planted p = planted();
  const ScoreFit fit = fit_score(p.losses, p.scores, ScoreKind::kScore);
  EXPECT_NEAR(fit.b, 0.25, 1e-7);
  EXPECT_NEAR(fit.a, 0.6, 1e-7);
  EXPECT_NEAR(fit.alpha, 4, 1e-6);
  EXPECT_NEAR(fit.tau, 2.4, 1e-7);
  EXPECT_NEAR(fit.r2, 1, 1e-12);
  EXPECT_TRUE(fit.words.empty());
  EXPECT_NEAR(fit.predict(2.05), accuracy(2.05), 1e-8);
}

// A downstream loss rises with the validation loss; a lower one is better.
TEST(Score, ResidualsArePositiveWhereTheOtherArmIsBetter) {
  Planted p = planted();
  const ScoreFit score = fit_score(p.losses, p.scores, ScoreKind::kScore);
  std::vector<double> better, completion, lower;
  for (const double s : p.scores) better.push_back(s + 0.02);
  const Beyond other = beyond(score, p.losses, better);
  EXPECT_NEAR(other.mean, 0.02, 1e-8);
  EXPECT_NEAR(other.interval.value().min, 0.02, 1e-6);
  EXPECT_EQ(other.extrapolated, 0u);
  for (const double l : p.losses) {
    completion.push_back(0.4 + 2 / (1 + std::exp(-3 * (l - 2.5))));
    lower.push_back(completion.back() - 0.1);
  }
  const ScoreFit loss = fit_score(p.losses, completion, ScoreKind::kLoss);
  EXPECT_NEAR(loss.r2, 1, 1e-10);
  EXPECT_NEAR(beyond(loss, p.losses, lower).mean, 0.1, 1e-7);
  EXPECT_EQ(beyond(loss, {1.0, 2.0}, {1, 1}).extrapolated, 1u);
}

TEST(Score, SaysWhatThePointsCannotTell) {
  std::vector<double> losses, scores, rising;
  for (double loss = 3; loss < 3.6; loss += 0.1) {  // the far flank alone
    losses.push_back(loss);
    scores.push_back(accuracy(loss));
    rising.push_back(loss);
  }
  EXPECT_FALSE(fit_score(losses, scores, ScoreKind::kScore).words.empty());
  EXPECT_THAT(fit_score(losses, rising, ScoreKind::kScore).words,
              ::testing::ElementsAre(::testing::HasSubstr("do not fall with the loss")));
  smelt::testing::expect_error([] { fit_score({1, 2}, {1, 2}, ScoreKind::kScore); },
                               "[law] a score in the loss needs 5 points, got 2");
  smelt::testing::expect_error(
      [] { fit_score({1, 1, 1, 1, 1}, {1, 2, NAN, 3, 4}, ScoreKind::kScore); },
      "[law] every loss is the same\n[law] score: expected finite numbers, got nan");
}

}  // namespace
}  // namespace smelt::law
