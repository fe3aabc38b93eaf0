#include "smelt/arch/model_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace smelt::arch {
namespace {

/// Model types read here.  What they compute differs only in the defaults of absent keys.
const std::set<std::string> kModelTypes = {"qwen3_moe", "smelt"};

/// Hugging Face keys that say nothing about the arithmetic.
const std::set<std::string> kHarmless = {"_name_or_path",
                                         "architectures",
                                         "attn_implementation",
                                         "auto_map",
                                         "bos_token_id",
                                         "dtype",
                                         "eos_token_id",
                                         "initializer_range",
                                         "intermediate_size",
                                         "max_window_layers",
                                         "name_or_path",
                                         "output_router_logits",
                                         "pad_token_id",
                                         "router_aux_loss_coef",
                                         "tokenizer_class",
                                         "torch_dtype",
                                         "transformers_version",
                                         "use_cache",
                                         "chunk_size_feed_forward",
                                         "id2label",
                                         "label2id",
                                         "return_dict",
                                         "output_attentions",
                                         "output_hidden_states",
                                         "is_encoder_decoder",
                                         "problem_type"};

/// Keys that change the arithmetic unless they have this value.
const std::map<std::string, std::vector<Json>> kOnlyAs = {
    {"hidden_act", {"silu", "swish"}},
    {"attention_bias", {false}},
    {"attention_dropout", {0, 0.0}},
    {"decoder_sparse_step", {1}},
    {"mlp_only_layers", {Json::array(), nullptr}},
    {"rope_scaling", {nullptr}},
    {"sliding_window", {nullptr}},
    {"use_sliding_window", {false}},
};

class Reader {
 public:
  Reader(const Json& json, Problems& problems) : json_(json), problems_(problems) {}

  ModelConfig read() {
    ModelConfig config;
    read_model_type();
    const auto field = [this](const Field& f, auto& value) { read_value(f.name, value); };
    ModelConfig::visit_fields(config, field);
    read_expert_alias(config);
    for (const char* name : {"vocab_size", "hidden_size", "num_hidden_layers",
                             "num_attention_heads", "moe_intermediate_size", "num_experts"}) {
      const bool alias =
          std::string_view(name) == "num_experts" && json_.contains("num_local_experts");
      if (!json_.contains(name) && !alias) {
        problems_.add(std::string("missing key \"") + name + "\"");
      }
    }
    // Qwen3-MoE's own defaults.
    if (!json_.contains("num_key_value_heads")) config.num_key_value_heads = 4;
    if (!json_.contains("head_dim") && config.num_attention_heads > 0) {
      config.head_dim = config.hidden_size / config.num_attention_heads;
    }
    read_rope_parameters(config);
    read_loop(config);
    read_rest(config);
    return config;
  }

 private:
  void read_model_type() {
    read_.insert("model_type");
    if (!json_.contains("model_type")) return;
    const Json& type = json_.at("model_type");
    if (!type.is_string() || !kModelTypes.contains(type.get<std::string>())) {
      problems_.add("model_type: expected " +
                    join_choices({kModelTypes.begin(), kModelTypes.end()}) + ", got " +
                    type.dump());
    }
  }

  void read_value(const std::string& name, std::int64_t& value) {
    read_.insert(name);
    if (!json_.contains(name)) return;
    const Json& found = json_.at(name);
    if (found.is_number_integer()) {
      value = found.get<std::int64_t>();
    } else {
      problems_.add(name + ": expected an integer, got " + found.dump());
    }
  }
  void read_value(const std::string& name, double& value) {
    read_.insert(name);
    if (!json_.contains(name)) return;
    const Json& found = json_.at(name);
    if (found.is_number()) {
      value = found.get<double>();
    } else {
      problems_.add(name + ": expected a number, got " + found.dump());
    }
  }
  void read_value(const std::string& name, bool& value) {
    read_.insert(name);
    if (!json_.contains(name)) return;
    const Json& found = json_.at(name);
    if (found.is_boolean()) {
      value = found.get<bool>();
    } else {
      problems_.add(name + ": expected true or false, got " + found.dump());
    }
  }

  /// Newer transformers write "num_local_experts" for "num_experts".
  void read_expert_alias(ModelConfig& config) {
    std::int64_t local = config.num_experts;
    read_value("num_local_experts", local);
    if (!json_.contains("num_experts")) {
      config.num_experts = local;
    } else if (local != config.num_experts) {
      problems_.add("num_local_experts and num_experts differ: " + std::to_string(local) + " and " +
                    std::to_string(config.num_experts));
    }
  }

