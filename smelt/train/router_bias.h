// Balance without a loss: a bias on the choice of experts that follows their load (Wang et al.,
// 2408.15664).
//
//   b_e ← b_e + bias_rate · sign(mean load − load_e)      after every step, from all its tokens
//
// The bias takes part in the choice alone: weights, probabilities and gradients are those without.
// Each (layer, visit) has its own, or with pool_visits the visits of a layer have one.
#pragma once

#include <torch/torch.h>

#include "smelt/model/decoder.h"
#include "smelt/train/run_config.h"

namespace smelt::train {

/// `counts` [executed layers, E] int64: tokens sent to each expert in the step.  Nothing happens
/// unless router.balance is "bias".
void move_router_biases(model::Decoder& decoder, const at::Tensor& counts,
                        const RouterOptions& router);

}  // namespace smelt::train
