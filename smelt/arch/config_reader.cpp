// config.json → ModelConfig, for every model type of dialects.h.
#include <algorithm>
#include <limits>
#include <set>

#include "smelt/arch/dialects.h"
#include "smelt/arch/model_config.h"
#include "smelt/core/file.h"

namespace smelt::arch {
namespace {

/// Keys that no count and no result depends on.
constexpr const char* kHarmless[] = {"_name_or_path",
                                     "architectures",
                                     "attn_implementation",
                                     "auto_map",
                                     "aux_loss_alpha",
                                     "bos_token_id",
                                     "chunk_size_feed_forward",
                                     "dtype",
                                     "eos_token_id",
                                     "ep_size",
                                     "id2label",
                                     "initializer_range",
                                     "is_encoder_decoder",
                                     "label2id",
                                     "max_window_layers",
                                     "name_or_path",
                                     "num_nextn_predict_layers",
                                     "output_attentions",
                                     "output_hidden_states",
                                     "output_router_logits",
                                     "pad_token_id",
                                     "problem_type",
                                     "qk_head_dim",
                                     "return_dict",
                                     "router_aux_loss_coef",
                                     "seq_aux",
                                     "tokenizer_class",
                                     "torch_dtype",
                                     "transformers_version",
                                     "use_cache"};

/// Keys that change results but no count: kept, and what they ask for is not run (beyond_engine).
constexpr const char* kNotCounted[] = {
    "n_group",      "quantization_config",   "rope_interleave", "rope_scaling",
    "scoring_func", "routed_scaling_factor", "topk_group",      "topk_method"};

/// Keys that change the arithmetic unless they have one of these values.
struct OnlyAs {
  const char* key;
  std::vector<Json> values;
};

std::vector<OnlyAs> only_as() {
  return {{"hidden_act", {"silu", "swish"}}, {"attention_dropout", {0, 0.0}},
          {"clip_qkv", {nullptr}},           {"router_jitter_noise", {0, 0.0}},
          {"moe_layer_freq", {1}},           {"pretraining_tp", {1}},
          {"decoder_sparse_step", {1}},      {"use_sliding_window", {false}}};
}

bool is_among(const char* const* begin, const char* const* end, const std::string& key) {
  return std::find(begin, end, key) != end;
}

class Reader {
 public:
  Reader(const Json& json, Problems& problems) : json_(json), problems_(problems) {}

  ModelConfig read() {
    ModelConfig config;
    if (!find_model_type()) return config;
    ModelConfig::visit_fields(config,
                              [this](const Field& f, auto& value) { read_value(f.name, value); });
    read_expert_alias(config);
    check_required(config);
    derive(config);
    read_rope_parameters(config);
    read_loop(config);
    read_rest(config);
    return config;
  }

 private:
  bool find_model_type() {
    read_.insert("model_type");
    const Json type = json_.value("model_type", Json("smelt"));
    dialect_ = type.is_string() ? find_dialect(type.get<std::string>()) : nullptr;
    if (!dialect_) {
      problems_.add("model_type: expected " + join_choices(dialect_names()) + ", got " +
                    type.dump());
      return false;
    }
    defaults_ = Json::parse(dialect_->defaults);
    names_ = Json::parse(dialect_->names);
    implied_ = Json::parse(dialect_->implied);
    return true;
  }

  /// A smelt config must name its sizes; the other types have defaults.
  bool own_type() const { return std::string_view(dialect_->model_type) == "smelt"; }

  std::string theirs(const std::string& key) const { return names_.value(key, key); }

  /// The value of a ModelConfig key: the file's, else what the type implies or defaults to; null
  /// when it is nowhere or null.
  const Json& find(const std::string& key) {
    static const Json kNone;
    if (implied_.contains(key)) return implied_.at(key);
    const std::string name = theirs(key);
    const bool known = own_type() || defaults_.contains(name);
    if (known && json_.contains(name)) {
      read_.insert(name);
      return json_.at(name);
    }
    if (known) read_.insert(name);  // for guesses at a misspelt key
    return defaults_.contains(name) ? defaults_.at(name) : kNone;
  }

