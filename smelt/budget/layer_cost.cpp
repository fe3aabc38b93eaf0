#include "smelt/budget/layer_cost.h"

namespace smelt::budget {
namespace {

AttentionCost latent_attention(const arch::ModelConfig& m) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto heads = static_cast<double>(m.num_attention_heads);
  const auto nope = static_cast<double>(m.qk_nope_head_dim);
  const auto rope = static_cast<double>(m.qk_rope_head_dim);
  const auto value = static_cast<double>(m.v_head_dim);
  const auto q_rank = static_cast<double>(m.q_lora_rank);
  const auto kv_rank = static_cast<double>(m.kv_lora_rank);
  const double q = heads * (nope + rope);
  AttentionCost a;
  a.query = q_rank > 0 ? h * q_rank + q_rank * q : h * q;
  a.key_value = h * (kv_rank + rope) + kv_rank * heads * (nope + value);
  a.output = heads * value * h;
  a.norms = q_rank + kv_rank;
  a.biases = m.attention_bias ? q_rank + kv_rank + rope + h : 0;
  a.scores = q + heads * value;
  a.cached = kv_rank + rope;
  return a;
}

}  // namespace

AttentionCost attention_cost(const arch::ModelConfig& m) {
  if (m.latent()) return latent_attention(m);
  const auto h = static_cast<double>(m.hidden_size);
  const auto q = static_cast<double>(m.query_width());
  const auto kv = static_cast<double>(m.key_value_width());
  AttentionCost a;
  a.query = h * q;
  a.key_value = 2 * h * kv;
  a.output = q * h;
  if (m.qk_norm) a.norms = m.qk_norm_full ? q + kv : 2 * static_cast<double>(m.head_dim);
  if (m.attention_bias || m.qkv_bias) a.biases = q + 2 * kv + (m.attention_bias ? h : 0);
  a.scores = 2 * q;
  a.cached = 2 * kv;
  return a;
}

FeedForwardCost feed_forward_cost(const arch::ModelConfig& m, std::int64_t layer) {
  const auto h = static_cast<double>(m.hidden_size);
  FeedForwardCost f;
  if (m.dense(layer)) {
    const auto width = static_cast<double>(m.intermediate_size);
    f.dense = 3 * h * width;
    if (m.mlp_bias) f.biases = 2 * width + h;
    return f;
  }
  f.experts = static_cast<double>(m.num_experts);
  f.used = static_cast<double>(m.num_experts_per_tok);
  f.router = h * f.experts;
  f.expert = 3 * h * static_cast<double>(m.moe_intermediate_size);
  f.shared = 3 * h * static_cast<double>(m.shared_expert_intermediate_size);
  if (m.shared_expert_gate && m.shared_expert_intermediate_size > 0) f.shared += h;
  if (m.router_bias) f.biases = f.experts;
  const auto shared = static_cast<double>(m.shared_expert_intermediate_size);
  if (m.mlp_bias && shared > 0) f.biases += 2 * shared + h;
  return f;
}

}  // namespace smelt::budget
