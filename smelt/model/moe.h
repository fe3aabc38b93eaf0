// The sparse feed-forward: router and experts, as one autograd node each.
//
//   p = softmax(gate x),  chosen = the k largest logits, or p + bias (ties: lower index),  w =
//   p[chosen] (/ their sum) MoE(x) = Σ_chosen w_e · down_e( silu(gate_e x) · (up_e x) )
//
// Tokens are sorted by expert (stable counting sort); each expert's rows go through its matrices in
// blocks.  No token is dropped, no choice is made twice, and a token's output depends on the token
// alone, to the bit.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "smelt/model/products.h"

namespace smelt::model {

struct Routed {
  at::Tensor probabilities;  // [N, E]
  at::Tensor weights;        // [N, k], of the chosen experts
  at::Tensor experts;        // [N, k] int64, in the order of choice
  at::Tensor logsumexp;      // [N]
};

/// x [N, H], gate [E, H].  A logit that is not finite throws Error with `where` ("layer 3, visit
/// 2").  `bias` [E], if given, is added to p where experts are chosen, and nowhere else
/// (2408.15664).  `experts` [N, k], if given, are taken as the choice.
Routed route(const at::Tensor& x, const at::Tensor& gate, std::int64_t top_k, bool renormalise,
             const std::string& where, const float* bias = nullptr, const at::Tensor& experts = {});

/// residual [N, H] + scale · MoE(x); gate_up [E, 2I, H], down [E, H, I].  `write`, if given,
/// receives MoE(x) (without gradient).  An expert without tokens has a gradient of exact zeros.
at::Tensor add_experts(const at::Tensor& residual, const at::Tensor& x, const Routed& routed,
                       const at::Tensor& gate_up, const at::Tensor& down, double scale,
                       Precision precision, at::Tensor* write = nullptr);

}  // namespace smelt::model
