#include "smelt/law/isoflop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace smelt::law {
namespace {

using ::testing::HasSubstr;

const Form& chinchilla() {
  return find_form("chinchilla");
}

/// Sizes around `best` (in ratios) at one compute, losses on a parabola in ln N with its minimum 2
/// at `best`.
void add(std::vector<Point>& points, double compute, double best,
         const std::vector<double>& ratios) {
  for (const double ratio : ratios) {
    Point point;
    point.size = best * ratio;
    point.tokens = compute / (6 * point.size);
    point.loss = 2 + 0.3 * std::pow(std::log(ratio), 2);
    points.push_back(point);
  }
}

TEST(Isoflop, FindsPlantedMinimaAndTheirGrowth) {
  std::vector<Point> points;
  for (const double compute : {1e18, 1e19, 1e20}) {
    add(points, compute, 1e8 * std::pow(compute / 1e18, 0.46), {0.3, 0.6, 1.1, 2, 4});
  }
  const Isoflop result = isoflop(points, chinchilla());
  ASSERT_EQ(result.bins.size(), 3u);
  EXPECT_NEAR(result.bins[1].size.value(), 1e8 * std::pow(10, 0.46), 1);
  EXPECT_NEAR(result.bins[1].loss.value(), 2, 1e-9);
  EXPECT_NEAR(result.bins[1].tokens.value(), 1e19 / 6 / *result.bins[1].size, 1e3);
  EXPECT_NEAR(result.size_exponent.value(), 0.46, 1e-9);
  EXPECT_NEAR(result.tokens_exponent.value(), 0.54, 1e-9);
  EXPECT_NEAR(result.exponent_error.value(), 0, 1e-6);
  EXPECT_TRUE(result.words.empty());
}

TEST(Isoflop, RefusesMinimaAtAnEdge) {
  std::vector<Point> points;
  add(points, 1e18, 1e8, {0.5, 1, 2, 4});
  add(points, 1e19, 3e8, {1.2, 2, 4, 8});  // all above the best size
  add(points, 1e20, 9e8, {0.5, 2});        // two sizes
  const Isoflop result = isoflop(points, chinchilla());
  EXPECT_TRUE(result.bins[0].size);
  EXPECT_FALSE(result.bins[1].size);
  EXPECT_THAT(result.bins[1].words, HasSubstr("at an edge of the sizes or beyond"));
  EXPECT_FALSE(result.bins[2].size);
  EXPECT_THAT(result.bins[2].words, HasSubstr("2 sizes: a parabola needs 3"));
  EXPECT_FALSE(result.size_exponent);
  EXPECT_THAT(result.words.front(),
              HasSubstr("minima found: 1; their growth with compute needs two"));
}

TEST(Isoflop, ALossWithoutAMinimumIsNamed) {
  std::vector<Point> points;
  add(points, 1e18, 1e8, {0.5, 1, 2});
  for (Point& point : points) point.loss = 4 - point.loss;
  EXPECT_THAT(isoflop(points, chinchilla()).bins[0].words, HasSubstr("do not curve upwards"));
  EXPECT_THROW(isoflop(points, find_form("power")), Error);
}

}  // namespace
}  // namespace smelt::law
