// run.toml, the learning-rate schedule and metrics.jsonl: what needs no training.
#include "smelt/train/run_config.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "smelt/train/metrics.h"
#include "smelt/train/schedule.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using RunConfigTest = TinyRun;
using MetricsTest = TinyRun;

TEST_F(RunConfigTest, WrittenAndReadBackIsTheSame) {
  RunConfig run = config();
  run.train.keep_steps = {3, 5};
  run.train.decay = DecayShape::kLinear;
  run.router.balance = Balance::kRow;
  make_folder(root_ / "runs/a");
  write_run_config(run, root_ / "runs/a/run.toml");
  EXPECT_THAT(read_file(root_ / "runs/a/run.toml"), HasSubstr("store = \"../../store\""));
  const RunConfig again = read_run_config(root_ / "runs/a/run.toml");
  EXPECT_EQ(again.model, run.model);
  EXPECT_EQ(again.data, run.data);
  EXPECT_EQ(again.train, run.train);
  EXPECT_EQ(again.router, run.router);
  EXPECT_EQ(again.branch, run.branch);
  EXPECT_EQ(to_toml(again, root_ / "runs/a/run.toml"), read_file(root_ / "runs/a/run.toml"));
}

TEST_F(RunConfigTest, PathsAreRelativeToTheFileWhereverItLies) {
  RunConfig run = config();
  run.branch = BranchPoint{root_ / "parent", 4};
  run.train.steps = 4 + (run.train.decay_steps = 3);
  make_folder(root_ / "deep/er");
  write_run_config(run, root_ / "deep/er/run.toml");
  const RunConfig again = read_run_config(root_ / "deep/er/run.toml");
  EXPECT_EQ(again.data.store, run.data.store);
  EXPECT_EQ(again.branch->step, 4);
  EXPECT_EQ(again.branch->parent.filename(), "parent");
}

