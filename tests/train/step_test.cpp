// Gradients of a step over any split into micro-batches, router statistics, AdamW against a
// calculation by hand.
#include "smelt/train/step.h"

#include <gmock/gmock.h>

#include <cmath>

#include "smelt/model/weights.h"
#include "smelt/train/optimizer.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using ::testing::ElementsAre;
using StepTest = TinyRun;

std::vector<model::Batch> batches(std::int64_t rows, std::int64_t micro_rows) {
  constexpr std::int64_t kLength = 10;
  std::vector<model::Batch> out;
  for (std::int64_t first = 0; first < rows; first += micro_rows) {
    std::vector<std::int64_t> tokens, segments;
    for (std::int64_t r = first; r < first + micro_rows; ++r) {
      for (std::int64_t i = 0; i < kLength; ++i) {
        tokens.push_back((7 * r + 3 * i + r * i) % kVocab);
        segments.push_back(i < 1 + r ? 0 : 1);  // rows with different numbers of targets
      }
    }
    out.push_back(model::make_batch(tokens, segments, micro_rows, kLength, kVocab));
  }
  return out;
}

RouterOptions options(Balance balance, double load_balance, double z_loss) {
  RouterOptions router;
  router.balance = balance;
  router.load_balance = load_balance;
  router.z_loss = z_loss;
  return router;
}

model::Decoder trainable(const arch::ModelConfig& config) {
  model::Decoder decoder = model::init_decoder(config, 3, 0.02);
  // Far from balance, so that auxiliary losses have something to say.
  for (auto& layer : decoder.layers) layer.gate.mul_(30);
  for (auto& [name, tensor] : model::named_parameters(decoder)) {
    at::Tensor(tensor).set_requires_grad(true);
  }
  return decoder;
}

struct Outcome {
  StepLosses losses;
  std::vector<at::Tensor> gradients;
};

Outcome outcome(const arch::ModelConfig& config, const RouterOptions& router, std::int64_t rows,
                std::int64_t micro_rows) {
  const model::Decoder decoder = trainable(config);
  Outcome result{*accumulate_gradients(decoder, batches(rows, micro_rows), router), {}};
  for (const auto& [name, tensor] : model::named_parameters(decoder)) {
    result.gradients.push_back(tensor.grad().clone());
  }
  return result;
}

TEST_F(StepTest, AnySplitIntoMicroBatchesGivesTheSameGradient) {
  for (const Balance balance : {Balance::kRow, Balance::kOff}) {
    const RouterOptions router = options(balance, 0.5, 0.1);
    const Outcome whole = outcome(config().model, router, 6, 6);
    for (const std::int64_t micro : {1, 2, 3}) {
      const Outcome split = outcome(config().model, router, 6, micro);
      EXPECT_NEAR(split.losses.loss, whole.losses.loss, 1e-6);
      EXPECT_NEAR(split.losses.objective, whole.losses.objective, 1e-6);
      for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
        EXPECT_LT((split.gradients[i] - whole.gradients[i]).abs().max().item<double>(), 1e-6) << i;
      }
    }
  }
}

TEST_F(StepTest, LoggedValuesDoNotDependOnTheSplit) {
  const RouterOptions router = options(Balance::kGlobal, 0.5, 0.1);
  const Outcome whole = outcome(config().model, router, 6, 6);
  for (const std::int64_t micro : {1, 2, 3}) {
    const Outcome split = outcome(config().model, router, 6, micro);
    EXPECT_NEAR(split.losses.load_balance, whole.losses.load_balance, 1e-6);
    EXPECT_NEAR(split.losses.z_loss, whole.losses.z_loss, 1e-5);
    EXPECT_TRUE(at::equal(split.losses.counts, whole.losses.counts));
  }
  EXPECT_GT(whole.losses.load_balance, 1.01);  // not the balanced value by accident
}

