#include "smelt/plan/memory.h"

#include <algorithm>

#include "smelt/budget/budget.h"

namespace smelt::plan {
namespace {

constexpr double kFloatBytes = 4;

}  // namespace

double activation_elements(const arch::ModelConfig& m, std::int64_t layer) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto heads = static_cast<double>(m.num_attention_heads);
  double attention = 2 * static_cast<double>(m.query_width() + m.key_value_width());
  if (m.latent()) {  // the latent vectors, and the heads that come out of them
    const auto value = static_cast<double>(m.v_head_dim);
    attention = 2 * static_cast<double>(m.query_width()) + 2 * heads * value +
                static_cast<double>(m.q_lora_rank + m.kv_lora_rank + m.qk_rope_head_dim);
  }
  double feed_forward = 0;
  if (m.dense(layer)) {
    feed_forward = 3 * static_cast<double>(m.intermediate_size);
  } else {
    feed_forward = static_cast<double>(m.num_experts) +
                   static_cast<double>(m.num_experts_per_tok) *
                       (3 * static_cast<double>(m.moe_intermediate_size) + h) +
                   3 * static_cast<double>(m.shared_expert_intermediate_size);
  }
  return 4 * h + attention + feed_forward;
}

Memory training_memory(const arch::ModelConfig& model, const MemoryOptions& options) {
  const double parameters = budget::count(model, 1).parameters_total_all();
  Memory memory;
  memory.weights = memory.gradients = kFloatBytes * parameters;
  memory.moments = 2 * kFloatBytes * parameters;
  double all = 0, largest = 0;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const double elements = activation_elements(model, layer);
    all += elements * static_cast<double>(model.visits_of(layer));
    largest = std::max(largest, elements);
  }
  if (options.recompute == Recompute::kLayer) {
    all = static_cast<double>(model.executed_layers() * model.hidden_size) + largest;
  }
  memory.activations = options.element_bytes * options.tokens * all;
  const double chunk =
      options.logits_chunk > 0 ? std::min(options.logits_chunk, options.tokens) : options.tokens;
  memory.logits = options.element_bytes * chunk * static_cast<double>(model.vocab_size);
  return memory;
}

Json to_json(const Memory& memory) {
  return {{"weights", memory.weights}, {"gradients", memory.gradients},
          {"moments", memory.moments}, {"activations", memory.activations},
          {"logits", memory.logits},   {"total", memory.total()}};
}

}  // namespace smelt::plan
