// The counts of smelt/budget against the thing itself: tensor sizes, and the multiply-adds of every
// matrix product that the forward and the backward pass issue, counted at the calls (oneDNN's and
// BLAS's by the linker's --wrap, LibTorch's own by an observer).
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "smelt/budget/budget.h"
#include "smelt/model/products.h"
#include "tests/model/tiny.h"

namespace {

std::atomic<std::int64_t> g_multiply_adds{0};

}  // namespace

extern "C" {
void __real_sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
                   const float*, const int*, const float*, const int*, const float*, float*,
                   const int*);
void __wrap_sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
                   const float* alpha, const float* a, const int* lda, const float* b,
                   const int* ldb, const float* beta, float* c, const int* ldc) {
  g_multiply_adds += static_cast<std::int64_t>(*m) * *n * *k;
  __real_sgemm_(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
// at::native::cpublas::brgemm of fp32 factors
void __real__ZN2at6native7cpublas6brgemmEllllllbPKfS3_Pfb(std::int64_t, std::int64_t, std::int64_t,
                                                          std::int64_t, std::int64_t, std::int64_t,
                                                          bool, const float*, const float*, float*,
                                                          bool);
void __wrap__ZN2at6native7cpublas6brgemmEllllllbPKfS3_Pfb(std::int64_t m, std::int64_t n,
                                                          std::int64_t k, std::int64_t lda,
                                                          std::int64_t ldb, std::int64_t ldc,
                                                          bool add, const float* a, const float* b,
                                                          float* c, bool vnni) {
  g_multiply_adds += m * n * k;
  __real__ZN2at6native7cpublas6brgemmEllllllbPKfS3_Pfb(m, n, k, lda, ldb, ldc, add, a, b, c, vnni);
}
}

namespace smelt::model {
namespace {

std::unique_ptr<at::ObserverContext> count_product(const at::RecordFunction& call) {
  const std::string name = call.name();
  const bool with_sum = name.starts_with("aten::addmm");
  if (!with_sum && name != "aten::mm") return nullptr;
  const auto inputs = call.inputs();
  const at::Tensor left = inputs[with_sum ? 1 : 0].toTensor();
  const at::Tensor right = inputs[with_sum ? 2 : 1].toTensor();
  g_multiply_adds += left.size(0) * left.size(1) * right.size(1);
  return nullptr;
}

/// Counts while it lives.
class Counter {
 public:
  Counter() {
    g_multiply_adds = 0;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(count_product)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION}));
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter() { at::removeCallback(handle_); }
  static double flops() { return 2 * static_cast<double>(g_multiply_adds.load()); }

 private:
  at::CallbackHandle handle_;
};

/// A random geometry with visits 1 to 3 and spans at the edges.
arch::ModelConfig drawn_model(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  arch::ModelConfig c;
  c.vocab_size = draw(11, 40);
  c.hidden_size = draw(5, 40);
  c.num_hidden_layers = draw(1, 4);
  c.num_key_value_heads = draw(1, 3);
  c.num_attention_heads = c.num_key_value_heads * draw(1, 3);
  c.head_dim = 2 * draw(1, 6);
  c.moe_intermediate_size = draw(3, 20);
  c.num_experts = draw(1, 7);
  c.num_experts_per_tok = draw(1, c.num_experts);
  c.tie_word_embeddings = draw(0, 1) == 1;
  c.qk_norm = draw(0, 1) == 1;
  const std::int64_t visits = draw(1, 3), last = c.num_hidden_layers;
  const std::pair<std::int64_t, std::int64_t> spans[] = {{1, 1}, {last, last}, {1, last}};
  const auto [first, end] = spans[draw(0, 2)];
  c.loop = arch::Loop{first, end, visits, 1.0 / static_cast<double>(visits)};
  return c;
}

/// What attention issues for one document of n ≤ 64 tokens, per executed layer: QKᵀ and PV forward;
/// QKᵀ again, dO Vᵀ, dV, dQ and dK backward, the masked half of each included.
double attention_flops(const arch::ModelConfig& c, std::int64_t n, int products) {
  return 2.0 * products * static_cast<double>(c.query_width() * n * n * c.executed_layers());
}

TEST(Counted, ParametersAreTheTensorsSizes) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    const arch::ModelConfig c = drawn_model(seed);
    double sizes = 0;
    for (const auto& [name, tensor] : named_parameters(init_decoder(c, seed))) {
      sizes += static_cast<double>(tensor.numel());
    }
    EXPECT_EQ(budget::count(c, 10).parameters_total_all(), sizes) << seed;
  }
}

TEST(Counted, FlopsAreTheProductsThatForwardAndBackwardIssue) {
  constexpr std::int64_t kTokens = 32;
  // The first product of a process is preceded by a tiny one that asks whether the machine can.
  const float one = 1;
  float product = 0;
  linear(&one, &one, &product, 1, 1, 1, arch::Precision::kFp32);
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    const arch::ModelConfig c = drawn_model(seed);
    const Decoder decoder = init_decoder(c, seed);
    require_gradients(decoder);
    const Batch batch = random_batch({kTokens}, c.vocab_size, seed);
    Counter counter;
    const Forward out = forward(decoder, batch);
    const double forward_flops = Counter::flops();
    out.hidden.square().sum().backward();
    const double all_flops = Counter::flops();

    const budget::Budget b = budget::count(c, 0);  // no positions attended: F without the scores
    const double weights = kTokens * b.flops_per_token;
    EXPECT_DOUBLE_EQ(all_flops, weights + attention_flops(c, kTokens, 7)) << seed;
    EXPECT_DOUBLE_EQ(forward_flops, weights / 3 + attention_flops(c, kTokens, 2)) << seed;
  }
}

}  // namespace
}  // namespace smelt::model