TEST_F(StepTest, ValuesAreTheDefinitionsOverTheWholeStep) {
  const RouterOptions router = options(Balance::kGlobal, 0.5, 0.1);
  const StepLosses losses = outcome(config().model, router, 6, 2).losses;
  // E Σ f P, mean of logsumexp² and Σ nll / targets straight from one forward pass over all rows.
  const model::Decoder decoder = trainable(config().model);
  const model::Batch batch = batches(6, 6).front();
  torch::NoGradGuard no_grad;
  const model::Forward out = model::forward(decoder, batch);
  double balance = 0, z = 0;
  for (const auto& routing : out.routing) {
    for (std::int64_t e = 0; e < 4; ++e) {
      const double f = (routing.experts == e).to(at::kDouble).mean().item<double>();
      balance += 4 * f * routing.probabilities.select(1, e).to(at::kDouble).mean().item<double>();
    }
    z += routing.logsumexp.to(at::kDouble).square().mean().item<double>();
  }
  EXPECT_NEAR(losses.load_balance, balance / 4, 1e-6);  // 4 executed layers
  EXPECT_NEAR(losses.z_loss, z / 4, 1e-6 * z);
  const at::Tensor log_p = model::logits(decoder, out.hidden).to(at::kDouble).log_softmax(1);
  double nll = 0;
  for (std::int64_t n = 0; n < batch.size(); ++n) {
    const auto target = batch.targets[n].item<std::int64_t>();
    if (target >= 0) nll -= log_p[n][target].item<double>();
  }
  EXPECT_NEAR(losses.loss, nll / static_cast<double>(batch.target_count), 1e-5);
  EXPECT_NEAR(losses.objective, losses.loss + 0.5 * balance / 4 + 0.1 * z / 4, 1e-5);
}

TEST_F(StepTest, CoefficientsReachTheRouter) {
  const auto gate = [&](const RouterOptions& router) {
    const model::Decoder decoder = trainable(config().model);
    accumulate_gradients(decoder, batches(6, 6), router);
    return decoder.layers[1].gate.grad().clone();
  };
  const at::Tensor off = gate(options(Balance::kOff, 0.5, 0));
  EXPECT_FALSE(at::equal(off, gate(options(Balance::kGlobal, 0.5, 0))));
  EXPECT_FALSE(at::equal(off, gate(options(Balance::kRow, 0.5, 0))));
  EXPECT_FALSE(at::equal(off, gate(options(Balance::kOff, 0.5, 0.1))));
  EXPECT_TRUE(at::equal(off, gate(options(Balance::kGlobal, 0, 0))));
}

TEST_F(StepTest, StopLeavesBetweenMicroBatches) {
  const model::Decoder decoder = trainable(config().model);
  int asked = 0;
  const auto result =
      accumulate_gradients(decoder, batches(6, 2), {}, [&] { return ++asked == 3; });
  EXPECT_FALSE(result.has_value());
  EXPECT_EQ(asked, 3);
}

TEST_F(StepTest, StepWithoutTargetsIsAnError) {
  const model::Decoder decoder = trainable(config().model);
  const std::vector<std::int64_t> tokens = {1, 2, 3}, segments = {0, 1, 2};
  const auto batch = model::make_batch(tokens, segments, 1, 3, kVocab);
  EXPECT_THAT(error_of([&] { accumulate_gradients(decoder, {batch}, {}); }),
              ::testing::HasSubstr("without a single target"));
}

TEST_F(StepTest, RouterLoadsPerLayerAndVisit) {
  const model::Decoder decoder = model::init_decoder(config().model, 1);
  // Layer 1: balanced; layer 2, visit 1: all on experts 0, 1; visit 2: all on 2, 3 (mirrored);
  // layer 3: 1/2, 1/4, 1/8, 1/8.
  const at::Tensor counts =
      at::tensor(std::vector<std::int64_t>{5, 5, 5, 5, 10, 10, 0, 0, 0, 0, 10, 10, 16, 8, 4, 4})
          .view({4, 4});
  const auto loads = router_loads(decoder, counts);
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (const auto& load : loads) places.emplace_back(load.layer, load.visit);
  EXPECT_THAT(places,
              ElementsAre(std::pair{1, 1}, std::pair{2, 1}, std::pair{2, 2}, std::pair{3, 1}));
  EXPECT_DOUBLE_EQ(loads[0].max_load, 1);
  EXPECT_DOUBLE_EQ(loads[0].entropy, 1);
  for (const int visit : {1, 2}) {
    EXPECT_DOUBLE_EQ(loads[visit].max_load, 2);  // E / k
    EXPECT_DOUBLE_EQ(loads[visit].entropy, 0.5);
    EXPECT_EQ(loads[visit].unused, 2);
  }
  EXPECT_DOUBLE_EQ(loads[3].max_load, 2);
  EXPECT_DOUBLE_EQ(loads[3].entropy, 0.875);  // 1.75 bits of 2
}

