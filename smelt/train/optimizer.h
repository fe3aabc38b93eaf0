// AdamW with decoupled weight decay and clipping by the global gradient norm.
//
//   m ← β1 m + (1-β1) g;  v ← β2 v + (1-β2) g²
//   w ← (1 - lr·λ) w - lr · (m / (1-β1^t)) / (sqrt(v / (1-β2^t)) + eps)
//
// λ = 0 for the groups of tensors that `no_decay` names: the norm gains unless said otherwise; as
// in Megatron and most others, embedding, head and router are decayed.  A non-finite norm leaves
// weights, moments and t as they were.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "smelt/model/decoder.h"
#include "smelt/train/collectives.h"
#include "smelt/train/run_config.h"

namespace smelt::train {

/// First and second moments, one per named parameter, in the same order.
struct Moments {
  std::vector<at::Tensor> first;
  std::vector<at::Tensor> second;
};

Moments zero_moments(const model::NamedTensors& parameters);

struct UpdateResult {
  double grad_norm = 0;  // before clipping
  std::vector<std::string>
      non_finite;  // tensors whose gradient is not finite; then nothing was changed
  bool skipped() const { return !non_finite.empty(); }
};

/// The group of plan::kParameterGroups that a parameter belongs to; empty for attention and
/// experts.
std::string parameter_group(const std::string& name);

class AdamW {
 public:
  /// `parameters` and `moments` are updated in place; their storage is shared, not copied.  With
  /// several ranks (ZeRO-1) each keeps the moments of its part of all elements and updates that.
  AdamW(const TrainOptions& options, model::NamedTensors parameters, Moments moments,
        Collectives& ranks = single_process());

  /// One update from the parameters' grad (no grad = zero), summed over the ranks.  `update` is t,
  /// from 1.
  UpdateResult step(double lr, std::int64_t update);
  void clear_gradients();

  /// Whole, put together from all ranks where there are several: all must call it.
  Moments moments() const;

 private:
  /// Elements begin … end - 1 of a parameter, updated by this rank.
  struct Slice {
    std::size_t parameter = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    double weight_decay = 0;
  };

  std::vector<at::Tensor> gradients() const;
  /// This rank's slices of the gradients, summed over the ranks.
  std::vector<at::Tensor> own_gradients();
  void share_weights();

  TrainOptions options_;
  model::NamedTensors parameters_;
  Collectives* ranks_;
  std::vector<Slice> slices_;
  std::vector<std::int64_t> counts_;  // elements of each rank
  Moments moments_;                   // one per slice
  at::Tensor all_, own_;              // [elements], of all ranks and of this one; with several only
};

}  // namespace smelt::train
