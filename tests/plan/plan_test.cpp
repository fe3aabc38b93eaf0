#include "smelt/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace smelt::plan {
namespace {

StudyConfig study_of(std::vector<Scale> scales) {
  StudyConfig study;
  study.seeds = {1, 2};
  study.row_length = 100;
  study.rows = 4;
  study.horizons = {{10, 30}, 5};
  study.rates.rates = {0.1, 0.2, 0.3};
  study.scales = std::move(scales);
  return study;
}

Scale scale(const char* name, std::int64_t hidden, std::vector<std::int64_t> experts) {
  arch::ModelConfig m;
  m.hidden_size = hidden;
  m.num_hidden_layers = 4;
  m.num_attention_heads = 2;
  m.num_key_value_heads = 1;
  m.head_dim = 24;
  m.moe_intermediate_size = 16;
  m.num_experts_per_tok = 2;
  m.num_experts = experts.front();
  return {name, m, std::move(experts)};
}

TEST(Plan, CountsTokensOfRunsAndTrials) {
  const Plan plan = make_plan(study_of({scale("a", 32, {8})}), 50, 500);
  // 30 stable steps and two branches of 5, of 400 tokens; trials: first horizon and decay.
  EXPECT_EQ(plan.pair_tokens, (30 + 2 * 5) * 400);
  EXPECT_EQ(plan.trial_tokens, (10 + 5) * 400);
  EXPECT_EQ(plan.trials, 3 * 2);
  const Cell& cell = plan.cells.front();
  const auto per_token = [&](Arm arm) {
    return cell.budget(arm).flops_per_token + cell.budget(arm).flops_head;
  };
  const double both = per_token(Arm::kBaseline) + per_token(Arm::kSmelt);
  EXPECT_DOUBLE_EQ(plan.flops_runs, both * 2 * plan.pair_tokens);
  EXPECT_DOUBLE_EQ(plan.flops_trials, both * 3 * plan.trial_tokens);
  EXPECT_EQ(cell.config(Arm::kBaseline).vocab_size, 500);
  EXPECT_EQ(cell.config(Arm::kSmelt).vocab_size, 500);
}

TEST(Plan, RatesAreTriedOnTheSmallestAndTheLargestCell) {
  const Plan plan =
      make_plan(study_of({scale("b", 48, {8}), scale("a", 32, {8}), scale("c", 64, {8})}), 50, 500);
  EXPECT_EQ(plan.rate_cells, (std::vector<std::size_t>{1, 2}));
}

TEST(Plan, BothArmsHaveTheBaselinesControl) {
  const Plan plan = make_plan(study_of({scale("a", 32, {8, 16})}), 50, 500);
  for (const Cell& cell : plan.cells) {
    const auto control = budget::count(budget::fully_active(cell.config(Arm::kBaseline)), 50);
    EXPECT_DOUBLE_EQ(cell.sparsity[1], budget::sparsity(cell.budget(Arm::kSmelt), control));
    // Matched on F and N, so nearly equal sparsity.
    EXPECT_NEAR(cell.sparsity[0], cell.sparsity[1], 0.02);
  }
}

TEST(Plan, SaysWhatTheDesignCannotTell) {
  auto study = study_of({scale("a", 32, {8})});
  study.seeds = {1};
  study.horizons.steps = {10};
  const Plan plan = make_plan(study, 50, 500);
  for (const char* words :
       {"fewer than 6", "one scale", "one sparsity", "one horizon", "one seed"}) {
    EXPECT_THAT(plan.words, ::testing::Contains(::testing::HasSubstr(words)));
  }
}

TEST(Plan, SaysWhenSizeAndSparsityMoveTogether) {
  const auto together = [](const std::vector<Scale>& scales) {
    const Plan plan = make_plan(study_of(scales), 50, 500);
    return std::any_of(plan.words.begin(), plan.words.end(), [](const std::string& line) {
      return line.find("F and S move together") != std::string::npos;
    });
  };
  EXPECT_TRUE(together({scale("a", 32, {4}), scale("b", 48, {8}), scale("c", 64, {16})}));
  EXPECT_FALSE(together({scale("a", 32, {4, 8, 16}), scale("b", 64, {4, 8, 16})}));
}

TEST(Plan, CellsAddUp) {
  const Plan plan = make_plan(study_of({scale("a", 32, {8, 16}), scale("b", 64, {8})}), 50, 500);
  double flops = 0, bytes = 0;
  for (const Cell& cell : plan.cells) {
    flops += cell.flops;
    bytes += cell.checkpoint_bytes;
  }
  EXPECT_DOUBLE_EQ(flops, plan.flops_runs);
  EXPECT_DOUBLE_EQ(bytes, plan.checkpoint_bytes);
}

// Horizons 250 and 600: every 160 steps there are 160, 250, 320, 480 and 600; the newest two and
// the horizons stay (480, 600, 250).  The branches to 330 and 680 have 320 and 330, 640 and 680.
// Weights and two moments, 12 bytes each.
TEST(Plan, CheckpointsLeftOnDisk) {
  const auto left = [](const char* train) {
    StudyConfig study = study_of({scale("a", 32, {8})});
    study.seeds = {1};
    study.horizons = {{250, 600}, 80};
    TomlFile file = TomlFile::parse(train, "t.toml");
    study.train = file.root();
    const Plan plan = make_plan(study, 50, 500);
    double parameters = 0;
    for (const Arm arm : kArms) {
      parameters += plan.cells[0].budget(arm).parameters_total_all();
    }
    return plan.checkpoint_bytes / (12 * parameters);
  };
  EXPECT_DOUBLE_EQ(left("checkpoint_every = 160\nkeep_last = 2\n"), 3 + 4);
  EXPECT_DOUBLE_EQ(left("checkpoint_every = 160\nkeep_last = 100\n"), 5 + 4);
  EXPECT_DOUBLE_EQ(left("checkpoint_every = 0\nkeep_last = 1\n"), 2 + 2);
  EXPECT_DOUBLE_EQ(left("checkpoint_every = 50\nkeep_last = 1\n"), 2 + 2);
}

}  // namespace
}  // namespace smelt::plan
