// The search against plain enumeration: every geometry of design and docs (docs/match.md), counted
// one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

#include "smelt/budget/match.h"

namespace smelt::budget {
namespace {

struct Found {
  arch::ModelConfig config;
  double distance = 0, units = 0;
};

double square_log(double x) {
  return std::log(x) * std::log(x);
}

/// Calls `use(config, distance, mismatch)` for every geometry with the Baseline's KV heads.
template <class Use>
void for_all(const arch::ModelConfig& base, const MatchOptions& o, Use use) {
  const Budget target = count(base, o.attended);
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  const std::int64_t kv = base.num_key_value_heads;
  for (std::int64_t dim = 2; dim <= 2 * base.head_dim; dim += 2) {
    if (ratio(dim, base.head_dim) < 0.5) continue;
    for (std::int64_t heads = kv; ratio(heads, base.num_attention_heads) <= 2; heads += kv) {
      if (ratio(heads, base.num_attention_heads) < 0.5) continue;
      for (std::int64_t hidden = 2; hidden <= base.hidden_size; hidden += 2) {
        const double query =
            ratio(heads * dim, hidden) / ratio(base.query_width(), base.hidden_size);
        if (ratio(hidden, base.hidden_size) < 0.5 || query < 0.8 || query > 1.3) continue;
        const double base_width = ratio(base.moe_intermediate_size, base.hidden_size);
        for (std::int64_t width = 2; ratio(width, hidden) <= 2 * base_width; width += 2) {
          if (ratio(width, hidden) < 0.5 * base_width) continue;
          const double distance = square_log(query) + square_log(ratio(dim, base.head_dim)) +
                                  square_log(ratio(heads, base.num_attention_heads)) +
                                  square_log(ratio(width, hidden) / base_width);
          for (std::int64_t experts = base.num_experts; ratio(experts, base.num_experts) <= 3.5;
               ++experts) {
            if (o.max_experts && experts > *o.max_experts) break;
            arch::ModelConfig m = base;
            m.head_dim = dim;
            m.num_attention_heads = heads;
            m.hidden_size = hidden;
            m.moe_intermediate_size = width;
            m.num_experts = experts;
            m.loop = arch::middle_loop(base.num_hidden_layers, base.num_hidden_layers / 2, 2);
            // Most are hopeless by the cache alone.
            const double kv_off = ratio(2 * kv * dim * m.executed_layers(),
                                        2 * kv * base.head_dim * base.num_hidden_layers) -
                                  1;
            if (std::abs(kv_off) > 0.1) continue;
            use(m, distance, mismatch(count(m, o.attended), target));
          }
        }
      }
    }
  }
}

double units(const Mismatch& off, double kv_tolerance) {
  return std::max({std::abs(off.flops) / 0.005, std::abs(off.parameters) / 0.005,
                   std::abs(off.kv_cache) / kv_tolerance});
}

std::optional<Found> nearest_within(const arch::ModelConfig& base, double kv_tolerance) {
  std::optional<Found> best;
  for_all(base, {}, [&](const arch::ModelConfig& m, double distance, const Mismatch& off) {
    const double u = units(off, kv_tolerance);
    if (u > 1) return;
    if (!best || distance < best->distance - 1e-12 ||
        (std::abs(distance - best->distance) <= 1e-12 && u < best->units)) {
      best = Found{m, distance, u};
    }
  });
  return best;
}

arch::ModelConfig random_baseline(std::mt19937& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  arch::ModelConfig m;
  m.vocab_size = 100;
  m.hidden_size = 4 * pick(8, 24);
  m.num_hidden_layers = 2 * pick(1, 4);
  m.num_key_value_heads = pick(1, 2);
  m.num_attention_heads = m.num_key_value_heads * pick(1, 3);
  m.head_dim = 6 * pick(2, 5);  // 2/3 of it meets the cache of a middle half
  m.moe_intermediate_size = 2 * pick(6, 14);
  m.num_experts = pick(8, 48);
  m.num_experts_per_tok = pick(1, 4);
  return m;
}

TEST(MatchReference, TheAnswerIsTheNearestOfAll) {
  std::mt19937 random(11);
  int inside = 0;
  for (int i = 0; i < 12; ++i) {
    const auto base = random_baseline(random);
    auto expected = nearest_within(base, 0.01);
    if (!expected) expected = nearest_within(base, 0.02);
    const MatchResult result = match(base, {});
    SCOPED_TRACE(arch::to_json(base).dump());
    if (!expected) {
      EXPECT_TRUE(!result.within_tolerance ||
                  result.best.config.num_key_value_heads != base.num_key_value_heads);
      continue;
    }
    ++inside;
    EXPECT_TRUE(result.within_tolerance);
    EXPECT_NEAR(result.best.distance, expected->distance, 1e-9);
    EXPECT_EQ(arch::to_json(result.best.config), arch::to_json(expected->config));
  }
  EXPECT_GE(inside, 6);
}

TEST(MatchReference, WithTooFewExpertsTheAnswerIsTheLeastBadOfAll) {
  std::mt19937 random(5);
  int outside = 0;
  for (int i = 0; i < 10; ++i) {
    const auto base = random_baseline(random);
    MatchOptions options;
    options.max_experts = base.num_experts;
    double least = INFINITY;
    for_all(base, options, [&](const arch::ModelConfig&, double, const Mismatch& off) {
      least = std::min(least, units(off, 0.02));
    });
    if (least <= 1) continue;
    ++outside;
    const MatchResult result = match(base, options);
    SCOPED_TRACE(arch::to_json(base).dump());
    EXPECT_FALSE(result.within_tolerance);
    EXPECT_LE(units(result.best.mismatch, 0.02), least * (1 + 1e-9));
  }
  EXPECT_GE(outside, 5);
}

}  // namespace
}  // namespace smelt::budget
