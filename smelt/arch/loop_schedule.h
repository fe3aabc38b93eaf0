// The order in which physical layers are executed: prelude, span × visits, coda.
//
// A block loop: the span runs start to end, then again start to end.  Weights belong to a physical
// layer; KV slots, router statistics and probes to a (layer, visit), in this order.
#pragma once

#include <cstdint>
#include <vector>

#include "smelt/arch/model_config.h"

namespace smelt::arch {

struct ExecutedLayer {
  std::int64_t layer = 0;       // physical, 0-based
  std::int64_t visit = 1;       // 1-based
  double residual_scale = 1.0;  // factor on the writes of attention and MoE
};

/// Entry e is the e-th executed layer; its index is also its KV slot.
using LoopSchedule = std::vector<ExecutedLayer>;

LoopSchedule make_schedule(const ModelConfig& config);

}  // namespace smelt::arch
