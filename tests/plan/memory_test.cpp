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
  // stream 16, queries and output 12, keys and values 4, heads 3, router 3 + 1, k · (2·I + 7) = 34
  const double layer = 73, work = 2 * 4 + 8 * 4, head = 2 * 28;
  EXPECT_EQ(activation_elements(m, 0), layer);
  const Memory all = training_memory(m, {.tokens = 10});
  EXPECT_EQ(all.weights, 4 * parameters);
  EXPECT_EQ(all.gradients, 4 * (parameters + head + 180));  // the looped layer's add up
  EXPECT_EQ(all.moments, 8 * parameters);
  EXPECT_EQ(all.activations, 4 * 10 * (4 * layer + work));  // four executed layers
  EXPECT_EQ(all.logits, 4 * 10 * 7);
  EXPECT_EQ(all.total(),
            all.weights + all.gradients + all.moments + all.activations + all.logits + all.program);
  arch::ModelConfig normed = m;
  normed.qk_norm = true;  // queries and keys before their norms: 6 + 2
  EXPECT_EQ(activation_elements(normed, 0), layer + 8);
}

TEST(Memory, RecomputingKeepsTheStreamAndOneLayer) {
  const arch::ModelConfig m = hand_model();
  const double layer = 73, work = 40, kept = 4 + 3 + 2 * 2 + 1;  // stream, router of a layer
  const Memory by_layer = training_memory(m, {.tokens = 10, .recompute = arch::Recompute::kLayer});
  EXPECT_EQ(by_layer.activations, 4 * 10 * (4 * kept + layer + work));
  const Memory by_loop = training_memory(m, {.tokens = 10, .recompute = arch::Recompute::kLoop});
  // Of the layers before and in the loop; the one behind it is done with by then.
  EXPECT_EQ(by_loop.activations, 4 * 10 * (2 * layer + 2 * kept + work));
  const Memory chunked = training_memory(m, {.tokens = 10, .logits_chunk = 3});
  EXPECT_EQ(chunked.logits, 4 * 3 * 7);
}

TEST(Memory, DevicesShareTheMoments) {
  const arch::ModelConfig m = hand_model();
  const Memory one = training_memory(m, {.tokens = 10});
  const Memory four = training_memory(m, {.tokens = 10, .devices = 4});
  EXPECT_EQ(four.moments, one.moments / 4);
  // What is exchanged: all gradients in a row, and a device's part of them.
  EXPECT_EQ(four.gradients - one.gradients, one.weights * 1.25);
}

}  // namespace
}  // namespace smelt::plan
