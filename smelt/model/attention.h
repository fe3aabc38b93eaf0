// Causal grouped-query attention within documents, and rotary positions.
//
//   o_t = Σ_{s ≤ t, same piece} softmax_s(q_t · k_s / sqrt(head_dim)) v_s;  query head h reads KV
//   head h / (heads / kv_heads)
//
// Pieces are computed one by one, a block of queries against all earlier keys at a time (no [T, T]
// scores, no mask), so a piece's output depends on nothing outside it, to the bit.  RoPE:
// rotate-half layout, angle = position · theta^(-2i / head_dim), tables in fp32 from fp64 angles.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>

#include "smelt/arch/model_config.h"
#include "smelt/model/batch.h"

namespace smelt::model {

/// Rotary angles of the positions at hand; the same on every visit.
struct Rotary {
  at::Tensor cosine;     // [P, head_dim / 2], P > every position
  at::Tensor sine;       // [P, head_dim / 2]
  at::Tensor positions;  // [n] int64
};

/// Tables up to the largest of `positions` [n] int64.
Rotary make_rotary(const arch::ModelConfig& config, const at::Tensor& positions);
/// The same with given tables (generation builds them once): only the positions change.
Rotary at_positions(const Rotary& tables, const at::Tensor& positions);

/// q [N, heads, D], k and v [N, kv_heads, D] -> [N, heads, D]; differentiable.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     std::span<const Piece> pieces);

/// The last n tokens of one document against all m ≥ n of its keys: q [n, heads, D], k and v [m,
/// kv_heads, D] (any strides with a dense last dimension, so a slice of a cache) -> [n, heads, D].
/// No gradient.
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// One head's attention probabilities within one piece, for probes: q [n, D], k [n, D] -> [n, n],
/// zero above the diagonal.
at::Tensor attention_map(const at::Tensor& q, const at::Tensor& k);

}  // namespace smelt::model
