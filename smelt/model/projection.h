// The dense parts of a layer as single autograd nodes: RMSNorm; q/k/v projection with q/k-norm and
// RoPE; the output projection with its residual write.
#pragma once

#include <torch/torch.h>

#include <array>

#include "smelt/model/attention.h"
#include "smelt/model/decoder.h"
#include "smelt/model/products.h"

namespace smelt::model {

/// x [n, width] -> [n, width], weight · x / sqrt(mean(x²) + eps).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// x [n, H] -> q [n, heads, D], k and v [n, kv_heads, D]; q and k normed (where the layer has
/// norms) and rotated.
std::array<at::Tensor, 3> project_qkv(const at::Tensor& x, const LayerWeights& weights,
                                      const Rotary& rotary, double eps, Precision precision);

/// residual [n, H] + scale · input [n, in] · weight [H, in]ᵀ.
at::Tensor project_onto(const at::Tensor& residual, const at::Tensor& input,
                        const at::Tensor& weight, double scale, Precision precision);

/// x [n, in] · weight [out, in]ᵀ; no gradient.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight, Precision precision);

}  // namespace smelt::model
