#include "smelt/train/router_bias.h"

namespace smelt::train {

void move_router_biases(model::Decoder& decoder, const at::Tensor& counts,
                        const RouterOptions& router) {
  if (router.balance != Balance::kBias) return;
  const at::NoGradGuard no_grad;
  for (std::size_t layer = 0; layer < decoder.layers.size(); ++layer) {
    at::Tensor& bias = decoder.layers[layer].gate_bias;  // [visits, E]
    at::Tensor load = at::zeros_like(bias, at::kDouble);
    for (std::size_t e = 0; e < decoder.executed_layers(); ++e) {
      const arch::ExecutedLayer& step = decoder.schedule[e];
      if (step.layer != static_cast<std::int64_t>(layer)) continue;
      load[step.visit - 1].copy_(counts[static_cast<std::int64_t>(e)]);
    }
    if (router.pool_visits) load.copy_(load.sum(0, true).expand_as(load));
    bias.add_((load.mean(1, true) - load).sign().to(at::kFloat), router.bias_rate);
  }
}

}  // namespace smelt::train
