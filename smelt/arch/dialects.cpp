#include "smelt/arch/dialects.h"

namespace smelt::arch {
namespace {

// Defaults are those of transformers 5.24 (tests/arch/transformers_counts.py checks them).
constexpr Dialect kDialects[] = {
    {.model_type = "smelt",
     .defaults = R"({"num_key_value_heads": 4, "head_dim": null})",
     .names = "{}",
     .implied = "{}"},
    {.model_type = "qwen3_moe",
     .defaults = R"({
       "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 24,
       "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": null,
       "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
       "num_experts_per_tok": 8, "norm_topk_prob": false, "mlp_only_layers": [],
       "decoder_sparse_step": 1, "attention_bias": false, "qk_norm": true,
       "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": false, "use_sliding_window": false})",
     .names = "{}",
     .implied = "{}"},
    {.model_type = "qwen2_moe",
     .defaults = R"({
       "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 24,
       "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": null,
       "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_experts": 60,
       "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4,
       "norm_topk_prob": false, "mlp_only_layers": [], "decoder_sparse_step": 1,
       "qkv_bias": true, "qk_norm": false, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
       "rope_theta": 10000.0, "tie_word_embeddings": false, "use_sliding_window": false})",
     .names = "{}",
     .implied = R"({"shared_expert_gate": true})"},
    {.model_type = "mixtral",
     .defaults = R"({
       "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null,
       "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
       "qk_norm": false, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
       "rope_theta": 1e6, "tie_word_embeddings": false})",
     .names =
         R"({"num_experts": "num_local_experts", "moe_intermediate_size": "intermediate_size"})",
     .implied = R"({"norm_topk_prob": true, "intermediate_size": 0})"},
    {.model_type = "olmoe",
     .defaults = R"({
       "vocab_size": 50304, "hidden_size": 2048, "num_hidden_layers": 16,
       "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": null,
       "intermediate_size": 2048, "num_experts": 64, "num_experts_per_tok": 8,
       "norm_topk_prob": false, "attention_bias": false, "qk_norm": true,
       "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
       "tie_word_embeddings": false})",
     .names = R"({"moe_intermediate_size": "intermediate_size"})",
     .implied = R"({"qk_norm_full": true, "intermediate_size": 0})"},
    {.model_type = "deepseek_v2",
     .defaults = R"({
       "vocab_size": 102400, "hidden_size": 4096, "num_hidden_layers": 32,
       "num_attention_heads": 32, "intermediate_size": 11008,
       "moe_intermediate_size": 1407, "n_routed_experts": 64, "n_shared_experts": 2,
       "num_experts_per_tok": null, "norm_topk_prob": false, "first_k_dense_replace": 0,
       "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
       "qk_rope_head_dim": 64, "v_head_dim": 128, "attention_bias": false, "mlp_bias": false,
       "qk_norm": false, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
       "rope_theta": 10000.0, "tie_word_embeddings": false})",
     .names = R"({"num_experts": "n_routed_experts"})",
     .implied = "{}"},
    {.model_type = "deepseek_v3",
     .defaults = R"({
       "vocab_size": 129280, "hidden_size": 7168, "num_hidden_layers": 61,
       "num_attention_heads": 128, "intermediate_size": 18432,
       "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
       "num_experts_per_tok": 8, "norm_topk_prob": true, "first_k_dense_replace": 3,
       "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
       "qk_rope_head_dim": 64, "v_head_dim": 128, "attention_bias": false,
       "qk_norm": false, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
       "rope_theta": 10000.0, "tie_word_embeddings": false})",
     .names = R"({"num_experts": "n_routed_experts"})",
     .implied = R"({"router_bias": true})"},
    {.model_type = "llama",
     .defaults = R"({
       "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null,
       "intermediate_size": 11008, "attention_bias": false, "mlp_bias": false, "qk_norm": false,
       "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": false})",
     .names = "{}",
     .implied = R"({"num_experts": 0})"},
    {.model_type = "qwen3",
     .defaults = R"({
       "vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
       "intermediate_size": 22016, "attention_bias": false, "qk_norm": true,
       "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": false, "use_sliding_window": false})",
     .names = "{}",
     .implied = R"({"num_experts": 0})"},
    {.model_type = "qwen2",
     .defaults = R"({
       "vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": null,
       "intermediate_size": 22016, "qk_norm": false,
       "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
       "tie_word_embeddings": false, "use_sliding_window": false})",
     .names = "{}",
     .implied = R"({"num_experts": 0, "qkv_bias": true})"},
};

}  // namespace

const Dialect* find_dialect(std::string_view model_type) {
  for (const Dialect& dialect : kDialects) {
    if (model_type == dialect.model_type) return &dialect;
  }
  return nullptr;
}

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& dialect : kDialects) names.emplace_back(dialect.model_type);
  return names;
}

}  // namespace smelt::arch
