// The decoder against its plain version, against itself on other batches, and at the edges.
#include "smelt/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "smelt/core/error.h"
#include "smelt/model/moe.h"
#include "tests/model/tiny.h"

namespace smelt::model {
namespace {

using testing::HasSubstr;

/// Runs at a thread count, then goes back to one.
struct Threads {
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(1); }
};

at::Tensor total_nll(const Decoder& decoder, const Batch& batch) {
  return sum_nll(decoder, forward(decoder, batch).hidden, batch.targets);
}

double relative_difference(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).abs().max() / expected.abs().max().clamp_min(1e-12)).item<double>();
}

// ---- batches

TEST(Batch, PiecesPositionsAndTargets) {
  const std::vector<std::int64_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8},
                                  segments = {9, 9, 2, 9, 9, 9, 9, 9};
  const Batch b = make_batch(tokens, segments, 2, 4, 9);
  EXPECT_EQ(b.pieces, (std::vector<Piece>{{0, 2}, {2, 1}, {3, 1}, {4, 4}}));
  EXPECT_TRUE(at::equal(b.positions, torch::tensor({0, 1, 0, 0, 0, 1, 2, 3}, at::kLong)));
  EXPECT_TRUE(at::equal(b.targets, torch::tensor({2, -1, -1, -1, 6, 7, 8, -1}, at::kLong)));
  EXPECT_EQ(b.target_count, 4);
}

TEST(Batch, ATokenOutsideTheVocabularyIsNamed) {
  const std::vector<std::int64_t> segments(6, 0);
  for (const std::int64_t bad : {-1, 23}) {
    std::vector<std::int64_t> tokens(6, 1);
    tokens[4] = bad;
    try {
      make_batch(tokens, segments, 2, 3, 23);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("token id " + std::to_string(bad) +
                                          " is outside the vocabulary of 23 (row 1, position 1)"));
    }
  }
  EXPECT_THROW(make_batch(segments, segments, 2, 4, 23), Error);
  EXPECT_THROW(make_batch(segments, segments, 0, 6, 23), Error);
}

// ---- equal to the plain version

struct Geometry {
  const char* name;
  std::int64_t hidden, heads, kv_heads, dim, inner, experts, top_k;
  bool renormalise, qk_norm, tied;
};