  /// Newer transformers write {"rope_type": "default", "rope_theta": …} instead of "rope_theta".
  void read_rope_parameters(ModelConfig& config) {
    read_.insert("rope_parameters");
    if (!json_.contains("rope_parameters") || json_.at("rope_parameters").is_null()) return;
    const Json& rope = json_.at("rope_parameters");
    const bool plain =
        rope.is_object() && rope.value("rope_type", Json("default")) == Json("default");
    if (!plain || (rope.contains("rope_theta") && !rope.at("rope_theta").is_number())) {
      problems_.add("rope_parameters: only rope_type \"default\" is understood, got " +
                    rope.dump());
      return;
    }
    for (const auto& [key, value] : rope.items()) {
      if (key != "rope_type" && key != "rope_theta") {
        problems_.add("rope_parameters." + key + " changes the arithmetic and is not understood");
      }
    }
    if (rope.contains("rope_theta")) config.rope_theta = rope.at("rope_theta").get<double>();
  }

  void read_loop(ModelConfig& config) {
    read_.insert("loop");
    if (!json_.contains("loop") || json_.at("loop").is_null()) return;
    const Json& json = json_.at("loop");
    if (!json.is_object()) {
      problems_.add("loop: expected an object, got " + json.dump());
      return;
    }
    Loop loop;
    Reader inner(json, problems_);
    for (const char* name : {"first", "last"}) {
      if (!json.contains(name)) problems_.add(std::string("missing key \"loop.") + name + "\"");
    }
    inner.read_value("first", loop.first);
    inner.read_value("last", loop.last);
    inner.read_value("visits", loop.visits);
    loop.residual_scale = loop.visits > 0 ? 1.0 / static_cast<double>(loop.visits) : 1.0;
    inner.read_value("residual_scale", loop.residual_scale);
    for (const auto& [key, value] : json.items()) {
      if (!inner.read_.contains(key)) problems_.add("unknown key \"loop." + key + "\"");
    }
    config.loop = loop;
  }

  void read_rest(ModelConfig& config) {
    for (const auto& [key, value] : json_.items()) {
      if (read_.contains(key)) continue;
      if (kHarmless.contains(key)) {
        config.kept[key] = value;
      } else if (const auto known = kOnlyAs.find(key); known != kOnlyAs.end()) {
        const auto& allowed = known->second;
        if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
          problems_.add("key \"" + key + "\" changes the arithmetic; only " +
                        allowed.front().dump() + " is understood, got " + value.dump());
        } else {
          config.kept[key] = value;
        }
      } else {
        const std::string guess = nearest(key, {read_.begin(), read_.end()});
        problems_.add("unknown key \"" + key + "\"" +
                      (guess.empty() ? "" : "; did you mean \"" + guess + "\"?"));
      }
    }
  }

  const Json& json_;
  Problems& problems_;
  std::set<std::string> read_;
};

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
  if (config.head_dim % 2 != 0) {
    problems.add("head_dim: expected an even number (RoPE turns pairs), got " +
                 number(config.head_dim));
  }
  if (config.num_experts_per_tok > config.num_experts) {
    problems.add("num_experts_per_tok: expected at most num_experts = " +
                 number(config.num_experts) + ", got " + number(config.num_experts_per_tok));
  }
  if (!config.loop) return;
  const Loop& loop = *config.loop;
  if (loop.first < 1 || loop.last < loop.first || loop.last > config.num_hidden_layers) {
    problems.add("loop: expected a span inside the layers 1 to " +
                 number(config.num_hidden_layers) + ", got " + number(loop.first) + " to " +
                 number(loop.last));
  }
  if (loop.visits < 1) problems.add("loop.visits: expected at least 1, got " + number(loop.visits));
  if (!std::isfinite(loop.residual_scale) || loop.residual_scale <= 0) {
    problems.add("loop.residual_scale: expected a positive number, got " +
                 Json(loop.residual_scale).dump());
  }
}

ModelConfig model_config_from_json(const Json& json, const std::string& name) {
  Problems problems("arch", name);
  if (!json.is_object()) throw Error("arch", "expected a JSON object", name);
  ModelConfig config = Reader(json, problems).read();
  problems.throw_if_any();
  validate(config, problems);
  problems.throw_if_any();
  return config;
}

ModelConfig read_model_config(const std::filesystem::path& file) {
  return model_config_from_json(read_json(file), file.string());
}

Json to_json(const ModelConfig& config) {
  const bool qwen = config.qk_norm && config.visits() == 1 &&
                    (!config.loop || config.loop->residual_scale == 1.0);
  Json json = {{"model_type", qwen ? "qwen3_moe" : "smelt"}};
  json.update(fields_to_json(config));
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