// ---- AdamW

/// One number of AdamW, in double, as the paper of Loshchilov and Hutter writes it.
struct Scalar {
  double w, m = 0, v = 0;
  void step(double g, double lr, double decay, int t, const TrainOptions& o) {
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, t)), v_hat = v / (1 - std::pow(o.beta2, t));
    w -= lr * decay * w + lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
};

TEST(AdamWTest, IsTheFormulaWithClippingAndDecayOfMatricesOnly) {
  TrainOptions options;
  options.clip = 1;
  options.weight_decay = 0.3;
  const at::Tensor matrix = at::tensor({0.5f, -1.0f, 2.0f, 0.25f}).view({2, 2});
  const at::Tensor gain = at::tensor({1.0f, 1.5f});
  const model::NamedTensors parameters = {{"matrix", matrix}, {"norm.weight", gain}};
  AdamW optimizer(options, parameters, zero_moments(parameters));
  std::vector<Scalar> expected = {{0.5}, {-1.0}, {2.0}, {0.25}, {1.0}, {1.5}};
  for (int t = 1; t <= 5; ++t) {
    const double size = t == 3 ? 0.01 : 2;  // once below the clip norm
    std::vector<float> g;
    double squares = 0;
    for (int i = 0; i < 6; ++i) {
      g.push_back(static_cast<float>(size * std::sin(1 + i + 2 * t)));
      squares += static_cast<double>(g.back()) * g.back();
    }
    const double norm = std::sqrt(squares);
    matrix.mutable_grad() = at::tensor({g[0], g[1], g[2], g[3]}).view({2, 2});
    gain.mutable_grad() = at::tensor({g[4], g[5]});
    const double lr = 0.01 * t;
    const UpdateResult result = optimizer.step(lr, t);
    EXPECT_FALSE(result.skipped());
    EXPECT_NEAR(result.grad_norm, norm, 1e-6 * norm);
    EXPECT_EQ(norm > 1, t != 3);
    const double scale = std::min(1.0, 1 / norm);
    for (int i = 0; i < 6; ++i) {
      auto& e = expected[static_cast<std::size_t>(i)];
      e.step(scale * g[static_cast<std::size_t>(i)], lr, i < 4 ? 0.3 : 0, t, options);
      const float w = i < 4 ? matrix.view(-1)[i].item<float>() : gain[i - 4].item<float>();
      EXPECT_NEAR(w, e.w, 2e-6) << "step " << t << ", number " << i;
    }
  }
}

TEST(AdamWTest, NonFiniteGradientChangesNothingAndIsNamed) {
  const at::Tensor a = at::ones({3, 3}), b = at::ones({4});
  const model::NamedTensors parameters = {{"a", a}, {"b", b}};
  AdamW optimizer({}, parameters, zero_moments(parameters));
  a.mutable_grad() = at::ones({3, 3});
  b.mutable_grad() = at::ones({4});
  optimizer.step(0.1, 1);
  const at::Tensor a_before = a.clone(), first_before = optimizer.moments().first[0].clone();
  b.mutable_grad()[2] = std::numeric_limits<float>::infinity();
  const UpdateResult result = optimizer.step(0.1, 2);
  EXPECT_TRUE(result.skipped());
  EXPECT_THAT(result.non_finite, ElementsAre("b"));
  EXPECT_TRUE(at::equal(a, a_before));
  EXPECT_TRUE(at::equal(optimizer.moments().first[0], first_before));
}

TEST(AdamWTest, TransposedGradientIsReadByPlaceNotByMemory) {
  const auto after = [](const at::Tensor& gradient) {
    const at::Tensor w = at::zeros({2, 3});
    const model::NamedTensors parameters = {{"w", w}};
    AdamW optimizer({}, parameters, zero_moments(parameters));
    w.mutable_grad() = gradient;
    optimizer.step(0.1, 1);
    return w;
  };
  const at::Tensor gradient = at::arange(6, at::kFloat).view({2, 3}) - 2.5;
  EXPECT_TRUE(at::equal(after(gradient), after(gradient.t().contiguous().t())));
}

}  // namespace
}  // namespace smelt::train
