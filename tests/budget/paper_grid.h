// The rows of tests/data/paper/grid.csv as model configs.
#pragma once

#include "smelt/arch/model_config.h"
#include "smelt/core/csv.h"

namespace smelt::budget {

/// Row `r` of the grid; q/k norms off: the published counts leave them out.
inline arch::ModelConfig grid_model(const Csv& csv, std::size_t r) {
  const auto whole = [&](const char* column) {
    return static_cast<std::int64_t>(csv.number(r, csv.column(column)));
  };
  arch::ModelConfig m;
  m.vocab_size = 1;
  m.hidden_size = whole("hidden");
  m.num_hidden_layers = whole("layers");
  m.num_experts = whole("experts");
  m.num_experts_per_tok = whole("top_k");
  m.moe_intermediate_size = whole("expert_ffn");
  m.num_attention_heads = whole("heads");
  m.head_dim = whole("head_dim");
  m.num_key_value_heads = whole("kv_heads");
  m.qk_norm = false;
  if (whole("visits") > 1) m.loop = arch::Loop{whole("loop_first"), whole("loop_last"), 2, 0.5};
  return m;
}

inline bool is_open(const Csv& csv, std::size_t r) {
  return csv.rows[r][csv.column("heads")] == "?";
}

}  // namespace smelt::budget