  void read_value(const std::string& key, std::int64_t& value) {
    const Json& found = find(key);
    if (found.is_null()) return;
    if (found.is_number_unsigned()) {  // the range check says what is too large
      value = static_cast<std::int64_t>(std::min<std::uint64_t>(
          found.get<std::uint64_t>(), std::numeric_limits<std::int64_t>::max()));
    } else if (found.is_number_integer()) {
      value = found.get<std::int64_t>();
    } else {
      problems_.add(theirs(key) + ": expected an integer, got " + found.dump());
    }
  }
  void read_value(const std::string& key, double& value) {
    const Json& found = find(key);
    if (found.is_null()) return;
    if (found.is_number()) {
      value = found.get<double>();
    } else {
      problems_.add(theirs(key) + ": expected a number, got " + found.dump());
    }
  }
  void read_value(const std::string& key, bool& value) {
    const Json& found = find(key);
    if (found.is_null()) return;
    if (found.is_boolean()) {
      value = found.get<bool>();
    } else {
      problems_.add(theirs(key) + ": expected true or false, got " + found.dump());
    }
  }
  void read_value(const std::string& key, std::vector<std::int64_t>& value) {
    const Json& found = find(key);
    if (found.is_null()) return;
    const bool whole =
        found.is_array() && std::all_of(found.begin(), found.end(),
                                        [](const Json& n) { return n.is_number_integer(); });
    if (whole) {
      value = found.get<std::vector<std::int64_t>>();
    } else {
      problems_.add(theirs(key) + ": expected a list of integers, got " + found.dump());
    }
  }

  /// An integer that only some types have, under their name; 0 when it is null or nowhere.
  std::int64_t extra(const std::string& name, std::int64_t otherwise) {
    std::int64_t value = otherwise;
    if (defaults_.contains(name)) read_value(name, value);
    return value;
  }

  /// Newer transformers write "num_local_experts" for "num_experts".
  void read_expert_alias(ModelConfig& config) {
    const char* alias = "num_local_experts";
    if (theirs("num_experts") != "num_experts" || implied_.contains("num_experts") ||
        !json_.contains(alias)) {
      return;
    }
    read_.insert(alias);
    const Json& found = json_.at(alias);
    if (!found.is_number_integer()) {
      problems_.add(std::string(alias) + ": expected an integer, got " + found.dump());
    } else if (!json_.contains("num_experts")) {
      config.num_experts = found.get<std::int64_t>();
    } else if (found.get<std::int64_t>() != config.num_experts) {
      problems_.add("num_local_experts and num_experts differ: " + found.dump() + " and " +
                    std::to_string(config.num_experts));
    }
  }

  void check_required(const ModelConfig& config) {
    if (!own_type()) return;
    const auto require = [this](const char* name) {
      if (!json_.contains(name)) problems_.add(std::string("missing key \"") + name + "\"");
    };
    for (const char* name :
         {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"}) {
      require(name);
    }
    if (!json_.contains("num_local_experts")) require("num_experts");
    const bool dense = json_.contains("num_experts") && config.num_experts == 0;
    require(dense ? "intermediate_size" : "moe_intermediate_size");
  }

  /// What one key says by way of another.
  void derive(ModelConfig& config) {
    if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
    if (config.latent()) {
      config.num_key_value_heads = config.num_attention_heads;
      config.head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim;
      read_.insert({"num_key_value_heads", "head_dim"});
    } else if (config.head_dim == 0 && config.num_attention_heads > 0) {
      config.head_dim = config.hidden_size / config.num_attention_heads;
    }
    config.shared_expert_intermediate_size +=
        extra("n_shared_experts", 0) * config.moe_intermediate_size;
    if (config.num_experts == 0) {
      config.num_experts_per_tok = config.moe_intermediate_size = 0;
    } else {
      derive_dense_layers(config);
    }
    // Without a dense layer the width of one says nothing.
    if (config.num_experts > 0 && config.mlp_only_layers.empty() &&
        !names_.contains("moe_intermediate_size")) {
      config.intermediate_size = 0;
      if (json_.contains("intermediate_size")) {
        config.kept["intermediate_size"] = json_.at("intermediate_size");
      }
    }
  }

  void derive_dense_layers(ModelConfig& config) {
    const std::int64_t sparse_step = extra("decoder_sparse_step", 1);
    const std::int64_t dense_first = extra("first_k_dense_replace", 0);
    if (sparse_step < 1) {
      problems_.add("decoder_sparse_step: expected at least 1, got " + std::to_string(sparse_step));
      return;
    }
    if (sparse_step == 1 && dense_first == 0) return;
    std::set<std::int64_t> dense(config.mlp_only_layers.begin(), config.mlp_only_layers.end());
    const std::int64_t layers = std::min<std::int64_t>(config.num_hidden_layers, 1'000'000);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      if (layer < dense_first || (layer + 1) % sparse_step != 0) dense.insert(layer);
    }
    config.mlp_only_layers.assign(dense.begin(), dense.end());
  }

