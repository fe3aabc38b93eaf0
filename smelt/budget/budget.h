// Parameters, training FLOPs and KV cache of one model, term by term (paper section 3).
//
// With q = heads · head_dim and kv = KV heads · head_dim, per physical layer: attention 2·H·q +
// 2·H·kv, router H·E, experts 3·H·I each, norms.  Training FLOPs per token are F = 6·W +
// 12·q·t̄·L_eff: W the weights a token multiplies with over the executed layers, t̄ the mean number
// of attended positions.  Dense feed-forwards, shared experts, biases and latent attention (whose
// q·kᵀ and p·v differ in width: 6·(q_qk + q_v)·t̄) are counted where a model has them.
//
// Counts are doubles: exact to 2^53, and never wrapping beyond it.
//
//   Budget budget = count(config, 392);
//   budget.flops_per_token;            // F
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"
#include "smelt/core/fields.h"
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

  double kv_elements_per_token = 0;  // what is cached over the executed layers
  std::int64_t executed_layers = 0;  // L_eff
  double width_to_depth = 0;         // hidden size / L_eff

  /// With embedding, head and final norm: the counts that model cards print.
  double parameters_total_all() const { return parameters_total + parameters_embedding; }
  double parameters_active_all() const { return parameters_active + parameters_embedding; }
};

/// Types of a KV cache's elements.
enum class CacheType { kF32, kF16, kBf16, kFp8 };
double bytes_of(CacheType type);

/// t̄ of documents of `tokens` each: (n + 1) / 2.
inline double attended_of_documents(double tokens) {
  return (tokens + 1) / 2;
}

/// `attended` is t̄, positions; `context` only enters `full_context`, tokens.
Budget count(const arch::ModelConfig& model, double attended, double context = 4096);

/// S = 1 − (F/F0)·N0/N against a fully active control (paper section 3).
double sparsity(const Budget& model, const Budget& control);

/// The control of a config: the same geometry with every expert active (experts = top_k); a dense
/// model is its own.
arch::ModelConfig fully_active(arch::ModelConfig model);

/// Signed relative differences of a matched model from its Baseline.
struct Mismatch {
  double flops = 0;
  double parameters = 0;
  double kv_cache = 0;
};
Mismatch mismatch(const Budget& model, const Budget& baseline);

/// Schema "smelt.budget/1"; the cache in bytes for elements of `type`.
Json to_json(const Budget& budget, CacheType type = CacheType::kBf16);
Json to_json(const Mismatch& mismatch);

}  // namespace smelt::budget

template <>
struct smelt::EnumNames<smelt::budget::CacheType> {
  static constexpr std::pair<smelt::budget::CacheType, const char*> kNames[] = {
      {smelt::budget::CacheType::kF32, "f32"},
      {smelt::budget::CacheType::kF16, "f16"},
      {smelt::budget::CacheType::kBf16, "bf16"},
      {smelt::budget::CacheType::kFp8, "fp8"}};
};