class PlainVersion : public testing::TestWithParam<Geometry> {};
TEST_P(PlainVersion, LossAndGradientsAgree) {
  const Geometry& g = GetParam();
  arch::ModelConfig c = tiny_config();
  c.hidden_size = g.hidden;
  c.num_attention_heads = g.heads;
  c.num_key_value_heads = g.kv_heads;
  c.head_dim = g.dim;
  c.moe_intermediate_size = g.inner;
  c.num_experts = g.experts;
  c.num_experts_per_tok = g.top_k;
  c.norm_topk_prob = g.renormalise;
  c.qk_norm = g.qk_norm;
  c.tie_word_embeddings = g.tied;
  const Decoder decoder = tiny_decoder(c, 11, 4);
  require_gradients(decoder);
  const Batch batch = random_batch({1, 17, 1, 1, 40, 5, 2, 70, 1}, c.vocab_size);
  for (const int threads : {1, 2}) {
    const Threads set(threads);
    const at::Tensor ours = total_nll(decoder, batch), plain = plain::total_nll(decoder, batch);
    EXPECT_NEAR(ours.item<double>(), plain.item<double>(), 2e-5 * std::abs(plain.item<double>()));
    const auto a = gradients(decoder, ours), b = gradients(decoder, plain);
    const auto names = named_parameters(decoder);
    double largest = 0;
    for (const at::Tensor& grad : b) largest = std::max(largest, grad.abs().max().item<double>());
    for (std::size_t i = 0; i < a.size(); ++i) {
      // A gradient that vanishes (one expert, renormalised) is rounding on both sides.
      const double scale = std::max(b[i].abs().max().item<double>(), 1e-3 * largest);
      EXPECT_LT((a[i] - b[i]).abs().max().item<double>() / scale, 2e-4)
          << names[i].first << " threads " << threads;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Geometries, PlainVersion,
    testing::Values(Geometry{"odd", 19, 3, 1, 10, 5, 7, 3, false, true, true},
                    Geometry{"every_expert", 16, 4, 4, 4, 8, 5, 5, true, true, false},
                    Geometry{"one_expert_per_token", 24, 4, 2, 8, 9, 11, 1, false, false, false},
                    Geometry{"one_expert_renormalised", 24, 4, 2, 8, 9, 6, 1, true, true, false},
                    Geometry{"most_experts_idle", 16, 2, 2, 6, 3, 90, 2, true, true, false},
                    Geometry{"wide", 128, 4, 2, 48, 96, 8, 2, true, true, false}),
    [](const auto& given) { return given.param.name; });

TEST(Decoder, GradientsAreFiniteDifferences) {
  arch::ModelConfig c = tiny_config();
  c.num_experts_per_tok = c.num_experts;  // smooth: no choice that a step could flip
  const Decoder decoder = tiny_decoder(c, 5, 4);
  require_gradients(decoder);
  const Batch batch = random_batch({9, 1, 14}, c.vocab_size);
  const auto grads = gradients(decoder, total_nll(decoder, batch));
  const auto parameters = named_parameters(decoder);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const at::Tensor direction = grads[i] / grads[i].norm();
    const double step = 0.02 * std::max(1.0, parameters[i].second.norm().item<double>() / 4) /
                        std::max(1.0, grads[i].norm().item<double>() / 4);
    parameters[i].second.add_(direction, step);
    const double up = total_nll(decoder, batch).item<double>();
    parameters[i].second.sub_(direction, 2 * step);
    const double down = total_nll(decoder, batch).item<double>();
    parameters[i].second.add_(direction, step);
    const double slope = (up - down) / (2 * step), expected = grads[i].norm().item<double>();
    EXPECT_NEAR(slope / expected, 1, 0.02) << parameters[i].first << " " << expected;
  }
}

TEST(Decoder, OneVisitIsTheBaselineToTheBit) {
  arch::ModelConfig baseline = tiny_config(), once = tiny_config();
  baseline.loop.reset();
  once.loop = arch::Loop{2, 3, 1, 1.0};
  const Batch batch = random_batch({30, 2, 17}, baseline.vocab_size);
  const Decoder a = tiny_decoder(baseline), b = tiny_decoder(once);
  require_gradients(a);
  require_gradients(b);
  EXPECT_TRUE(at::equal(forward(a, batch).hidden, forward(b, batch).hidden));
  const auto ga = gradients(a, total_nll(a, batch)), gb = gradients(b, total_nll(b, batch));
  for (std::size_t i = 0; i < ga.size(); ++i) EXPECT_TRUE(at::equal(ga[i], gb[i]));
}

// ---- documents

/// Other tokens in document `changed`, the same everywhere else.
Batch change_document(const Batch& batch, std::size_t changed, std::int64_t vocab,
                      std::uint64_t seed) {
  Batch other = batch;
  other.tokens = batch.tokens.clone();
  const Philox random(seed, "test/change");
  const Piece& piece = batch.pieces[changed];
  for (std::int64_t i = 0; i < piece.length; ++i) {
    const auto step =
        1 + static_cast<std::int64_t>(
                random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocab - 1)));
    auto* id = other.tokens.mutable_data_ptr<std::int64_t>() + piece.begin + i;
    *id = (*id + step) % vocab;
  }
  return other;
}

