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
  /// `parameters` and `moments` are updated in place; their storage is shared, not copied.
  AdamW(const TrainOptions& options, model::NamedTensors parameters, Moments moments);

  /// One update from the parameters' grad (no grad = zero).  `update` is t, from 1.
  UpdateResult step(double lr, std::int64_t update);
  void clear_gradients();

  const Moments& moments() const { return moments_; }

 private:
  struct Group {  // one weight decay
    std::vector<std::int64_t> members;
    double weight_decay = 0;
  };

  TrainOptions options_;
  model::NamedTensors parameters_;
  Moments moments_;
  std::vector<Group> groups_;
};

}  // namespace smelt::train
