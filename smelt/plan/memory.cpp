#include "smelt/plan/memory.h"

#include <algorithm>

#include "smelt/budget/budget.h"

namespace smelt::plan {
namespace {

constexpr double kBytes = 4;
// Measured: LibTorch for the CPU with two threads; the products' compiled kernels, one for each
// number of rows that experts meet.
constexpr double kProgram = 135e6;
constexpr double kKernels = 45e6;
constexpr double kChunkLogits = 8 << 20;

/// Tokens whose logits the engine holds at once on the way to gradients.
double engine_chunk(double vocab_size) {
  return std::clamp(kChunkLogits / vocab_size, 128.0, 1024.0);
}

/// Kept of all executed layers when it is most, per token.
double kept_elements(const arch::ModelConfig& model, arch::Recompute recompute) {
  const auto hidden = static_cast<double>(model.hidden_size);
  double all = 0, largest = 0;             // of every executed layer; of one
  double before = 0, once = 0, after = 0;  // of the layers before the loop, one visit to it, …
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const double elements = activation_elements(model, layer);
    const std::int64_t visits = model.visits_of(layer);
    all += elements * static_cast<double>(visits);
    largest = std::max(largest, elements);
    (visits > 1 ? once : once > 0 ? after : before) += elements;
  }
  // Routers' choices and probabilities are kept, whatever is recomputed.
  const double routing = static_cast<double>(model.num_experts + 2 * model.num_experts_per_tok + 1);
  if (recompute == arch::Recompute::kLayer) {
    return static_cast<double>(model.executed_layers()) * (hidden + routing) + largest;
  }
  if (recompute == arch::Recompute::kLoop && once > 0) {
    const auto span = static_cast<double>(model.loop->last - model.loop->first + 1);
    const auto visits = static_cast<double>(model.loop->visits);
    // Backward is done with what lies behind the loop when it computes a visit again.
    return before + std::max(once, after) + visits * (hidden + span * routing);
  }
  return all;
}

}  // namespace

double activation_elements(const arch::ModelConfig& m, std::int64_t layer) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto heads = static_cast<double>(m.num_attention_heads);
  double attention = 2 * static_cast<double>(m.query_width() + m.key_value_width()) + heads;
  if (m.latent()) {  // the latent vectors, and the heads that come out of them
    const auto value = static_cast<double>(m.v_head_dim);
    attention = 2 * static_cast<double>(m.query_width()) + 2 * heads * value +
                static_cast<double>(m.q_lora_rank + m.kv_lora_rank + m.qk_rope_head_dim) + heads;
  } else if (m.qk_norm) {
    attention += static_cast<double>(m.query_width() + m.key_value_width());
  }
  double feed_forward = 0;
  if (m.dense(layer)) {
    feed_forward = 2 * static_cast<double>(m.intermediate_size);
  } else {
    feed_forward = static_cast<double>(m.num_experts) + 1 +
                   static_cast<double>(m.num_experts_per_tok) *
                       (2 * static_cast<double>(m.moe_intermediate_size) + 7) +
                   2 * static_cast<double>(m.shared_expert_intermediate_size);
  }
  return 4 * h + attention + feed_forward;
}

Memory training_memory(const arch::ModelConfig& model, const MemoryOptions& options) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto vocab_size = static_cast<double>(model.vocab_size);
  const double parameters = budget::count(model, 1).parameters_total_all();
  const bool looped = model.loop && model.loop->visits > 1;
  Memory memory;
  memory.program = kProgram + (model.num_experts > 1 ? kKernels : 0);
  memory.weights = kBytes * parameters;
  // The head's gradient is there before it is handed on; where gradients add up, one layer's are.
  memory.gradients = kBytes * (parameters + 2 * vocab_size * hidden);
  if (looped || options.accumulates) {
    memory.gradients +=
        kBytes * 3 * hidden * static_cast<double>(model.num_experts * model.moe_intermediate_size);
  }
  const auto devices = static_cast<double>(options.devices);
  memory.moments = 2 * kBytes * parameters / devices;
  if (options.devices > 1) memory.gradients += kBytes * parameters * (1 + 1 / devices);
  // At work: the experts' outputs of one layer, and the stream and its gradients.
  const double work = static_cast<double>(model.num_experts_per_tok) * hidden + 8 * hidden;
  memory.activations = kBytes * options.tokens * (kept_elements(model, options.recompute) + work);
  const double chunk = options.logits_chunk > 0 ? options.logits_chunk : engine_chunk(vocab_size);
  memory.logits = kBytes * std::min(chunk, options.tokens) * vocab_size;
  return memory;
}

Json to_json(const Memory& memory) {
  return {{"weights", memory.weights}, {"gradients", memory.gradients},
          {"moments", memory.moments}, {"activations", memory.activations},
          {"logits", memory.logits},   {"program", memory.program},
          {"total", memory.total()}};
}

}  // namespace smelt::plan
