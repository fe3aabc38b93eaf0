// What one physical layer holds and does per token: the ground that counting and matching share
// (paper section 3).
#pragma once

#include "smelt/arch/model_config.h"

namespace smelt::budget {

/// Attention of one physical layer.
struct AttentionCost {
  double query = 0, key_value = 0, output = 0;  // weights, each multiplied with once per token
  double norms = 0, biases = 0;                 // weights
  double scores = 0;                            // multiply-adds per attended position: q·kᵀ and p·v
  double cached = 0;                            // elements per token
};

AttentionCost attention_cost(const arch::ModelConfig& model);

/// The feed-forward of one physical layer.
struct FeedForwardCost {
  double router = 0;                         // weights
  double expert = 0, experts = 0, used = 0;  // weights of one; how many there are, how many run
  double shared = 0, dense = 0, biases = 0;  // weights
};

/// `layer` is 0-based.
FeedForwardCost feed_forward_cost(const arch::ModelConfig& model, std::int64_t layer);

}  // namespace smelt::budget
