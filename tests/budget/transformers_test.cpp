// Counts against the tensors that transformers builds (tests/arch/transformers_counts.py).
#include <gtest/gtest.h>

#include "smelt/budget/budget.h"
#include "smelt/core/file.h"

namespace smelt::budget {
namespace {

const Json& models() {
  static const Json json = read_json(SMELT_TEST_DATA "/arch/transformers_counts.json");
  return json.at("models");
}

TEST(Transformers, EveryParameterIsCounted) {
  EXPECT_GE(models().size(), 50u);
  for (const Json& row : models()) {
    const std::string name = row.at("name");
    const auto model = arch::model_config_from_json(row.at("config"), name);
    const Budget b = count(model, kPaperAttended);
    const double total = row.at("total"), routed = row.at("routed"), tables = row.at("embedding");
    EXPECT_EQ(b.parameters_total_all(), total) << name;
    EXPECT_EQ(b.parameters_embedding, tables) << name;
    const double used = model.num_experts == 0 ? 1
                                               : row.at("top_k").get<double>() /
                                                     static_cast<double>(model.num_experts);
    EXPECT_NEAR(b.parameters_active_all(), total - routed * (1 - used), 1e-6 * total / 1e6) << name;
  }
}

// Published on the model cards, embedding and head included.
TEST(Transformers, KnownModelsToTheLastDigit) {
  const auto check = [](const char* name, double total, double active) {
    for (const Json& row : models()) {
      if (row.at("name") != name) continue;
      const Budget b = count(arch::model_config_from_json(row.at("config"), name), kPaperAttended);
      EXPECT_EQ(b.parameters_total_all(), total) << name;
      EXPECT_EQ(b.parameters_active_all(), active) << name;
      return;
    }
    ADD_FAILURE() << name << " is missing";
  };
  check("Qwen3-30B-A3B", 30532122624, 3353032704);
  check("Mixtral-8x7B", 46702792704, 12879925248);
  check("OLMoE-1B-7B", 6919161856, 1282017280);
  check("Qwen2-57B-A14B", 57408658944, 14249270784);
  check("DeepSeek-V3", 671026419200, 37552297472);
}

// By hand for one layer: H 8, 2 heads of 3 + 2 (values 4), ranks 6 (q) and 5 (kv), dense width 7.
TEST(Transformers, LatentAttentionAgreesWithAHandCount) {
  const auto model = arch::model_config_from_json({{"model_type", "deepseek_v3"},
                                                   {"vocab_size", 10},
                                                   {"hidden_size", 8},
                                                   {"num_hidden_layers", 1},
                                                   {"num_attention_heads", 2},
                                                   {"first_k_dense_replace", 1},
                                                   {"intermediate_size", 7},
                                                   {"q_lora_rank", 6},
                                                   {"kv_lora_rank", 5},
                                                   {"qk_nope_head_dim", 3},
                                                   {"qk_rope_head_dim", 2},
                                                   {"v_head_dim", 4}},
                                                  "hand");
  const Budget b = count(model, 10);
  const double query = 8 * 6 + 6 * 2 * 5, key_value = 8 * (5 + 2) + 5 * 2 * (3 + 4),
               out = 2 * 4 * 8;
  const double dense = 3 * 8 * 7;
  EXPECT_EQ(b.parameters_total, query + key_value + out + dense + 2 * 8 + 6 + 5);
  EXPECT_EQ(b.flops_per_token, 6 * (query + key_value + out + dense) + 6 * (2 * 5 + 2 * 4) * 10);
  EXPECT_EQ(b.kv_elements_per_token, 5 + 2);
}

TEST(Transformers, AHugeModelDoesNotWrap) {
  auto model = arch::model_config_from_json({{"model_type", "llama"}}, "huge");
  model.hidden_size = model.intermediate_size = 500'000'000;
  model.vocab_size = 1'000'000'000;
  const Budget b = count(model, 1e6, 1e9);
  EXPECT_NEAR(b.parameters_total / (32 * (3 * 2.5e17 + 4 * 5e8 * 4096)), 1, 1e-6);
  EXPECT_GT(b.flops_per_token, 0);
  EXPECT_GT(b.parameters_embedding, 9e17);
}

}  // namespace
}  // namespace smelt::budget