TEST(Documents, ChangingOneMovesNoBitOfAnother) {
  struct Size {
    std::int64_t hidden, inner, experts, top_k;
  };
  // Groups of one to eight tokens per expert, and of dozens.
  for (const Size size :
       {Size{20, 7, 40, 2}, Size{64, 33, 24, 3}, Size{96, 96, 5, 2}, Size{128, 48, 8, 8}}) {
    arch::ModelConfig c = tiny_config();
    c.hidden_size = size.hidden;
    c.moe_intermediate_size = size.inner;
    c.num_experts = size.experts;
    c.num_experts_per_tok = size.top_k;
    const Decoder decoder = tiny_decoder(c, 3, 3);
    const Batch batch = random_batch({7, 1, 33, 20, 3, 64, 5}, c.vocab_size);
    for (const int threads : {1, 2}) {
      const Threads set(threads);
      const at::NoGradGuard no_grad;
      const Forward before = forward(decoder, batch);
      const at::Tensor nll = token_nll(decoder, before.hidden, batch.targets);
      for (std::size_t d = 0; d < batch.pieces.size(); ++d) {
        const Batch other = change_document(batch, d, c.vocab_size, d);
        const Forward after = forward(decoder, other);
        const at::Tensor other_nll = token_nll(decoder, after.hidden, other.targets);
        bool moved_itself = false;
        for (std::size_t e = 0; e < batch.pieces.size(); ++e) {
          const Piece& p = batch.pieces[e];
          const bool same = at::equal(before.hidden.narrow(0, p.begin, p.length),
                                      after.hidden.narrow(0, p.begin, p.length));
          if (e == d) {
            moved_itself = !same;
          } else {
            EXPECT_TRUE(same) << "document " << e << " moved with " << d << ", hidden "
                              << size.hidden << ", threads " << threads;
            EXPECT_TRUE(at::equal(nll.narrow(0, p.begin, p.length),
                                  other_nll.narrow(0, p.begin, p.length)));
          }
        }
        EXPECT_TRUE(moved_itself);
      }
    }
  }
}

TEST(Documents, PackedIsAloneToTheBitAndGradientsAddUp) {
  const arch::ModelConfig c = tiny_config();
  const Decoder decoder = tiny_decoder(c, 3, 4);
  require_gradients(decoder);
  const Batch batch = random_batch({7, 1, 33, 20, 3, 64, 5}, c.vocab_size);
  const Forward packed = forward(decoder, batch);
  const auto together = gradients(decoder, total_nll(decoder, batch));
  std::vector<at::Tensor> sums;
  for (const Piece& p : batch.pieces) {
    const auto* ids = batch.tokens.const_data_ptr<std::int64_t>() + p.begin;
    const Batch alone = make_batch({ids, static_cast<std::size_t>(p.length)}, c.vocab_size);
    EXPECT_TRUE(
        at::equal(forward(decoder, alone).hidden, packed.hidden.narrow(0, p.begin, p.length)));
    const auto grads = gradients(decoder, total_nll(decoder, alone));
    if (sums.empty()) sums.resize(grads.size());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      sums[i] = sums[i].defined() ? sums[i] + grads[i] : grads[i];
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_LT(relative_difference(together[i], sums[i]), 2e-5)
        << named_parameters(decoder)[i].first;
  }
}

TEST(Documents, OnlyOneTokenDocuments) {
  const arch::ModelConfig c = tiny_config();
  const Decoder decoder = tiny_decoder(c);
  require_gradients(decoder);
  const Batch batch = random_batch(std::vector<std::int64_t>(12, 1), c.vocab_size);
  EXPECT_EQ(batch.target_count, 0);
  const Forward out = forward(decoder, batch);
  const at::Tensor nll = token_nll(decoder, out.hidden, batch.targets);
  EXPECT_TRUE(at::equal(nll, at::zeros({12})));
  const at::Tensor sum = sum_nll(decoder, out.hidden, batch.targets);
  const Losses all = losses(out, sum, batch.target_count, {0.01, 0.001});
  EXPECT_EQ(all.loss.item<double>(), 0);
  for (const at::Tensor& grad : gradients(decoder, all.loss))
    EXPECT_TRUE(at::equal(grad, at::zeros_like(grad)));
  for (const at::Tensor& grad : gradients(decoder, all.objective))
    EXPECT_TRUE(grad.isfinite().all().item<bool>());
}

TEST(Decoder, RepeatsToTheBitAtAnyThreadCountForward) {
  const arch::ModelConfig c = tiny_config();
  const Decoder decoder = tiny_decoder(c);
  require_gradients(decoder);
  const Batch batch = random_batch({70, 12, 150}, c.vocab_size);
  const auto run = [&](int threads) {
    const Threads set(threads);
    auto all = gradients(decoder, total_nll(decoder, batch));
    all.push_back(forward(decoder, batch).hidden);
    return all;
  };
  const auto one = run(1), two = run(2), again = run(2);
  for (std::size_t i = 0; i < two.size(); ++i) EXPECT_TRUE(at::equal(two[i], again[i])) << i;
  EXPECT_TRUE(at::equal(one.back(), two.back()));
}

// ---- router and experts

