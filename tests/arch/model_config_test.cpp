#include "smelt/arch/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smelt/arch/dialects.h"

namespace smelt::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json plain() {
  return {{"model_type", "qwen3_moe"},
          {"vocab_size", 100},
          {"hidden_size", 32},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"moe_intermediate_size", 16},
          {"num_experts", 8},
          {"num_experts_per_tok", 2},
          {"norm_topk_prob", true},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"max_position_embeddings", 64},
          {"tie_word_embeddings", false}};
}

std::string message_of(const Json& json) {
  try {
    model_config_from_json(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ModelConfig, ReadsBackWhatItWrites) {
  Json json = plain();
  json["loop"] = {{"first", 2}, {"last", 3}, {"visits", 2}, {"residual_scale", 0.5}};
  json["bos_token_id"] = 1;
  const ModelConfig config = model_config_from_json(json, "config.json");
  EXPECT_EQ(model_config_from_json(to_json(config), "again"), config);
  EXPECT_EQ(to_json(config).at("model_type"), "smelt");
  EXPECT_EQ(to_json(config).at("bos_token_id"), 1);
}

TEST(ModelConfig, ALoopedModelIsNeverWrittenAsQwen) {
  ModelConfig config = model_config_from_json(plain(), "config.json");
  EXPECT_EQ(to_json(config).at("model_type"), "qwen3_moe");
  config.loop = Loop{2, 3, 1, 1.0};
  EXPECT_EQ(to_json(config).at("model_type"), "qwen3_moe");
  config.loop->residual_scale = 0.5;
  EXPECT_EQ(to_json(config).at("model_type"), "smelt");
  config.loop.reset();
  config.qk_norm = false;
  EXPECT_EQ(to_json(config).at("model_type"), "smelt");
}

TEST(ModelConfig, ResidualScaleDefaultsToOneOverVisits) {
  Json json = plain();
  json["loop"] = {{"first", 2}, {"last", 3}, {"visits", 4}};
  EXPECT_EQ(model_config_from_json(json, "c").loop->residual_scale, 0.25);
}

TEST(ModelConfig, NewerRopeParametersAreUnderstood) {
  Json json = plain();
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(model_config_from_json(json, "c").rope_theta, 5e5);
  json["rope_parameters"]["rope_type"] = "yarn";  // costs the same, but is not run
  EXPECT_THAT(beyond_engine(model_config_from_json(json, "c")),
              ElementsAre("scaled rotary angles"));
}

TEST(ModelConfig, NewerExpertCountIsUnderstood) {
  Json json = plain();
  json["num_local_experts"] = 8;
  EXPECT_EQ(model_config_from_json(json, "c").num_experts, 8);
  json["num_local_experts"] = 6;
  EXPECT_THAT(message_of(json), HasSubstr("num_local_experts and num_experts differ: 6 and 8"));
  json.erase("num_experts");
  EXPECT_EQ(model_config_from_json(json, "c").num_experts, 6);
}

TEST(ModelConfig, ReportsAllProblemsAtOnce) {
  Json json = plain();
  json["hidden_size"] = "wide";
  json["num_exprets"] = 3;
  json["hidden_act"] = "gelu";
  json["model_type"] = "smelt";
  json.erase("vocab_size");
  const std::string message = message_of(json);
  EXPECT_THAT(message, HasSubstr("hidden_size: expected an integer, got \"wide\""));
  EXPECT_THAT(message, HasSubstr("unknown key \"num_exprets\"; did you mean \"num_experts\"?"));
  EXPECT_THAT(message, HasSubstr("key \"hidden_act\" changes the arithmetic"));
  EXPECT_THAT(message, HasSubstr("missing key \"vocab_size\""));
  EXPECT_THAT(message, HasSubstr("(config.json)"));
}

struct BadGeometry {
  const char* key;
  Json value;
  const char* expected;
};

class BadGeometryTest : public ::testing::TestWithParam<BadGeometry> {};

TEST_P(BadGeometryTest, IsNamed) {
  Json json = plain();
  json[GetParam().key] = GetParam().value;
  EXPECT_THAT(message_of(json), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadGeometryTest,
    ::testing::Values(
        BadGeometry{"hidden_size", 0, "hidden_size: expected 1 to 1000000000, got 0"},
        BadGeometry{"num_hidden_layers", -3, "num_hidden_layers: expected 1 to 1000000, got -3"},
        BadGeometry{"num_attention_heads", 3, "expected a multiple of num_key_value_heads = 2"},
        BadGeometry{"head_dim", 7, "head_dim: expected an even number"},
        BadGeometry{"num_experts_per_tok", 9, "expected at most num_experts = 8, got 9"},
        BadGeometry{"model_type", "gpt2",
                    "olmoe, deepseek_v2, deepseek_v3, llama, qwen3 or qwen2, got \"gpt2\""},
        BadGeometry{"loop",
                    {{"first", 3}, {"last", 9}},
                    "expected a span inside the layers 1 to 4, got 3 to 9"},
        BadGeometry{"loop",
                    {{"first", 3}, {"last", 4}, {"visits", 0}},
                    "loop.visits: expected 1 to 64, got 0"},
        BadGeometry{"loop", {{"first", 3}}, "missing key \"loop.last\""},
        BadGeometry{
            "loop", {{"first", 3}, {"last", 4}, {"vists", 2}}, "unknown key \"loop.vists\""},
        BadGeometry{"layer_types",
                    {"full_attention", "full_attention", "full_attention", "sliding_attention"},
                    "key \"layer_types\" changes the arithmetic"},
        BadGeometry{"layer_types", {"full_attention"}, "expected a list of num_hidden_layers = 4"},
        BadGeometry{"layer_types", "full_attention", "expected a list of num_hidden_layers = 4"},
        BadGeometry{"hidden_size", 4e18, "hidden_size: expected an integer, got 4e+18"},
        BadGeometry{"hidden_size", 4000000000000000000, "hidden_size: expected 1 to 1000000000"},
        BadGeometry{"vocab_size", 18446744073709551615u, "vocab_size: expected 0 to 1000000000"},
        BadGeometry{"mlp_only_layers", {4}, "mlp_only_layers: expected layers from 0 to 3, got 4"},
        BadGeometry{"mlp_only_layers", {"a"}, "mlp_only_layers: expected a list of integers"},
        BadGeometry{"decoder_sparse_step", 0, "decoder_sparse_step: expected 1 to 1000000, got 0"},
        BadGeometry{"kv_lora_rank", 512, "model_type qwen3_moe computes 0, got 512"},
        BadGeometry{"vocab_size", 0, "vocab_size: expected at least 1, got 0"},
        BadGeometry{"loop",
                    {{"first", 3}, {"last", 4}, {"visits", std::int64_t{1} << 62}},
                    "loop.visits: expected 1 to 64, got 4611686018427387904"},
        BadGeometry{"num_local_experts", 18446744073709551615u,
                    "num_local_experts and num_experts differ: 18446744073709551615 and 8"},
        BadGeometry{
            "mlp_only_layers", {1, 1}, "mlp_only_layers: expected rising layers, each once"},
        BadGeometry{"rope_scaling", "linear", "rope_scaling: expected an object or null"},
        BadGeometry{"hidden_act", std::string(5000, 'x'), "xxx… (config.json)"},
        BadGeometry{"is_decoder", true, "key \"is_decoder\" changes the arithmetic"}));

TEST(ModelConfig, AWindowInUseIsAnErrorAndOneThatIsSwitchedOffIsNot) {
  Json json = plain();
  json["sliding_window"] = 128;
  EXPECT_EQ(message_of(json), "");  // Qwen3-MoE switches it off by default
  json["use_sliding_window"] = true;
  EXPECT_THAT(message_of(json), HasSubstr("key \"sliding_window\" changes the arithmetic"));
  json["model_type"] = "mixtral";  // has no switch
  json.erase("use_sliding_window");
  EXPECT_THAT(message_of(json), HasSubstr("key \"sliding_window\" changes the arithmetic"));
}

TEST(ModelConfig, WhatIsOnlyCountedSaysSo) {
  EXPECT_TRUE(beyond_engine(model_config_from_json(plain(), "c")).empty());
  EXPECT_THAT(beyond_engine(model_config_from_json({{"model_type", "deepseek_v3"}}, "c")),
              ElementsAre("dense feed-forwards", "shared experts",
                          "latent attention (kv_lora_rank)", "biases"));
  EXPECT_THAT(beyond_engine(model_config_from_json({{"model_type", "llama"}}, "c")),
              ElementsAre("dense feed-forwards"));
  EXPECT_THAT(beyond_engine(model_config_from_json({{"model_type", "olmoe"}}, "c")),
              ElementsAre("q/k norms over all heads at once"));
  EXPECT_TRUE(beyond_engine(model_config_from_json({{"model_type", "mixtral"}}, "c")).empty());
}

TEST(ModelConfig, EveryTypeReadsBackFromItsOwnKeys) {
  for (const std::string& type : dialect_names()) {
    if (type == "smelt") continue;
    Json json = {{"model_type", type}};
    if (type == "deepseek_v2") json["num_experts_per_tok"] = 6;
    const ModelConfig config = model_config_from_json(json, type);
    EXPECT_EQ(model_config_from_json(to_json(config), type), config) << type;
  }
}

TEST(ModelConfig, KeysOfAnotherTypeAreUnknown) {
  const Json llama = {{"model_type", "llama"}, {"num_experts", 8}};
  EXPECT_THAT(message_of(llama), HasSubstr("model_type llama computes 0, got 8"));
  const Json mixtral = {{"model_type", "mixtral"}, {"norm_topk_prob", false}};
  EXPECT_THAT(message_of(mixtral), HasSubstr("model_type mixtral computes true, got false"));
}

// Keys found in configs of the hub that change nothing: the type computes that value without them.
TEST(ModelConfig, KeysThatSayWhatIsComputedAnywayAreTaken) {
  Json json = plain();
  const ModelConfig before = model_config_from_json(json, "c");
  json["qkv_bias"] = false;
  json["use_qk_norm"] = true;
  json["shared_expert_intermediate_size"] = 0;
  json["num_local_experts"] = 8;
  json["router_bias"] = false;
  EXPECT_EQ(model_config_from_json(json, "c"), before);
  json["use_qk_norm"] = false;
  EXPECT_THAT(message_of(json), HasSubstr("key \"use_qk_norm\" changes the arithmetic"));
  EXPECT_EQ(message_of({{"model_type", "deepseek_v3"}, {"num_local_experts", 256}}), "");
  EXPECT_EQ(model_config_from_json({{"model_type", "deepseek_v3"}, {"num_local_experts", 64}}, "c")
                .num_experts,
            64);
}

TEST(ModelConfig, KeysOfOldDumpsAndOfTextGenerationAreKept) {
  Json json = plain();
  for (const char* key : {"torchscript", "pruned_heads", "temperature", "top_p", "do_sample",
                          "tie_encoder_decoder", "unsloth_version", "pretraining_tp",
                          "max_sequence_length", "_attn_implementation_autoset"}) {
    json[key] = 2;
    EXPECT_EQ(message_of(json), "") << key;
  }
  json["is_decoder"] = false;
  json["add_cross_attention"] = false;
  EXPECT_EQ(message_of(json), "");
}

TEST(ModelConfig, SharedExpertsAreCheckedBeforeTheyAreMultiplied) {
  const auto with = [](Json shared) {
    return message_of({{"model_type", "deepseek_v3"}, {"n_shared_experts", std::move(shared)}});
  };
  EXPECT_EQ(with(0), "");
  EXPECT_THAT(with(-1), HasSubstr("n_shared_experts: expected 0 to 1000000, got -1"));
  EXPECT_THAT(with(std::int64_t{1} << 62), HasSubstr("n_shared_experts: expected 0 to 1000000"));
  EXPECT_THAT(with(1000000), HasSubstr("n_shared_experts: expected at most 488281 of width 2048"));
}

TEST(ModelConfig, AllLayersDenseIsADenseModel) {
  Json json = plain();
  json["mlp_only_layers"] = {3, 1, 0, 2};
  json["intermediate_size"] = 64;
  const ModelConfig config = model_config_from_json(json, "c");
  EXPECT_EQ(config.num_experts, 0);
  EXPECT_TRUE(config.mlp_only_layers.empty());
  EXPECT_EQ(config.intermediate_size, 64);
  const Json dense_first = {{"model_type", "deepseek_v3"}, {"first_k_dense_replace", 61}};
  const ModelConfig latent = model_config_from_json(dense_first, "c");
  EXPECT_EQ(latent.num_experts + latent.shared_expert_intermediate_size, 0);
  EXPECT_FALSE(latent.router_bias);
  for (const std::int64_t bad : {-1, 62}) {
    EXPECT_THAT(message_of({{"model_type", "deepseek_v3"}, {"first_k_dense_replace", bad}}),
                HasSubstr("first_k_dense_replace: expected 0 to 61, got " + std::to_string(bad)));
  }
  Problems problems("arch");
  ModelConfig by_hand = model_config_from_json(plain(), "c");
  by_hand.mlp_only_layers = {0, 1, 2, 3};
  by_hand.intermediate_size = 64;
  validate(by_hand, problems);
  EXPECT_THAT(problems.messages(), ::testing::Contains(HasSubstr("every layer is dense")));
}

// What a match writes is of our own type, which has no default that switches a window off.
TEST(ModelConfig, AWindowThatIsOffStaysOffInOurOwnType) {
  const Json qwen = {{"model_type", "qwen2_moe"}, {"sliding_window", 4096}};
  ModelConfig config = model_config_from_json(qwen, "c");
  config.loop = Loop{9, 16, 2, 0.5};
  EXPECT_EQ(model_config_from_json(to_json(config), "c"), config);
}

TEST(ModelConfig, ADenseModelOfOurOwnType) {
  Json json = plain();
  json["model_type"] = "smelt";
  json["num_experts"] = 0;
  json.erase("moe_intermediate_size");
  EXPECT_THAT(message_of(json), HasSubstr("missing key \"intermediate_size\""));
  json["intermediate_size"] = 64;
  const ModelConfig config = model_config_from_json(json, "c");
  EXPECT_TRUE(config.dense(0));
  EXPECT_EQ(config.num_experts_per_tok, 0);
}

}  // namespace
}  // namespace smelt::arch
