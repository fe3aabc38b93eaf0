#include "smelt/plan/suggest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "smelt/core/file.h"

namespace smelt::plan {
namespace {

StudyConfig one_model() {
  StudyConfig study;
  study.seeds = {1, 2};
  study.row_length = 100;
  study.rows = 4;
  study.horizons = {{10, 30}, 5};
  study.rates.rates = {0.1, 0.2, 0.3};
  arch::ModelConfig m;
  m.vocab_size = 500;
  m.hidden_size = 64;
  m.num_hidden_layers = 4;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 1;
  m.head_dim = 24;
  m.moe_intermediate_size = 32;
  m.num_experts = 8;
  m.num_experts_per_tok = 2;
  study.scales = {{"model", m, {8}}};
  return study;
}

TEST(Suggest, GivesCellsOnWhichALawCanBeTold) {
  StudyConfig study = one_model();
  study.scales = suggest_scales(study);
  ASSERT_EQ(study.scales.size(), 3u);
  EXPECT_EQ(study.scales[0].baseline.hidden_size, 32);
  EXPECT_EQ(study.scales[2].baseline.hidden_size, 64);
  EXPECT_EQ(study.scales[0].baseline.num_attention_heads, 2);
  for (const Scale& scale : study.scales) {
    EXPECT_EQ(scale.experts, (std::vector<std::int64_t>{4, 8, 16}));
  }
  const Plan plan = make_plan(study, 50, 500);
  EXPECT_EQ(plan.cells.size(), 9u);
  for (const std::string& line : plan.words) {
    EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("cannot")));
  }
  EXPECT_EQ(suggest_scales(study).size(), 3u);  // enough already
}

TEST(Suggest, HorizonsSpendTheBudget) {
  StudyConfig study = one_model();
  const Plan before = make_plan(study, 50, 500);
  const double budget = 2e13;
  study.horizons = horizons_for(study, before, budget);
  ASSERT_EQ(study.horizons.steps.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(study.horizons.steps[i], 2 * study.horizons.steps[i - 1]);
  }
  EXPECT_NEAR(make_plan(study, 50, 500).flops / budget, 1, 0.02);
  EXPECT_THROW(horizons_for(study, before, 1e9), Error);
}

TEST(Suggest, TheTomlIsAStudysOwn) {
  StudyConfig study = one_model();
  study.scales = suggest_scales(study);
  study.horizons = {{10, 20, 40, 80}, 4};
  const auto file = std::filesystem::path(::testing::TempDir()) / "suggested.toml";
  write_file_atomic(file,
                    "seeds = [1, 2]\n[data]\nstore = \"store\"\n[baseline]\n"
                    "num_experts_per_tok = 2\nvocab_size = 500\n" +
                        to_toml(study.scales, study.horizons));
  Problems problems("plan", file.string());
  const StudyConfig back = read_study_config(file, problems);
  problems.throw_if_any();
  ASSERT_EQ(back.scales.size(), 3u);
  EXPECT_EQ(back.scales[1].baseline.hidden_size, study.scales[1].baseline.hidden_size);
  EXPECT_EQ(back.scales[1].experts, study.scales[1].experts);
  EXPECT_EQ(back.horizons.steps, study.horizons.steps);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace smelt::plan