TEST_F(RunConfigTest, EveryProblemAtOnceWithItsLine) {
  std::ofstream(root_ / "run.toml") << "schema = \"smelt.run/1\"\n"   // 1
                                       "sead = 3\n"                   // 2
                                       "[model]\n"                    // 3
                                       "vocab_size = 32\n"            // 4
                                       "hidden_size = 16\n"           // 5
                                       "num_hidden_layers = 3\n"      // 6
                                       "num_attention_heads = 2\n"    // 7
                                       "num_key_value_heads = 1\n"    // 8
                                       "head_dim = 7\n"               // 9
                                       "moe_intermediate_size = 8\n"  // 10
                                       "num_experts = 4\n"            // 11
                                       "num_experts_per_tok = 2\n"    // 12
                                       "[data]\n"                     // 13
                                       "store = \"store\"\n"          // 14
                                       "pool = \"stabel\"\n"          // 15
                                       "[train]\n"                    // 16
                                       "stepz = 10\n"                 // 17
                                       "lr = -1\n"                    // 18
                                       "beta1 = \"high\"\n"           // 19
                                       "[router]\n"                   // 20
                                       "balance = \"sometimes\"\n";   // 21
  const std::string text = error_of([&] { read_run_config(root_ / "run.toml"); });
  for (const char* part :
       {"unknown key \"sead\"; did you mean \"seed\"?", "run.toml:2)",
        "head_dim: expected an even number", "run.toml:9)", "missing key \"data.row_length\"",
        "run.toml:13)", "pool: expected stable, decay", "run.toml:15)",
        "unknown key \"train.stepz\"; did you mean \"steps\"?", "run.toml:17)",
        "lr: expected 0 to 10, got -1", "run.toml:18)", "beta1: expected a number, got a string",
        "run.toml:19)", "balance: expected global, row, bias or off, got \"sometimes\"",
        "run.toml:21)"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(RunConfigTest, InconsistentOptionsAreNamedTogether) {
  RunConfig run = config();
  run.train.micro_rows = 4;   // of 6
  run.train.decay_steps = 7;  // 2 + 7 > 8
  run.data.row_length = 1;
  run.threads = 0;
  Problems problems("train");
  validate(run, problems);
  ASSERT_EQ(problems.lines().size(), 4u);
  EXPECT_THAT(problems.lines()[0], HasSubstr("threads"));
  EXPECT_THAT(problems.lines()[1], HasSubstr("row_length"));
  EXPECT_THAT(problems.lines()[2], HasSubstr("divisor of rows = 6, got 4"));
  EXPECT_THAT(problems.lines()[3], HasSubstr("warmup_steps + decay_steps = 9, got 8"));
}

TEST_F(RunConfigTest, IdentityIsWhatDecidesTheBits) {
  const RunConfig run = config();
  RunConfig free = run;
  free.name = "other";
  free.train.checkpoint_every = 77;
  free.train.eval_every = 3;
  free.train.steps = 100;  // no tail: the first steps are the same
  free.train.micro_rows = 6;
  EXPECT_THAT(differences(identity(run), "a", identity(free), "b"), ElementsAre());
  RunConfig other = run;
  other.train.lr = 0.02;
  other.model.loop.reset();
  EXPECT_THAT(
      differences(identity(run), "a", identity(other), "b"),
      ElementsAre("model.loop: a has {\"first\":2,\"last\":2,\"visits\":2,\"residual_scale\":0.5}, "
                  "b has nothing",
                  "train.lr: a has 0.01, b has 0.02"));
  RunConfig tail = run;
  tail.train.decay_steps = 2;
  RunConfig longer = tail;
  longer.train.steps = 100;  // with a tail the rates differ
  EXPECT_EQ(differences(identity(tail), "a", identity(longer), "b").size(), 1u);
}

TEST(Schedule, WarmupStableAndCosineTailByHand) {
  TrainOptions options;
  options.lr = 1;
  options.warmup_steps = 4;
  options.steps = 15;
  options.decay_steps = 5;
  options.min_lr_ratio = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(options, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1);
  // 0.1 + 0.9 (1 + cos(π i/4)) / 2 for i = 0 … 4, with cos(π/4) = 0.70710678
  const double expected[] = {1, 0.86819805, 0.55, 0.23180195, 0.1};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(learning_rate(options, 11 + i), expected[i], 1e-8);
  options.decay = DecayShape::kLinear;
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(learning_rate(options, 11 + i), 1 - 0.225 * i, 1e-12);
}

TEST(Schedule, BranchBeginsAtItsParentsRateAndEndsAtTheFloor) {
  TrainOptions parent;
  parent.lr = 0.004;
  parent.warmup_steps = 10;
  parent.steps = 1000;
  for (const std::int64_t fork : {5, 10, 400}) {
    TrainOptions branch = parent;
    branch.decay_steps = 7;
    branch.steps = fork + 7;
    branch.min_lr_ratio = 0;
    EXPECT_EQ(learning_rate(branch, fork + 1), learning_rate(parent, fork)) << fork;
    EXPECT_EQ(learning_rate(branch, fork), learning_rate(parent, fork)) << fork;
    EXPECT_NEAR(learning_rate(branch, fork + 7), 0, 1e-18) << fork;
  }
}

TEST_F(MetricsTest, ReopenedFileEndsAtTheCheckpoint) {
  const auto file = root_ / "metrics.jsonl";
  {
    MetricsFile metrics(file, 0);
    for (int step = 1; step <= 4; ++step) {
      metrics.append({{"step", step}, {"loss", std::nan("")}});
      if (step == 3) metrics.append({{"step", step}, {"eval", {{"loss", 2}}}});
    }
  }
  std::ofstream(file, std::ios::app) << "{\"step\":5,\"lo";  // killed while writing
  {
    const MetricsFile metrics(file, 4);
    EXPECT_FALSE(metrics.has_evaluation());
    EXPECT_THAT(read_file(file), ::testing::EndsWith("{\"step\":4,\"loss\":null}\n"));
  }
  {
    const MetricsFile metrics(file, 3);
    EXPECT_TRUE(metrics.has_evaluation());
    EXPECT_THAT(read_file(file), ::testing::EndsWith("{\"step\":3,\"eval\":{\"loss\":2}}\n"));
  }
  const MetricsFile metrics(file, 0);
  EXPECT_EQ(read_file(file), "");
}

TEST_F(MetricsTest, FileThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(error_of([&] { MetricsFile(root_ / "nowhere/metrics.jsonl", 0); }),
              HasSubstr("nowhere/metrics.jsonl"));
}

}  // namespace
}  // namespace smelt::train
