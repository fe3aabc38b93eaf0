#include "smelt/arch/model_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

namespace smelt::arch {
namespace {

/// Whether a Qwen3-MoE reader computes the same from the written keys.
bool reads_as_qwen(const ModelConfig& config) {
  const bool looped = config.visits() > 1 || (config.loop && config.loop->residual_scale != 1.0);
  return config.qk_norm && !looped && beyond_engine(config).empty();
}

}  // namespace

void validate(const ModelConfig& config, Problems& problems) {
  check_fields(config, problems);
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  if (config.num_key_value_heads > 0 &&
      config.num_attention_heads % config.num_key_value_heads != 0) {
    problems.add("num_attention_heads: expected a multiple of num_key_value_heads = " +
                 number(config.num_key_value_heads) + ", got " +
                 number(config.num_attention_heads));
  }
  const std::int64_t turned = config.latent() ? config.qk_rope_head_dim : config.head_dim;
  if (turned % 2 != 0) {
    problems.add(std::string(config.latent() ? "qk_rope_head_dim" : "head_dim") +
                 ": expected an even number (RoPE turns pairs), got " + number(turned));
  }
  const auto positive = [&](const char* name, std::int64_t value, const char* why) {
    if (value < 1) {
      problems.add(std::string(name) + ": expected at least 1" + why + ", got " + number(value));
    }
  };
  if (config.num_experts > 0) {
    positive("moe_intermediate_size", config.moe_intermediate_size, "");
    positive("num_experts_per_tok", config.num_experts_per_tok, "");
    if (config.num_experts_per_tok > config.num_experts) {
      problems.add("num_experts_per_tok: expected at most num_experts = " +
                   number(config.num_experts) + ", got " + number(config.num_experts_per_tok));
    }
  }
  if (config.num_experts == 0 || !config.mlp_only_layers.empty()) {
    positive("intermediate_size", config.intermediate_size, " (a feed-forward is dense)");
  }
  const auto& dense = config.mlp_only_layers;
  if (!std::is_sorted(dense.begin(), dense.end(), std::less_equal<>())) {
    problems.add("mlp_only_layers: expected rising layers, each once");
  }
  if (config.num_experts > 0 && !dense.empty() &&
      static_cast<std::int64_t>(dense.size()) >= config.num_hidden_layers) {
    problems.add("mlp_only_layers: every layer is dense, which num_experts = 0 says");
  }
  for (const std::int64_t layer : dense) {
    if (layer < 0 || layer >= config.num_hidden_layers) {
      problems.add("mlp_only_layers: expected layers from 0 to " +
                   number(config.num_hidden_layers - 1) + ", got " + number(layer));
      break;
    }
  }
  if (config.num_experts == 0) {
    for (const auto& [name, value] :
         {std::pair("moe_intermediate_size", config.moe_intermediate_size),
          std::pair("num_experts_per_tok", config.num_experts_per_tok)}) {
      if (value > 0) {
        problems.add(std::string(name) + ": a model without experts has none, got " +
                     number(value));
      }
    }
  }
  if (config.latent()) {
    const std::int64_t width = config.qk_nope_head_dim + config.qk_rope_head_dim;
    if (config.head_dim != width) {
      problems.add("head_dim: latent attention's is qk_nope_head_dim + qk_rope_head_dim = " +
                   number(width) + ", got " + number(config.head_dim));
    }
    if (config.num_key_value_heads != config.num_attention_heads) {
      problems.add("num_key_value_heads: latent attention has as many as num_attention_heads = " +
                   number(config.num_attention_heads) + ", got " +
                   number(config.num_key_value_heads));
    }
    positive("v_head_dim", config.v_head_dim, "");
    positive("qk_rope_head_dim", config.qk_rope_head_dim, "");
  }
  if (!config.loop) return;
  const Loop& loop = *config.loop;
  if (loop.first < 1 || loop.last < loop.first || loop.last > config.num_hidden_layers) {
    problems.add("loop: expected a span inside the layers 1 to " +
                 number(config.num_hidden_layers) + ", got " + number(loop.first) + " to " +
                 number(loop.last));
  }
  if (loop.visits < 1 || loop.visits > Loop::kMostVisits) {
    problems.add("loop.visits: expected 1 to " + number(Loop::kMostVisits) + ", got " +
                 number(loop.visits));
  }
  if (!std::isfinite(loop.residual_scale) || loop.residual_scale <= 0) {
    problems.add("loop.residual_scale: expected a positive number, got " +
                 Json(loop.residual_scale).dump());
  }
}

std::vector<std::string> beyond_engine(const ModelConfig& config) {
  std::vector<std::string> words;
  const auto add = [&words](bool has, const char* what) {
    if (has) words.emplace_back(what);
  };
  add(config.num_experts == 0 || !config.mlp_only_layers.empty(), "dense feed-forwards");
  add(config.shared_expert_intermediate_size > 0, "shared experts");
  add(config.latent(), "latent attention (kv_lora_rank)");
  add(config.attention_bias || config.qkv_bias || config.mlp_bias || config.router_bias, "biases");
  add(config.qk_norm_full, "q/k norms over all heads at once");
  const auto asks = [&config](const char* key, const Json& nothing) {
    return config.kept.contains(key) && !config.kept.at(key).is_null() &&
           config.kept.at(key) != nothing;
  };
  add(asks("rope_scaling", nullptr) || asks("rope_parameters", nullptr), "scaled rotary angles");
  add(asks("dual_chunk_attention_config", nullptr), "attention in chunks");
  add(asks("quantization_config", nullptr), "quantized weights");
  add(asks("scoring_func", "softmax") || asks("topk_method", "greedy") || asks("n_group", 1) ||
          asks("topk_group", 1) || asks("routed_scaling_factor", 1.0),
      "another routing than the softmax's top-k");
  return words;
}

Json to_json(const ModelConfig& config) {
  Json json = {{"model_type", reads_as_qwen(config) ? "qwen3_moe" : "smelt"}};
  json.update(fields_to_json(config));
  const Json unset = fields_to_json(ModelConfig{});
  ModelConfig::visit_rest(config, [&](const Field& field, const auto&) {
    if (json[field.name] == unset[field.name]) json.erase(field.name);
  });
  if (config.loop) {
    json["loop"] = {{"first", config.loop->first},
                    {"last", config.loop->last},
                    {"visits", config.loop->visits},
                    {"residual_scale", config.loop->residual_scale}};
  }
  for (const auto& [key, value] : config.kept.items()) json[key] = value;
  return json;
}

Loop middle_loop(std::int64_t layers, std::int64_t span, std::int64_t visits) {
  if (span < 1 || span > layers) {
    throw Error("arch", "a loop span of " + std::to_string(span) + " layers does not fit into " +
                            std::to_string(layers));
  }
  if (visits < 1) throw Error("arch", "visits: expected at least 1, got " + std::to_string(visits));
  const std::int64_t before = (layers - span) / 2;
  return {before + 1, before + span, visits, 1.0 / static_cast<double>(visits)};
}

}  // namespace smelt::arch
