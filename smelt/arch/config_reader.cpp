// config.json → ModelConfig, for every model type of dialects.h.
#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "smelt/arch/dialects.h"
#include "smelt/arch/model_config.h"
#include "smelt/core/file.h"

namespace smelt::arch {
namespace {

constexpr std::int64_t kMostWidth = 1'000'000'000;
constexpr std::int64_t kMostLayers = 1'000'000;

/// Keys that no count and no result depends on.
constexpr const char* kHarmless[] = {
    "_name_or_path", "_attn_implementation_autoset", "architectures", "attn_implementation",
    "auto_map", "aux_loss_alpha", "bos_token_id", "chunk_size_feed_forward", "dtype",
    "eos_token_id", "ep_size", "id2label", "initializer_range", "is_encoder_decoder", "label2id",
    "max_sequence_length", "max_window_layers", "name_or_path", "num_nextn_predict_layers",
    "output_attentions", "output_hidden_states", "output_router_logits", "pad_token_id",
    "pretraining_tp", "problem_type", "qk_head_dim", "return_dict", "router_aux_loss_coef",
    "seq_aux", "tokenizer_class", "torch_dtype", "transformers_version", "unsloth_fixed",
    "unsloth_version", "use_cache",
    // What older transformers wrote into every config …
    "decoder_start_token_id", "finetuning_task", "prefix", "pruned_heads", "sep_token_id",
    "task_specific_params", "tf_legacy_loss", "tie_encoder_decoder", "torchscript", "use_bfloat16",
    // … and how text is to be drawn.
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
    "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens",
    "temperature", "top_k", "top_p", "typical_p"};

/// Keys that change results but no count: kept, and what they ask for is not run (beyond_engine).
constexpr const char* kNotCounted[] = {"dual_chunk_attention_config",
                                       "n_group",
                                       "quantization_config",
                                       "rope_interleave",
                                       "rope_scaling",
                                       "scoring_func",
                                       "routed_scaling_factor",
                                       "topk_group",
                                       "topk_method"};

/// Keys that change the arithmetic unless they have one of these values.
struct OnlyAs {
  const char* key;
  std::vector<Json> values;
};

std::vector<OnlyAs> only_as() {
  return {{"hidden_act", {"silu", "swish"}},
          {"attention_dropout", {0, 0.0}},
          {"clip_qkv", {nullptr}},
          {"router_jitter_noise", {0, 0.0}},
          {"moe_layer_freq", {1}},
          {"decoder_sparse_step", {1}},
          {"use_sliding_window", {false}},
          {"use_mrope", {false}},
          {"is_decoder", {false}},
          {"add_cross_attention", {false}},
          {"cross_attention_hidden_size", {nullptr}}};
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
    check_vocabulary(config);
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
                    shown(type));
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
    read_integer(theirs(key), find(key), value);
  }
  void read_integer(const std::string& name, const Json& found, std::int64_t& value) {
    if (found.is_null()) return;
    if (found.is_number_unsigned()) {  // the range check says what is too large
      value = static_cast<std::int64_t>(std::min<std::uint64_t>(
          found.get<std::uint64_t>(), std::numeric_limits<std::int64_t>::max()));
    } else if (found.is_number_integer()) {
      value = found.get<std::int64_t>();
    } else {
      problems_.add(name + ": expected an integer, got " + shown(found));
    }
  }
  void read_value(const std::string& key, double& value) {
    const Json& found = find(key);
    if (found.is_null()) return;
    if (found.is_number()) {
      value = found.get<double>();
    } else {
      problems_.add(theirs(key) + ": expected a number, got " + shown(found));
    }
  }
  void read_value(const std::string& key, bool& value) {
    const Json& found = find(key);
    if (found.is_null()) return;
    if (found.is_boolean()) {
      value = found.get<bool>();
    } else {
      problems_.add(theirs(key) + ": expected true or false, got " + shown(found));
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
      problems_.add(theirs(key) + ": expected a list of integers, got " + shown(found));
    }
  }

  /// An integer that only some types have, under their name; `otherwise` when it is nowhere or out
  /// of range.
  std::int64_t extra(const Field& field, std::int64_t otherwise) {
    std::int64_t value = otherwise;
    if (!defaults_.contains(field.name)) return otherwise;
    read_value(field.name, value);
    const std::size_t before = problems_.lines().size();
    check_field(field, value, problems_, problems_.where());
    return problems_.lines().size() == before ? value : otherwise;
  }

