// Per-token norms and cosines, summed by document.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "smelt/probe/probe.h"

namespace smelt::probe {

/// values [N, C] -> sums over each piece [pieces, C], fp64 on the CPU.
at::Tensor sum_by_piece(const at::Tensor& values, const model::Batch& batch);

/// Norms of one executed layer, in the order of kNormNames -> [N, kNorms] fp64.
at::Tensor token_norms(const model::LayerTrace& trace);

/// cos(a, b) over the last dimension, fp64; NaN where a vector is zero.
at::Tensor cosine(const at::Tensor& a, const at::Tensor& b);

/// Common elements of two sets of experts, [N, k] each -> [N] fp64.
at::Tensor common_experts(const at::Tensor& a, const at::Tensor& b);

/// writes [executed, N, H] -> Σ_t cos(w_e(t), w_f(t)) per piece, [pieces, executed, executed] fp64
/// on the CPU.
at::Tensor cosine_sums(const at::Tensor& writes, const model::Batch& batch);

/// Adds column `column` of sums [pieces, C] to `figure`, each piece with its length as weight.
void add_column(const at::Tensor& sums, std::int64_t column, const ProbeBatch& batch,
                DocumentMean& figure);

}  // namespace smelt::probe
