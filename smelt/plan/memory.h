// Memory that training one model takes on one device.
//
//   Memory memory = training_memory(config, {.tokens = 4096, .recompute = Recompute::kLayer});
//   memory.total();   // bytes
#pragma once

#include <cstdint>

#include "smelt/arch/model_config.h"
#include "smelt/core/fields.h"
#include "smelt/core/json.h"

namespace smelt::plan {

/// What the backward pass recomputes: nothing, or each executed layer from its input.
enum class Recompute { kNone, kLayer };

struct MemoryOptions {
  double tokens = 0;  // of one forward pass on one device
  Recompute recompute = Recompute::kNone;
  double logits_chunk = 0;   // tokens whose logits exist at once; 0: all
  double element_bytes = 4;  // of activations and logits
};

/// Bytes.  Weights, gradients and both moments are fp32.
struct Memory {
  double weights = 0, gradients = 0, moments = 0;
  double activations = 0;  // kept for the backward pass, and one layer's at work
  double logits = 0;
  double total() const { return weights + gradients + moments + activations + logits; }
};

/// Elements kept per token of executed layer number `layer` (0-based physical): the stream before
/// both sublayers and both norms' outputs 4·H, queries and attention output 2·q, keys and values,
/// router E, and per expert of a token gate, up, their product and the output 3·I + H.
double activation_elements(const arch::ModelConfig& model, std::int64_t layer);

Memory training_memory(const arch::ModelConfig& model, const MemoryOptions& options);

Json to_json(const Memory& memory);

}  // namespace smelt::plan

template <>
struct smelt::EnumNames<smelt::plan::Recompute> {
  static constexpr std::pair<smelt::plan::Recompute, const char*> kNames[] = {
      {smelt::plan::Recompute::kNone, "none"}, {smelt::plan::Recompute::kLayer, "layer"}};
};