  /// Newer transformers write {"rope_type": "default", "rope_theta": …} instead of "rope_theta".
  void read_rope_parameters(ModelConfig& config) {
    read_.insert("rope_parameters");
    if (!json_.contains("rope_parameters") || json_.at("rope_parameters").is_null()) return;
    const Json& rope = json_.at("rope_parameters");
    if (!rope.is_object() || (rope.contains("rope_theta") && !rope.at("rope_theta").is_number())) {
      problems_.add("rope_parameters: expected an object with a number \"rope_theta\", got " +
                    rope.dump());
      return;
    }
    if (rope.contains("rope_theta")) config.rope_theta = rope.at("rope_theta").get<double>();
    // Other rotations cost the same.
    if (rope.value("rope_type", Json("default")) != Json("default") || rope.size() > 2) {
      config.kept["rope_parameters"] = rope;
    }
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
    const auto whole = [&](const char* name, std::int64_t& value) {
      if (!json.contains(name)) return;
      if (json.at(name).is_number_integer()) {
        value = json.at(name).get<std::int64_t>();
      } else {
        problems_.add(std::string("loop.") + name + ": expected an integer, got " +
                      json.at(name).dump());
      }
    };
    for (const char* name : {"first", "last"}) {
      if (!json.contains(name)) problems_.add(std::string("missing key \"loop.") + name + "\"");
    }
    whole("first", loop.first);
    whole("last", loop.last);
    whole("visits", loop.visits);
    loop.residual_scale = loop.visits > 0 ? 1.0 / static_cast<double>(loop.visits) : 1.0;
    if (json.contains("residual_scale")) {
      if (json.at("residual_scale").is_number()) {
        loop.residual_scale = json.at("residual_scale").get<double>();
      } else {
        problems_.add("loop.residual_scale: expected a number, got " +
                      json.at("residual_scale").dump());
      }
    }
    for (const auto& [key, value] : json.items()) {
      if (key != "first" && key != "last" && key != "visits" && key != "residual_scale") {
        problems_.add("unknown key \"loop." + key + "\"");
      }
    }
    config.loop = loop;
  }

  void read_rest(ModelConfig& config) {
    check_windows(config);
    const std::vector<OnlyAs> only = only_as();
    for (const auto& [key, value] : json_.items()) {
      if (read_.contains(key)) continue;
      const auto known = std::find_if(only.begin(), only.end(),
                                      [&k = key](const OnlyAs& entry) { return k == entry.key; });
      const bool allowed =
          known != only.end() &&
          std::find(known->values.begin(), known->values.end(), value) != known->values.end();
      if (allowed || is_among(std::begin(kHarmless), std::end(kHarmless), key) ||
          is_among(std::begin(kNotCounted), std::end(kNotCounted), key)) {
        config.kept[key] = value;
      } else if (known == only.end()) {
        const std::string guess = nearest(key, {read_.begin(), read_.end()});
        problems_.add("unknown key \"" + key + "\"" +
                      (guess.empty() ? "" : "; did you mean \"" + guess + "\"?"));
      } else {
        problems_.add("key \"" + key + "\" changes the arithmetic; only " +
                      known->values.front().dump() + " is understood, got " + value.dump());
      }
    }
  }

  /// A window in use cuts the cache and the attention's FLOPs.
  void check_windows(ModelConfig& config) {
    read_.insert({"layer_types", "sliding_window"});
    for (const Json& type : json_.value("layer_types", Json::array())) {
      if (type == Json("full_attention")) continue;
      problems_.add(
          "key \"layer_types\" changes the arithmetic; only \"full_attention\" is "
          "understood, got " +
          type.dump());
      break;
    }
    if (!json_.contains("sliding_window")) return;
    const Json& window = json_.at("sliding_window");
    const Json used =
        json_.value("use_sliding_window", defaults_.value("use_sliding_window", Json(true)));
    if (!window.is_null() && used != Json(false)) {
      problems_.add("key \"sliding_window\" changes the arithmetic; only null is understood, got " +
                    window.dump());
    }
    config.kept["sliding_window"] = window;
  }

  const Json& json_;
  Problems& problems_;
  const Dialect* dialect_ = nullptr;
  Json defaults_, names_, implied_;
  std::set<std::string> read_;
};

}  // namespace

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

}  // namespace smelt::arch
