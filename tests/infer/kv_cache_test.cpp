// Cached decoding against the full forward pass, for 1, 2 and 3 visits.
#include "smelt/infer/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "smelt/budget/budget.h"
#include "smelt/core/error.h"
#include "smelt/model/weights.h"

namespace smelt::infer {
namespace {

const std::vector<std::int32_t> kTokens = {3, 17, 5, 5, 30, 2, 9, 21, 8, 1, 13, 4, 32, 6, 6, 19};

model::Decoder load(const std::string& name) {
  return model::load_decoder(SMELT_TEST_DATA "/cases/" + name);
}

at::Tensor full_forward(const model::Decoder& decoder, const std::vector<std::int32_t>& tokens) {
  const torch::NoGradGuard no_grad;
  const std::vector<std::int64_t> wide(tokens.begin(), tokens.end());
  return model::forward(decoder, model::make_batch(wide, decoder.config.vocab_size)).hidden;
}

class Cached : public ::testing::TestWithParam<const char*> {};

TEST_P(Cached, EqualsTheFullForward) {
  const auto decoder = load(GetParam());
  const at::Tensor expected = full_forward(decoder, kTokens);
  KvCache cache(decoder.config, 1);  // grows several times
  std::vector<at::Tensor> parts;
  const std::span<const std::int32_t> all(kTokens);
  parts.push_back(forward_cached(decoder, cache, all.first(5)));
  parts.push_back(forward_cached(decoder, cache, all.subspan(5, 3)));
  for (std::size_t i = 8; i < all.size(); ++i) {
    parts.push_back(forward_cached(decoder, cache, all.subspan(i, 1)));
    EXPECT_EQ(cache.length(), static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_LE((at::cat(parts) - expected).abs().max().item<double>(), 1e-5);

  cache.truncate(6);  // goes on from there
  const at::Tensor again = forward_cached(decoder, cache, all.subspan(6));
  EXPECT_LE((again - expected.narrow(0, 6, again.size(0))).abs().max().item<double>(), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Cases, Cached,
                         ::testing::Values("baseline", "loop_half", "loop_three_visits_one_kv_head",
                                           "loop_one_layer_scale_1", "no_qk_norm",
                                           "one_visit_theta_eps"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(KvCache, BytesAreTheBudgetsCount) {
  arch::ModelConfig config = load("loop_half").config;
  for (const std::int64_t visits : {1, 2, 3}) {
    for (const auto& [first, last] : {std::pair(1, 1), std::pair(1, 4), std::pair(4, 4)}) {
      config.loop = arch::Loop{first, last, visits, 1.0 / static_cast<double>(visits)};
      const KvCache cache(config, 7);
      const budget::Budget b = budget::count(config, 10);
      EXPECT_EQ(static_cast<double>(cache.elements_per_token()), b.kv_elements_per_token);
      EXPECT_EQ(static_cast<double>(cache.elements()), 7 * b.kv_elements_per_token);
    }
  }
}

TEST(KvCache, HasTheBudgetsSize) {
  // loop_half: layers 1 2 3 2 3 4 executed; 2 KV heads of 8: 2 · 16 · 6 elements per token.
  const auto decoder = load("loop_half");
  KvCache cache(decoder.config, 10);
  EXPECT_EQ(cache.slots(), 6u);
  EXPECT_EQ(cache.elements_per_token(), 2 * 16 * 6);
  EXPECT_EQ(cache.elements(), 10 * 2 * 16 * 6);
  // Three visits of layers 1 and 2, then layer 3; one KV head of 8.
  EXPECT_EQ(KvCache(load("loop_three_visits_one_kv_head").config, 4).elements(), 4 * 2 * 8 * 7);
}

TEST(KvCache, RefusesWhatDoesNotFit) {
  const auto decoder = load("baseline");
  KvCache cache(decoder.config, 4);
  const std::int32_t outside = 40;
  const auto message = [](auto&& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { forward_cached(decoder, cache, {&outside, 1}); }),
            "[infer] token id 40 is outside the vocabulary of 40");
  EXPECT_EQ(message([&] { forward_cached(decoder, cache, {}); }), "[infer] no token to run");
  EXPECT_EQ(cache.length(), 0);
  const at::Tensor five = at::zeros({5, 2, 8});
  EXPECT_THAT(message([&] { cache.append(0, five, five); }),
              ::testing::HasSubstr("5 tokens do not fit behind 0 of 4"));
  const at::Tensor two = at::zeros({2, 2, 8});
  cache.append(0, two, two);
  EXPECT_THAT(message([&] { cache.commit(2); }),
              ::testing::HasSubstr("slot 1 got 0 tokens, the pass 2"));
}

}  // namespace
}  // namespace smelt::infer
