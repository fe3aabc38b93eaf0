// Parameters, training FLOPs and KV cache of one model, term by term (paper section 3).
//
// With q = heads · head_dim and kv = KV heads · head_dim, per physical layer: attention 2·H·q +
// 2·H·kv, router H·E, experts 3·H·I each, norms.  Training FLOPs per token are F = 6·W +
// 12·q·t̄·L_eff: W the weights a token multiplies with over the executed layers, t̄ the mean number
// of attended positions.
//
//   Budget budget = count(config, 392);
//   budget.flops_per_token;            // F
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"
#include "smelt/core/json.h"

namespace smelt::budget {

/// The mean attended length at which the paper's figures come out.
inline constexpr double kPaperAttended = 392;

struct Term {
  std::string name;
  double count = 0;
};

struct Budget {
  std::vector<Term> parameter_terms;  // over all physical layers; sum = parameters_total
  double parameters_total = 0;        // without embedding, head and final norm
  double parameters_active = 0;       // one traversal of the physical layers: top_k experts
  double parameters_executed = 0;     // W: weights multiplied with, summed over executed layers
  double parameters_embedding = 0;    // embedding, head (when untied), final norm

  std::vector<Term> flops_terms;  // per token, training; sum = flops_per_token
  double flops_per_token = 0;     // F: forward + backward under the segment mask
  double flops_forward = 0;       // F / 3
  double flops_head = 0;          // LM head, training, per token; outside F
  double six_n = 0;               // 6 × active, the common convention
  double full_context = 0;        // 6 × executed + 12·q·context·L_eff
  double attended = 0;            // t̄ used
  double context = 0;             // tokens, of full_context

  double kv_elements_per_token = 0;  // keys and values over the executed layers
  std::int64_t executed_layers = 0;  // L_eff
};

/// `attended` is t̄, positions; `context` only enters `full_context`, tokens.
Budget count(const arch::ModelConfig& model, double attended, double context = 4096);

/// Bytes per token of a KV cache with elements of `element_bytes` (2: bf16).
double kv_bytes_per_token(const Budget& budget, double element_bytes);

/// S = 1 − (F/F0)·N0/N against a fully active control (paper section 3).
double sparsity(const Budget& model, const Budget& control);

/// The control of a config: the same geometry with every expert active (experts = top_k).
arch::ModelConfig fully_active(arch::ModelConfig model);

/// Signed relative differences of a matched model from its Baseline.
struct Mismatch {
  double flops = 0;
  double parameters = 0;
  double kv_cache = 0;
};
Mismatch mismatch(const Budget& model, const Budget& baseline);

/// Schema "smelt.budget/1".
Json to_json(const Budget& budget);
Json to_json(const Mismatch& mismatch);

}  // namespace smelt::budget