TEST(Router, TiesGoToTheLowerIndexMostProbableFirst) {
  const at::Tensor gate =
      torch::tensor({{0.f, 0.f}, {1.f, 0.f}, {0.f, 0.f}, {1.f, 0.f}, {2.f, 0.f}, {0.f, 0.f}});
  const at::Tensor x = torch::tensor({{1.f, 0.f}, {-1.f, 0.f}, {0.f, 1.f}});
  const Routed routed = route(x, gate, 4, true, "layer 1");
  EXPECT_TRUE(at::equal(routed.experts,
                        torch::tensor({{4, 1, 3, 0}, {0, 2, 5, 1}, {0, 1, 2, 3}}, at::kLong)));
  EXPECT_NEAR(routed.weights[2][1].item<double>(), 0.25, 1e-7);
  EXPECT_NEAR(routed.logsumexp[2].item<double>(), std::log(6.0), 1e-6);
  EXPECT_TRUE(at::allclose(routed.probabilities, at::linear(x, gate).softmax(1)));
}

TEST(Router, ABiasMovesTheChoiceAndNothingElse) {
  const at::Tensor gate = torch::tensor({{3.f}, {2.f}, {1.f}, {0.f}});
  const at::Tensor x = torch::tensor({{1.f}}).requires_grad_();
  const float bias[] = {-1, 0, 0, 1};
  const Routed biased = route(x, gate, 2, true, "layer 1", bias);
  const Routed plain = route(x, gate, 2, true, "layer 1");
  EXPECT_TRUE(at::equal(plain.experts, torch::tensor({{0, 1}}, at::kLong)));
  // p = softmax(3, 2, 1, 0) = 0.644, 0.237, 0.087, 0.032: p + bias is largest for 3, then 1.
  EXPECT_TRUE(at::equal(biased.experts, torch::tensor({{3, 1}}, at::kLong)));
  EXPECT_TRUE(at::equal(biased.probabilities, plain.probabilities));
  EXPECT_TRUE(at::equal(biased.logsumexp, plain.logsumexp));
  const double one = std::exp(0.0), two = std::exp(2.0);
  EXPECT_NEAR(biased.weights[0][0].item<double>(), one / (one + two), 1e-6);
  // d w_3 / dx = w_3 · w_1 · (0 − 2), the biases apart.
  biased.weights.select(1, 0).sum().backward();
  EXPECT_NEAR(x.grad().item<double>(), -2 * one * two / std::pow(one + two, 2), 1e-6);
}

TEST(Router, ALogitThatIsNotFiniteNamesLayerAndVisit) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Decoder decoder = tiny_decoder(tiny_config());
    decoder.layers[1].gate[2][0] = bad;
    try {
      forward(decoder, random_batch({5}, 23));
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("not finite (layer 2, visit 1)"));
    }
  }
}

TEST(Experts, OneWithoutTokensHasZeroGradient) {
  arch::ModelConfig c = tiny_config();
  const Decoder decoder = tiny_decoder(c);
  // Poison what the allocator hands out next.
  for (int i = 0; i < 50; ++i) at::full({c.num_experts * 20 * 14}, NAN);
  for (const auto& layer : decoder.layers) {
    layer.gate.zero_();  // all tied: experts 0 and 1 take everything
  }
  require_gradients(decoder);
  const auto grads = gradients(decoder, total_nll(decoder, random_batch({40}, c.vocab_size)));
  const auto names = named_parameters(decoder);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (names[i].first.find("experts") == std::string::npos) continue;
    EXPECT_GT(grads[i].narrow(0, 0, 2).abs().max().item<double>(), 0);
    EXPECT_TRUE(at::equal(grads[i].narrow(0, 2, 3), at::zeros_like(grads[i].narrow(0, 2, 3))));
  }
}

// ---- losses

