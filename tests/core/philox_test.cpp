// Expected numbers: tests/core/philox_reference.py, an implementation of its own that first
// reproduces the known answers published with Random123.
#include "smelt/core/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace smelt {
namespace {

TEST(Philox, MatchesTheReference) {
  const Philox first(0, "");
  EXPECT_EQ(first.block(0),
            (std::array<std::uint32_t, 4>{0x5FDEEE09, 0xABEB0764, 0x73E1E6E2, 0xD881F5CC}));
  EXPECT_EQ(first.bits(0), 0xABEB07645FDEEE09u);
  EXPECT_EQ(first.uniform(0), 0.6715550060324592);
  EXPECT_NEAR(first.normal(0), 0.5049786226538374, 1e-15);
  EXPECT_EQ(first.below(0, 1000), 671u);
}

TEST(Philox, MatchesTheReferenceBeyond32Bits) {
  const Philox random(1234567890123456789, "data/epoch-0");
  const std::uint64_t i = 5'000'000'000;
  EXPECT_EQ(random.block(i),
            (std::array<std::uint32_t, 4>{0x13D0622F, 0x4D3C4EF3, 0xF247E39A, 0x60EDCC7C}));
  EXPECT_EQ(random.uniform(i), 0.3017014831019096);
  EXPECT_NEAR(random.normal(i), -1.119347295980418, 1e-15);
  EXPECT_EQ(random.below(i, 1000), 301u);
}

TEST(Philox, PermutationMatchesTheReference) {
  EXPECT_EQ(Philox(7, "data/epoch-0").permutation(10),
            (std::vector<std::uint32_t>{5, 9, 8, 4, 3, 0, 6, 2, 7, 1}));
  EXPECT_TRUE(Philox(7, "x").permutation(0).empty());
  EXPECT_EQ(Philox(7, "x").permutation(1), std::vector<std::uint32_t>{0});
}

TEST(Philox, PermutationHoldsEveryIndexOnce) {
  auto order = Philox(3, "order").permutation(1000);
  std::sort(order.begin(), order.end());
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(order[i], i);
}

TEST(Philox, StreamsAndSeedsDiffer) {
  std::set<std::uint64_t> draws;
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    for (const char* name : {"a", "b", "init/w"}) draws.insert(Philox(seed, name).bits(0));
  }
  EXPECT_EQ(draws.size(), 9u);
}

// 100,000 draws: the mean of a standard normal lies within 4 / sqrt(n), its variance within 4
// sqrt(2 / n), its fourth moment within 4 sqrt(96 / n); a uniform's mean within 4 sqrt(1 / 12 n).
TEST(Philox, MomentsAreThoseOfTheDistributions) {
  const Philox random(42, "moments");
  const double n = 100000;
  double sum = 0, square = 0, fourth = 0, uniform = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const double x = random.normal(i);
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    uniform += random.uniform(i);
  }
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96 / n));
  EXPECT_NEAR(uniform / n, 0.5, 4 * std::sqrt(1 / (12 * n)));
}

TEST(Philox, BelowCoversItsRangeEvenly) {
  const Philox random(1, "dice");
  std::array<int, 6> counts{};
  for (std::uint64_t i = 0; i < 60000; ++i) ++counts[random.below(i, 6)];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_square, 25.7);  // 5 degrees of freedom, p = 1e-4
}

}  // namespace
}  // namespace smelt
