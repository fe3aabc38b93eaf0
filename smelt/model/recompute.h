// Executed layers that keep only the stream before them: backward computes the rest again.
//
// The routers' choices of the forward pass are kept and taken again, so that a near tie cannot fall
// the other way; their statistics leave the forward pass once, as outputs.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <vector>

#include "smelt/model/decoder.h"

namespace smelt::model {

/// End (exclusive) of the run of executed layers from `first` on that is recomputed as one under
/// decoder.recompute: one layer, or one visit of the looped span; `first` when it is kept.
std::size_t recomputed_until(const Decoder& decoder, std::size_t first);

/// Executed layers first … end - 1 on the stream x [N, H]; appends their routing.  Gradients of the
/// weights are added to their grad while backward runs, those of x are handed on.
at::Tensor forward_recomputed(const Decoder& decoder, std::size_t first, std::size_t end,
                              const at::Tensor& x, const Rotary& rotary,
                              const std::vector<Piece>& pieces, std::vector<Routing>& routing);

}  // namespace smelt::model
