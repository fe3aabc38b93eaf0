// Memory that training one model takes on one device.
//
//   Memory memory = training_memory(config, {.tokens = 4096, .recompute =
//   arch::Recompute::kLayer}); memory.total();   // bytes
//
// Counts what the engine holds when it holds most, at the start of the backward pass
// (docs/engine.md).
#pragma once

#include <cstdint>

#include "smelt/arch/execution.h"
#include "smelt/arch/model_config.h"
#include "smelt/core/json.h"

namespace smelt::plan {

struct MemoryOptions {
  double tokens = 0;  // of one forward pass on one device
  arch::Recompute recompute = arch::Recompute::kNone;
  bool accumulates = false;  // a step is more than one forward pass
  std::int64_t devices = 1;  // that share the moments (ZeRO-1)
  double logits_chunk = 0;   // tokens whose logits exist at once; 0: as the engine does it
};

/// Bytes; everything is fp32, also where products take bf16 factors.
struct Memory {
  double weights = 0;
  double gradients = 0;  // with those that are made before they are added to the others
  double moments = 0;
  double activations = 0;  // kept for the backward pass, and one layer's at work
  double logits = 0;
  double program = 0;  // the program and LibTorch without a model
  double total() const { return weights + gradients + moments + activations + logits + program; }
};

/// Elements (of 4 bytes) kept per token of executed layer number `layer` (0-based physical): the
/// stream before both sublayers and both norms' outputs 4·H; queries and attention output 2·q, keys
/// and values 2·kv, both again before their norms, a number per head; router E; and of a token's k
/// experts 2·I each, with a weight and three 64-bit places.
double activation_elements(const arch::ModelConfig& model, std::int64_t layer);

Memory training_memory(const arch::ModelConfig& model, const MemoryOptions& options);

Json to_json(const Memory& memory);

}  // namespace smelt::plan
