#include "smelt/plan/memory.h"

#include <gtest/gtest.h>

namespace smelt::plan {
namespace {

// H 4, q 6, kv 2, 3 experts of width 5, top-2, 3 layers, layer 2 twice, V 7, untied, no q/k norms.
arch::ModelConfig hand_model() {
  arch::ModelConfig m;
  m.vocab_size = 7;
  m.hidden_size = 4;
  m.num_hidden_layers = 3;
  m.num_attention_heads = 3;
  m.num_key_value_heads = 1;
  m.head_dim = 2;
  m.moe_intermediate_size = 5;
  m.num_experts = 3;
  m.num_experts_per_tok = 2;
  m.qk_norm = false;
  m.loop = arch::Loop{2, 2, 2, 0.5};
  return m;
}

TEST(Memory, AgreesWithAHandCount) {
  const arch::ModelConfig m = hand_model();
  const double parameters = 3 * (24 + 16 + 24 + 12 + 180 + 8) + 2 * 28 + 4;
  const double layer = 4 * 4 + 2 * (6 + 2) + 3 + 2 * (3 * 5 + 4);
  EXPECT_EQ(activation_elements(m, 0), layer);
  const Memory all = training_memory(m, {.tokens = 10});
  EXPECT_EQ(all.weights, 4 * parameters);
  EXPECT_EQ(all.gradients, 4 * parameters);
  EXPECT_EQ(all.moments, 8 * parameters);
  EXPECT_EQ(all.activations, 4 * 10 * 4 * layer);  // four executed layers
  EXPECT_EQ(all.logits, 4 * 10 * 7);
  EXPECT_EQ(all.total(), 16 * parameters + 160 * layer + 280);
}

TEST(Memory, RecomputingKeepsTheStreamAndOneLayer) {
  const arch::ModelConfig m = hand_model();
  const Memory less = training_memory(m, {.tokens = 10, .recompute = Recompute::kLayer});
  EXPECT_EQ(less.activations, 4 * 10 * (4 * 4 + activation_elements(m, 0)));
  const Memory chunked = training_memory(m, {.tokens = 10, .logits_chunk = 3, .element_bytes = 2});
  EXPECT_EQ(chunked.logits, 2 * 3 * 7);
}

}  // namespace
}  // namespace smelt::plan