TEST(TokenNll, AgreesWithFp64WithUnevenChunksMasksAndLargeOffsets) {
  arch::ModelConfig c = tiny_config();
  c.vocab_size = 131;
  Decoder decoder = init_decoder(c, 1);
  const std::int64_t n = 1301;  // chunks of 128 and 512 with a rest
  const at::Tensor targets = at::arange(n, at::kLong).remainder(131);
  targets.masked_fill_(at::arange(n, at::kLong).remainder(7) == 3, kMasked);
  for (const double offset : {0.0, 80.0}) {
    at::Tensor hidden = at::sin(at::arange(n * 20, at::kFloat)).view({n, 20}).contiguous();
    hidden.select(1, 0).fill_(1);
    decoder.head = at::cos(at::arange(131 * 20, at::kFloat) * 0.7).view({131, 20}).contiguous();
    decoder.head.select(1, 0).add_(offset);  // the same added to every logit
    hidden.requires_grad_(true);
    decoder.head.requires_grad_(true);
    const at::Tensor nll = token_nll(decoder, hidden, targets);
    const at::Tensor h = hidden.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor w = decoder.head.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor expected =
        at::cross_entropy_loss(at::linear(h, w), targets, {}, at::Reduction::None, kMasked);
    const double rounding = 2e-5 * (1 + offset / 20);  // of logits of this size
    EXPECT_LT((nll - expected).abs().max().item<double>(), rounding);
    EXPECT_TRUE(at::equal(nll.masked_select(targets == kMasked),
                          at::zeros({(targets == kMasked).sum().item<std::int64_t>()})));
    const at::Tensor sum = sum_nll(decoder, hidden, targets);
    EXPECT_NEAR(sum.item<double>() / expected.sum().item<double>(), 1, 1e-6);
    const auto got = torch::autograd::grad({sum * 0.3}, {hidden, decoder.head});
    const auto want = torch::autograd::grad({expected.sum() * 0.3}, {h, w});
    EXPECT_LT(relative_difference(got[0].to(at::kDouble), want[0]), rounding);
    EXPECT_LT(relative_difference(got[1].to(at::kDouble), want[1]), rounding);
  }
  const at::Tensor wrong = at::full({3}, 131, at::kLong);
  EXPECT_THROW(token_nll(decoder, at::zeros({3, 20}), wrong), Error);
  EXPECT_THROW(sum_nll(decoder, at::zeros({3, 20}), wrong), Error);
}

TEST(Losses, BalanceIsOneWhenPerfectAndExpertsOverKWhenCollapsed) {
  const std::int64_t experts = 6, k = 2;
  const at::Tensor even = at::full({12, experts}, 1.0 / 6);
  EXPECT_NEAR(load_balance_loss(at::full({experts}, 4, at::kLong), even).item<double>(), 1, 1e-6);
  at::Tensor collapsed = at::zeros({12, experts});
  collapsed.narrow(1, 0, k).fill_(0.5);
  const at::Tensor counts =
      expert_counts(torch::tensor({{0, 1}, {1, 0}, {0, 1}}, at::kLong), experts);
  EXPECT_TRUE(at::equal(counts, torch::tensor({3, 3, 0, 0, 0, 0}, at::kLong)));
  EXPECT_NEAR(load_balance_loss(counts, collapsed).item<double>(), 3, 1e-6);  // E / k
  // Rows by themselves: one balanced, one collapsed.
  Routing routing;
  routing.probabilities = at::cat({at::full({3, experts}, 1.0 / 6), collapsed.narrow(0, 0, 3)});
  routing.experts = torch::tensor({{0, 1}, {2, 3}, {4, 5}, {0, 1}, {0, 1}, {0, 1}}, at::kLong);
  EXPECT_NEAR(load_balance_loss_per_row(routing, 2).item<double>(), (1 + 3) / 2.0, 1e-6);
}

// ---- looking inside, and caches

