// The geometry of a decoder-only Transformer, looped or not (paper section 2).
//
// Keys are Hugging Face's Qwen3-MoE keys plus "qk_norm" and "loop", and what the other model types
// need to be counted (dialects.h).  A config without `loop`, or with one visit, is the unlooped
// Baseline.
//
//   ModelConfig config = read_model_config("config.json");
//   LoopSchedule schedule = make_schedule(config);
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/core/fields.h"
#include "smelt/core/json.h"

namespace smelt::arch {

/// A span of physical layers that runs `visits` times, start to end each time.
struct Loop {
  static constexpr std::int64_t kMostVisits = 64;
  std::int64_t first = 1;  // 1-based, inclusive
  std::int64_t last = 1;   // 1-based, inclusive
  std::int64_t visits = 2;
  double residual_scale = 0.5;  // multiplies every sublayer's write in the span, on every visit

  friend bool operator==(const Loop&, const Loop&) = default;
};

struct ModelConfig {
  std::int64_t vocab_size = 0;  // 0: not named; the token store's in a study
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;  // physical layers
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t moe_intermediate_size = 0;  // width of one expert
  std::int64_t num_experts = 0;            // routed experts; 0: every feed-forward is dense
  std::int64_t num_experts_per_tok = 8;
  bool norm_topk_prob = false;  // chosen routing weights divided by their sum
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::int64_t max_position_embeddings = 32768;
  bool tie_word_embeddings = false;
  bool qk_norm = true;

  // What other model types have; counted and matched, but not run (beyond_engine).
  std::int64_t intermediate_size = 0;                // width of a dense feed-forward
  std::vector<std::int64_t> mlp_only_layers;         // 0-based, rising: dense feed-forward
  std::int64_t shared_expert_intermediate_size = 0;  // all shared experts together
  bool shared_expert_gate = false;                   // the shared experts have a gate of their own
  bool router_bias = false;                          // one number per expert
  bool attention_bias = false;                       // of q, k, v and o
  bool qkv_bias = false;                             // of q, k and v only
  bool mlp_bias = false;
  bool qk_norm_full = false;  // q/k norms over all heads at once (OLMoE)
  /// Multi-head latent attention (DeepSeek) where `kv_lora_rank` is set: keys and values come from
  /// one vector of that width, which is cached with the rotary part of the key.
  std::int64_t q_lora_rank = 0;  // 0: queries straight from the stream
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;

  std::optional<Loop> loop;
  Json kept = Json::object();  // Hugging Face keys that no count depends on, written back as read

