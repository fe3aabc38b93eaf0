// Pools by document hash: shares, minimum, and independence of everything but the documents.
#include "smelt/data/pools.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "helpers.h"
#include "smelt/core/philox.h"

namespace smelt::data {
namespace {

/// `count` documents per source with heavy-tailed lengths.
std::vector<DocumentRecord> records(std::size_t sources, std::size_t count) {
  std::vector<DocumentRecord> all;
  const Philox random(7, "lengths");
  for (std::size_t i = 0; i < sources * count; ++i) {
    DocumentRecord record;
    record.source = static_cast<std::uint32_t>(i % sources);
    record.hash = random.bits(2 * i);
    record.length = 2 + static_cast<std::uint64_t>(300 * std::exp(1.2 * random.normal(2 * i + 1)));
    all.push_back(record);
  }
  return all;
}

std::map<Pool, double> shares(const std::vector<DocumentRecord>& all) {
  std::map<Pool, double> tokens;
  double sum = 0;
  for (const auto& record : all) {
    tokens[record.pool] += static_cast<double>(record.length);
    sum += static_cast<double>(record.length);
  }
  for (auto& [pool, value] : tokens) value /= sum;
  return tokens;
}

TEST(Pools, MeetTheSharesInTokens) {
  auto all = records(12, 200);
  cut_pools(all, 12, {0.01, 0.2});
  auto share = shares(all);
  EXPECT_NEAR(share[Pool::kTuning], 0.01, 0.003);
  EXPECT_NEAR(share[Pool::kDecay], 0.2 * (1 - share[Pool::kTuning]), 0.003);
}

TEST(Pools, EveryLargeSourceHasATuningDocumentAndStableText) {
  auto all = records(30, kTuningMinimum);
  cut_pools(all, 30, {0.0001, 0.2});
  std::map<std::uint32_t, int> tuning, stable;
  for (const auto& record : all) {
    tuning[record.source] += record.pool == Pool::kTuning;
    stable[record.source] += record.pool == Pool::kStable;
  }
  for (std::uint32_t source = 0; source < 30; ++source) {
    EXPECT_EQ(tuning[source], 1);
    EXPECT_GE(stable[source], 1);
  }
}

TEST(Pools, TheDocumentThatTuningMustHaveIsASmallOne) {
  auto all = records(1, 40);
  auto first = std::min_element(all.begin(), all.end(),
                                [](const auto& a, const auto& b) { return a.hash < b.hash; });
  first->length = 1'000'000;
  cut_pools(all, 1, {0.0001, 0});
  EXPECT_EQ(first->pool, Pool::kStable);
  EXPECT_EQ(
      std::count_if(all.begin(), all.end(), [](const auto& r) { return r.pool == Pool::kTuning; }),
      1);
}

TEST(Pools, OneDocumentStaysStable) {
  auto all = records(5, 1);
  cut_pools(all, 5, {0.3, 0.5});
  for (const auto& record : all) EXPECT_EQ(record.pool, Pool::kStable);
}

TEST(Pools, ZeroSharesGiveNothing) {
  auto all = records(2, 100);
  cut_pools(all, 2, {0, 0});
  for (const auto& record : all) EXPECT_EQ(record.pool, Pool::kStable);
}

TEST(Pools, ValidationIsLeftAlone) {
  auto all = records(1, 100);
  all[3].pool = Pool::kValidation;
  cut_pools(all, 1, {0.1, 0.2});
  EXPECT_EQ(all[3].pool, Pool::kValidation);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& r) { return r.pool == Pool::kValidation; }),
            1);
}

TEST(Pools, DoNotDependOnTheOrderOfDocuments) {
  auto all = records(1, 300), reversed = all;
  std::reverse(reversed.begin(), reversed.end());
  cut_pools(all, 1, {0.05, 0.2});
  cut_pools(reversed, 1, {0.05, 0.2});
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].pool, reversed[all.size() - 1 - i].pool);
}

TEST(Pools, EqualTextsStayTogether) {
  auto all = records(1, 200);
  auto twice = all;
  twice.insert(twice.end(), all.begin(), all.end());
  cut_pools(twice, 1, {0.05, 0.3});
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(twice[i].pool, twice[i + all.size()].pool);
}

}  // namespace
}  // namespace smelt::data