  /// Newer transformers write "num_local_experts" for the number of experts of any type.
  void read_expert_alias(ModelConfig& config) {
    const char* alias = "num_local_experts";
    const std::string name = theirs("num_experts");
    if (name == alias || implied_.contains("num_experts") || !json_.contains(alias)) return;
    read_.insert(alias);
    std::int64_t experts = config.num_experts;
    read_integer(alias, json_.at(alias), experts);
    if (!json_.contains(name)) {
      config.num_experts = experts;
    } else if (experts != config.num_experts) {
      problems_.add(std::string(alias) + " and " + name + " differ: " + shown(json_.at(alias)) +
                    " and " + std::to_string(config.num_experts));
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

  /// 0 means "not named" to a study, but not in a model's own file.
  void check_vocabulary(const ModelConfig& config) {
    if (config.vocab_size == 0 && json_.contains("vocab_size")) {
      problems_.add("vocab_size: expected at least 1, got 0");
    }
  }

  /// What one key says by way of another.
  void derive(ModelConfig& config) {
    for (const char* name : {"num_key_value_heads", "head_dim"}) {
      if (json_.value(name, Json()) == Json(0)) {
        problems_.add(std::string(name) + ": expected at least 1, got 0");
      }
    }
    if (defaults_.contains("kv_lora_rank") && config.kv_lora_rank < 1) {
      problems_.add("kv_lora_rank: expected at least 1, got " +
                    shown(json_.value("kv_lora_rank", Json())));
    }
    if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
    if (config.latent()) {
      config.num_key_value_heads = config.num_attention_heads;
      config.head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim;
      read_.insert({"num_key_value_heads", "head_dim"});
    } else if (config.head_dim == 0 && config.num_attention_heads > 0) {
      config.head_dim = config.hidden_size / config.num_attention_heads;
    }
    add_shared_experts(config);
    derive_dense_layers(config);
    if (config.num_experts == 0) {
      config.num_experts_per_tok = config.moe_intermediate_size = 0;
      config.shared_expert_intermediate_size = 0;
      config.shared_expert_gate = config.router_bias = false;
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

  /// DeepSeek gives their number, each as wide as a routed expert.
  void add_shared_experts(ModelConfig& config) {
    const std::int64_t shared = extra({"n_shared_experts", "", "", 0, 1e6}, 0);
    const std::int64_t width = config.moe_intermediate_size;
    if (shared == 0 || width < 0 || width > kMostWidth) return;  // the range check speaks
    if (shared * width > kMostWidth) {
      problems_.add("n_shared_experts: expected at most " + std::to_string(kMostWidth / width) +
                    " of width " + std::to_string(width) + ", got " + std::to_string(shared));
      return;
    }
    config.shared_expert_intermediate_size += shared * width;
  }

  /// A list of layers, a first so-many, or all but every n-th are dense; a model whose layers all
  /// are has no experts.
  void derive_dense_layers(ModelConfig& config) {
    auto& layers = config.mlp_only_layers;
    std::sort(layers.begin(), layers.end());
    const std::int64_t sparse_step = extra({"decoder_sparse_step", "", "", 1, 1e6}, 1);
    const std::int64_t dense_first = extra(
        {"first_k_dense_replace", "", "", 0, static_cast<double>(config.num_hidden_layers)}, 0);
    if (config.num_experts == 0) {
      layers.clear();
      return;
    }
    if (sparse_step > 1 || dense_first > 0) {
      std::vector<std::int64_t> implied;
      const std::int64_t count = std::min(config.num_hidden_layers, kMostLayers);
      for (std::int64_t layer = 0; layer < count; ++layer) {
        if (layer < dense_first || (layer + 1) % sparse_step != 0) implied.push_back(layer);
      }
      std::vector<std::int64_t> all;
      std::set_union(layers.begin(), layers.end(), implied.begin(), implied.end(),
                     std::back_inserter(all));
      layers = std::move(all);
    }
    const bool every = static_cast<std::int64_t>(layers.size()) == config.num_hidden_layers &&
                       !layers.empty() && layers.front() == 0 &&
                       std::adjacent_find(layers.begin(), layers.end()) == layers.end() &&
                       layers.back() == config.num_hidden_layers - 1;
    if (!every) return;
    layers.clear();
    config.num_experts = 0;
  }

  /// Newer transformers write {"rope_type": "default", "rope_theta": …} instead of "rope_theta".
  void read_rope_parameters(ModelConfig& config) {
    read_.insert("rope_parameters");
    if (!json_.contains("rope_parameters") || json_.at("rope_parameters").is_null()) return;
    const Json& rope = json_.at("rope_parameters");
    if (!rope.is_object() || (rope.contains("rope_theta") && !rope.at("rope_theta").is_number())) {
      problems_.add("rope_parameters: expected an object with a number \"rope_theta\", got " +
                    shown(rope));
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
      problems_.add("loop: expected an object, got " + shown(json));
      return;
    }
    Loop loop;
    const auto whole = [&](const char* name, std::int64_t& value) {
      if (!json.contains(name)) return;
      if (json.at(name).is_number_integer()) {
        value = json.at(name).get<std::int64_t>();
      } else {
        problems_.add(std::string("loop.") + name + ": expected an integer, got " +
                      shown(json.at(name)));
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
                      shown(json.at("residual_scale")));
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
    check_rope_scaling();
    check_expert_groups(config);
    const std::vector<OnlyAs> only = only_as();
    const Json computed = fields_to_json(config);
    for (const auto& [key, value] : json_.items()) {
      if (read_.contains(key)) continue;
      // A key that this type does not have, with the value that it has without it.
      const std::string own = key == "use_qk_norm" ? "qk_norm" : key;
      if (computed.contains(own) && computed.at(own) == value) continue;
      const auto known = std::find_if(only.begin(), only.end(),
                                      [&k = key](const OnlyAs& entry) { return k == entry.key; });
      const bool allowed =
          known != only.end() &&
          std::find(known->values.begin(), known->values.end(), value) != known->values.end();
      if (allowed || is_among(std::begin(kHarmless), std::end(kHarmless), key) ||
          is_among(std::begin(kNotCounted), std::end(kNotCounted), key)) {
        config.kept[key] = value;
      } else if (computed.contains(own)) {
        problems_.add("key \"" + clipped(key) + "\" changes the arithmetic; model_type " +
                      dialect_->model_type + " computes " + shown(computed.at(own)) + ", got " +
                      shown(value));
      } else if (known == only.end()) {
        const std::string guess = nearest(key, {read_.begin(), read_.end()});
        problems_.add("unknown key \"" + clipped(key) + "\"" +
                      (guess.empty() ? "" : "; did you mean \"" + guess + "\"?"));
      } else {
        problems_.add("key \"" + key + "\" changes the arithmetic; only " +
                      shown(known->values.front()) + " is understood, got " + shown(value));
      }
    }
  }

  /// A window in use cuts the cache and the attention's FLOPs.
  void check_windows(ModelConfig& config) {
    read_.insert({"layer_types", "sliding_window"});
    check_layer_types(config);
    if (!json_.contains("sliding_window")) return;
    const Json& window = json_.at("sliding_window");
    config.kept["sliding_window"] = window;
    if (window.is_null()) return;
    const Json used =
        json_.value("use_sliding_window", defaults_.value("use_sliding_window", Json(true)));
    if (used == Json(false)) {
      config.kept["use_sliding_window"] = false;  // not every type has it off by default
    } else {
      problems_.add("key \"sliding_window\" changes the arithmetic; only null is understood, got " +
                    shown(window));
    }
  }

  void check_layer_types(const ModelConfig& config) {
    const Json types = json_.value("layer_types", Json());
    if (types.is_null()) return;
    if (!types.is_array() || static_cast<std::int64_t>(types.size()) != config.num_hidden_layers) {
      problems_.add("layer_types: expected a list of num_hidden_layers = " +
                    std::to_string(config.num_hidden_layers) + " names, got " + shown(types));
      return;
    }
    for (const Json& type : types) {
      if (type == Json("full_attention")) continue;
      problems_.add(
          "key \"layer_types\" changes the arithmetic; only \"full_attention\" is understood, "
          "got " +
          shown(type));
      break;
    }
  }

  /// DeepSeek routes inside the best `topk_group` of `n_group` equal groups of experts.
  void check_expert_groups(const ModelConfig& config) {
    const Json groups = json_.value("n_group", Json()), best = json_.value("topk_group", Json());
    if (!groups.is_number_integer() || config.num_experts < 1) return;
    const auto n = groups.get<std::int64_t>();
    if (n < 1 || config.num_experts % n != 0) {
      problems_.add("n_group: expected a divisor of the " + std::to_string(config.num_experts) +
                    " experts, got " + shown(groups));
    } else if (best.is_number_integer() &&
               (best.get<std::int64_t>() < 1 || best.get<std::int64_t>() > n)) {
      problems_.add("topk_group: expected 1 to n_group = " + std::to_string(n) + ", got " +
                    shown(best));
    }
  }

  void check_rope_scaling() {
    const Json scaling = json_.value("rope_scaling", Json());
    if (scaling.is_null() || scaling.is_object()) return;
    problems_.add("rope_scaling: expected an object or null, got " + shown(scaling));
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