  bool latent() const { return kv_lora_rank > 0; }
  bool dense(std::int64_t layer) const {
    return num_experts == 0 ||
           std::binary_search(mlp_only_layers.begin(), mlp_only_layers.end(), layer);
  }
  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t key_value_width() const { return num_key_value_heads * head_dim; }
  std::int64_t visits() const { return loop ? loop->visits : 1; }
  /// Times that a physical layer (0-based) runs.
  std::int64_t visits_of(std::int64_t layer) const {
    return loop && layer + 1 >= loop->first && layer + 1 <= loop->last ? loop->visits : 1;
  }
  /// Layers in the loop span; 0 without a loop.
  std::int64_t span_layers() const { return loop ? loop->last - loop->first + 1 : 0; }
  /// L_eff = L + (visits - 1) · span.
  std::int64_t executed_layers() const {
    return num_hidden_layers + (visits() - 1) * span_layers();
  }

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    constexpr double kMost = 1e9;  // the product of two sizes still fits 64 bits
    visit(Field{"vocab_size", "tokens in the vocabulary; 0: the token store's", "", 0, kMost},
          self.vocab_size);
    visit(Field{"hidden_size", "width of the residual stream", "", 1, kMost}, self.hidden_size);
    visit(Field{"num_hidden_layers", "physical layers", "", 1, 1e6}, self.num_hidden_layers);
    visit(Field{"num_attention_heads", "query heads", "", 1, kMost}, self.num_attention_heads);
    visit(Field{"num_key_value_heads", "key/value heads", "", 1, kMost}, self.num_key_value_heads);
    visit(Field{"head_dim", "width of one head, even", "", 1, kMost}, self.head_dim);
    visit(Field{"moe_intermediate_size", "width of one expert", "", 0, kMost},
          self.moe_intermediate_size);
    visit(Field{"num_experts", "routed experts per layer; 0: dense", "", 0, kMost},
          self.num_experts);
    visit(Field{"num_experts_per_tok", "experts a token is sent to (top-k)", "", 0, kMost},
          self.num_experts_per_tok);
    visit(Field{"norm_topk_prob", "divide the chosen routing weights by their sum"},
          self.norm_topk_prob);
    visit(Field{"rms_norm_eps", "epsilon of every RMSNorm", "", 0}, self.rms_norm_eps);
    visit(Field{"rope_theta", "base of the rotary angles", "", 1}, self.rope_theta);
    visit(Field{"max_position_embeddings", "longest position", "tokens", 1},
          self.max_position_embeddings);
    visit(Field{"tie_word_embeddings", "the head shares the embedding's weights"},
          self.tie_word_embeddings);
    visit(Field{"qk_norm", "RMSNorm on each query and key head before RoPE"}, self.qk_norm);
    visit_rest(self, visit);
  }
  /// The fields that only some model types have; written only where they are set.
  template <class Self, class Visitor>
  static void visit_rest(Self& self, Visitor&& visit) {
    constexpr double kMost = 1e9;
    visit(Field{"intermediate_size", "width of a dense feed-forward", "", 0, kMost},
          self.intermediate_size);
    visit(Field{"mlp_only_layers", "layers (from 0) with a dense feed-forward", "", 0, 1e6},
          self.mlp_only_layers);
    visit(Field{"shared_expert_intermediate_size", "width of the shared experts together", "", 0,
                kMost},
          self.shared_expert_intermediate_size);
    visit(Field{"shared_expert_gate", "the shared experts have a gate"}, self.shared_expert_gate);
    visit(Field{"router_bias", "the router has a bias per expert"}, self.router_bias);
    visit(Field{"attention_bias", "biases of q, k, v and o"}, self.attention_bias);
    visit(Field{"qkv_bias", "biases of q, k and v"}, self.qkv_bias);
    visit(Field{"mlp_bias", "biases of the feed-forward"}, self.mlp_bias);
    visit(Field{"qk_norm_full", "q/k norms over all heads at once"}, self.qk_norm_full);
    visit(Field{"q_lora_rank", "latent attention: width of the query's bottleneck", "", 0, kMost},
          self.q_lora_rank);
    visit(Field{"kv_lora_rank", "latent attention: width of the cached vector", "", 0, kMost},
          self.kv_lora_rank);
    visit(Field{"qk_nope_head_dim", "latent attention: key width without position", "", 0, kMost},
          self.qk_nope_head_dim);
    visit(Field{"qk_rope_head_dim", "latent attention: key width with RoPE", "", 0, kMost},
          self.qk_rope_head_dim);
    visit(Field{"v_head_dim", "latent attention: value width of a head", "", 0, kMost},
          self.v_head_dim);
  }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Adds one problem per inconsistency (ranges, divisibility, span outside the layers, …).
void validate(const ModelConfig& config, Problems& problems);

/// What of a config smelt counts and matches but does not compute, in words; empty: it can be
/// trained and run.
std::vector<std::string> beyond_engine(const ModelConfig& config);

/// Reads a `config.json` of one of the model types of dialects.h; throws one Error with all
/// problems of the file.  A key that changes the arithmetic and is not understood is an error;
/// others are kept.
ModelConfig read_model_config(const std::filesystem::path& file);
ModelConfig model_config_from_json(const Json& json, const std::string& name);

/// The file's content: "model_type" is "smelt" for a looped model, "qwen3_moe" for what a Qwen3-MoE
/// reader computes the same way.
Json to_json(const ModelConfig& config);

/// The span of `span` layers with floor((layers - span) / 2) layers before it (paper section 2),
/// and residual scale 1 / visits.  Throws Error when it does not fit.
Loop middle_loop(std::int64_t layers, std::int64_t span, std::int64_t visits);

}  // namespace smelt::arch
