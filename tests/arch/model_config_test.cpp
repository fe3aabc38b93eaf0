#include "smelt/arch/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace smelt::arch {
namespace {

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
  json["rope_parameters"]["rope_type"] = "yarn";
  EXPECT_THAT(message_of(json), HasSubstr("rope_parameters"));
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
        BadGeometry{"hidden_size", 0, "hidden_size: expected at least 1, got 0"},
        BadGeometry{"num_hidden_layers", -3, "num_hidden_layers: expected at least 1, got -3"},
        BadGeometry{"num_attention_heads", 3, "expected a multiple of num_key_value_heads = 2"},
        BadGeometry{"head_dim", 7, "head_dim: expected an even number"},
        BadGeometry{"num_experts_per_tok", 9, "expected at most num_experts = 8, got 9"},
        BadGeometry{"model_type", "gpt2", "model_type: expected qwen3_moe or smelt, got \"gpt2\""},
        BadGeometry{"loop",
                    {{"first", 3}, {"last", 9}},
                    "expected a span inside the layers 1 to 4, got 3 to 9"},
        BadGeometry{"loop",
                    {{"first", 3}, {"last", 4}, {"visits", 0}},
                    "loop.visits: expected at least 1, got 0"},
        BadGeometry{"loop", {{"first", 3}}, "missing key \"loop.last\""},
        BadGeometry{
            "loop", {{"first", 3}, {"last", 4}, {"vists", 2}}, "unknown key \"loop.vists\""},
        BadGeometry{"sliding_window", 128, "key \"sliding_window\" changes the arithmetic"}));

}  // namespace
}  // namespace smelt::arch