TEST(Observer, SeesEveryExecutedLayerAndChangesNothing) {
  const arch::ModelConfig c = tiny_config();
  const Decoder decoder = tiny_decoder(c);
  const Batch batch = random_batch({11, 30}, c.vocab_size);
  const at::NoGradGuard no_grad;
  std::vector<LayerTrace> traces;
  Observer observer;
  observer.layer = [&](const LayerTrace& trace) { traces.push_back(trace); };
  const Forward seen = forward(decoder, batch, observer), unseen = forward(decoder, batch);
  EXPECT_TRUE(at::equal(seen.hidden, unseen.hidden));
  ASSERT_EQ(traces.size(), 4u);
  for (std::size_t e = 0; e < traces.size(); ++e) {
    const LayerTrace& t = traces[e];
    EXPECT_EQ(t.executed, e);
    EXPECT_EQ(t.layer.layer, decoder.schedule[e].layer);
    EXPECT_TRUE(
        at::allclose(t.x_in + t.layer.residual_scale * t.attention_output, t.x_mid, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(t.x_mid + t.layer.residual_scale * t.moe_output, t.x_out, 1e-5, 1e-6));
    EXPECT_TRUE(at::equal(t.routing.experts, unseen.routing[e].experts));
    if (e > 0) {
      EXPECT_TRUE(at::equal(t.x_in, traces[e - 1].x_out));
    }
    // A head's map times the values is its output.
    for (const Piece& p : batch.pieces) {
      const auto part = [&](const at::Tensor& x, std::int64_t h) {
        return x.narrow(0, p.begin, p.length).select(1, h);
      };
      const at::Tensor map = attention_map(part(t.q, 3), part(t.k, 1));
      EXPECT_TRUE(at::allclose(map.sum(1), at::ones({p.length})));
      EXPECT_TRUE(at::allclose(at::mm(map, part(t.v, 1)), part(t.pv, 3), 1e-4, 1e-5));
    }
  }
}

TEST(Observer, AHeadCanBeSilenced) {
  const arch::ModelConfig c = tiny_config();
  const Decoder decoder = tiny_decoder(c);
  const Batch batch = random_batch({25}, c.vocab_size);
  const at::NoGradGuard no_grad;
  Observer observer;
  observer.head_factor.resize(4);
  observer.head_factor[2] = torch::tensor({1.f, 0.f, 1.f, 1.f});
  at::Tensor pv;
  observer.layer = [&](const LayerTrace& t) {
    if (t.executed == 2) pv = t.pv;
  };
  const at::Tensor silenced = forward(decoder, batch, observer).hidden;
  EXPECT_TRUE(at::equal(pv.select(1, 1), at::zeros({25, 6})));
  EXPECT_GT(pv.select(1, 0).abs().max().item<double>(), 0);
  EXPECT_FALSE(at::equal(silenced, forward(decoder, batch).hidden));
  // The same as taking the head's columns out of o_proj on that visit alone: here of a one-visit
  // layer.
  observer.head_factor = std::vector<at::Tensor>(4);
  observer.head_factor[3] = torch::tensor({1.f, 0.f, 1.f, 1.f});
  const at::Tensor by_factor = forward(decoder, batch, observer).hidden;
  const Decoder cut = clone(decoder);
  cut.layers[2].o_proj.narrow(1, 6, 6).zero_();
  EXPECT_TRUE(at::allclose(by_factor, forward(cut, batch).hidden, 1e-5, 1e-6));
  observer.head_factor.resize(3);
  EXPECT_THROW(forward(decoder, batch, observer), Error);
}

TEST(Cache, TokenByTokenAndInChunksEqualsTheFullForward) {
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    arch::ModelConfig c = tiny_config();
    c.num_key_value_heads = kv_heads;
    const Decoder decoder = tiny_decoder(c, 9, 3);
    const Batch batch = random_batch({29}, c.vocab_size);
    const at::NoGradGuard no_grad;
    const at::Tensor full = forward(decoder, batch).hidden;
    std::vector<at::Tensor> keys(decoder.executed_layers()), values(decoder.executed_layers());
    const Rotary tables = make_rotary(c, batch.positions);
    std::int64_t done = 0;
    for (const std::int64_t count : {5, 1, 1, 9, 1, 12}) {
      at::Tensor x = embed_tokens(decoder, batch.tokens.narrow(0, done, count));
      const Rotary rotary = at_positions(tables, batch.positions.narrow(0, done, count));
      for (std::size_t e = 0; e < decoder.executed_layers(); ++e) {
        const Attend attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
          keys[e] = keys[e].defined() ? at::cat({keys[e], k}) : k;
          values[e] = values[e].defined() ? at::cat({values[e], v}) : v;
          return cached_attention(q, keys[e], values[e]);
        };
        x = forward_layer(decoder, e, x, rotary, attend).x;
      }
      const at::Tensor expected = full.narrow(0, done, count);
      EXPECT_LT((final_norm(decoder, x) - expected).abs().max().item<double>(), 2e-5) << done;
      done += count;
    }
    EXPECT_EQ(done, 29);
    EXPECT_THROW(at_positions(tables, at::full({1}, 29, at::kLong)), Error);
  }
}

}  // namespace
}  // namespace smelt::model
