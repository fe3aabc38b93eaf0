// The geometry of a decoder-only MoE Transformer, looped or not (paper section 2).
//
// Keys are Hugging Face's Qwen3-MoE keys plus "qk_norm" and "loop".  A config without `loop`, or
// with one visit, is the unlooped Baseline.
//
//   ModelConfig config = read_model_config("config.json");
//   LoopSchedule schedule = make_schedule(config);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "smelt/core/error.h"
#include "smelt/core/fields.h"
#include "smelt/core/json.h"

namespace smelt::arch {

/// A span of physical layers that runs `visits` times, start to end each time.
struct Loop {
  std::int64_t first = 1;  // 1-based, inclusive
  std::int64_t last = 1;   // 1-based, inclusive
  std::int64_t visits = 2;
  double residual_scale = 0.5;  // multiplies every sublayer's write in the span, on every visit

  friend bool operator==(const Loop&, const Loop&) = default;
};

struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;  // physical layers
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t moe_intermediate_size = 0;  // width of one expert
  std::int64_t num_experts = 0;
  std::int64_t num_experts_per_tok = 8;
  bool norm_topk_prob = false;  // chosen routing weights divided by their sum
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::int64_t max_position_embeddings = 32768;
  bool tie_word_embeddings = false;
  bool qk_norm = true;
  std::optional<Loop> loop;
  Json kept =
      Json::object();  // Hugging Face keys that do not change the arithmetic, written back as read

  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t key_value_width() const { return num_key_value_heads * head_dim; }
  std::int64_t visits() const { return loop ? loop->visits : 1; }
  /// Layers in the loop span; 0 without a loop.
  std::int64_t span_layers() const { return loop ? loop->last - loop->first + 1 : 0; }
  /// L_eff = L + (visits - 1) · span.
  std::int64_t executed_layers() const {
    return num_hidden_layers + (visits() - 1) * span_layers();
  }

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"vocab_size", "tokens in the vocabulary", "", 1}, self.vocab_size);
    visit(Field{"hidden_size", "width of the residual stream", "", 1}, self.hidden_size);
    visit(Field{"num_hidden_layers", "physical layers", "", 1}, self.num_hidden_layers);
    visit(Field{"num_attention_heads", "query heads", "", 1}, self.num_attention_heads);
    visit(Field{"num_key_value_heads", "key/value heads", "", 1}, self.num_key_value_heads);
    visit(Field{"head_dim", "width of one head, even", "", 2}, self.head_dim);
    visit(Field{"moe_intermediate_size", "width of one expert", "", 1}, self.moe_intermediate_size);
    visit(Field{"num_experts", "experts per layer", "", 1}, self.num_experts);
    visit(Field{"num_experts_per_tok", "experts a token is sent to (top-k)", "", 1},
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
  }
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Adds one problem per inconsistency (ranges, divisibility, span outside the layers, …).
void validate(const ModelConfig& config, Problems& problems);

/// Reads a `config.json`; throws one Error with all problems of the file.  A key that changes the
/// arithmetic and is not understood is an error; others are kept.
ModelConfig read_model_config(const std::filesystem::path& file);
ModelConfig model_config_from_json(const Json& json, const std::string& name);

/// The file's content: "model_type" is "smelt" for a looped model, "qwen3_moe" for what a Qwen3-MoE
/// reader computes the same way.
Json to_json(const ModelConfig& config);

/// The span of `span` layers with floor((layers - span) / 2) layers before it (paper section 2),
/// and residual scale 1 / visits.  Throws Error when it does not fit.
Loop middle_loop(std::int64_t layers, std::int64_t span, std::int64_t visits);

}  // namespace smelt::arch
