// The gradient of one training step, over any number of micro-batches.
//
//   objective = Σ nll / targets of the step + c_lb · mean LB + c_z · mean z      means over
//   executed layers
//
// Every rank brings the micro-batches of its own rows, as many as the others.  Every term is
// divided by what the whole step holds, so any split gives the same gradient up to rounding, but
// for the load balance "global", whose f counts the micro-batches so far.  Logged values are those
// of the whole step.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/model/batch.h"
#include "smelt/model/decoder.h"
#include "smelt/train/collectives.h"
#include "smelt/train/run_config.h"

namespace smelt::train {

/// What one (layer, visit)'s router did in a step.
struct RouterLoad {
  std::int64_t layer = 0;  // physical, from 1
  std::int64_t visit = 0;  // from 1
  double max_load =
      0;  // most used expert's share times the number of experts; 1 = balanced, E/k = collapsed
  double entropy = 0;       // of the shares, over ln E; 1 = balanced
  std::int64_t unused = 0;  // experts that no token chose
};

struct StepLosses {
  double loss = 0;  // mean NLL of the step's targets
  double objective = 0;
  double load_balance = 0;  // mean over executed layers; also when its coefficient is 0
  double z_loss = 0;        // mean over executed layers
  std::vector<double>
      domain_loss;      // mean NLL of the targets in each domain's documents; NaN without
  at::Tensor counts;    // [executed layers, E] int64: tokens sent to each expert
  std::string failure;  // why the forward pass stopped (router logits not finite); else empty
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// Adds the gradient of the step's objective to the parameters' grad.  Returns nothing when `stop`
/// said so, on any rank, between micro-batches (gradients are then meaningless).  The gradient is
/// this rank's part: those of all ranks sum to the step's; the losses are the step's.
std::optional<StepLosses> accumulate_gradients(const model::Decoder& decoder,
                                               const std::vector<model::Batch>& micro_batches,
                                               const RouterOptions& router,
                                               const std::function<bool()>& stop = {},
                                               Collectives& ranks = single_process());

std::vector<RouterLoad> router_loads(const model::Decoder& decoder, const at::Tensor& counts);
Json to_json(const std::vector<RouterLoad>& loads);

}  // namespace smelt::train
