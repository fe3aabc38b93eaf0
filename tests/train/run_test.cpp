// Whole runs: resume to the bit, branches, pairs, evaluation, divergence, refusals.
#include "smelt/train/run.h"

#include <gmock/gmock.h>

#include <fstream>
#include <limits>

#include "smelt/data/rows.h"
#include "smelt/model/loss.h"
#include "smelt/train/checkpoint.h"
#include "smelt/train/schedule.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using RunTest = TinyRun;

/// Stops before the n-th micro-batch.
Callbacks stop_at(int n) {
  Callbacks callbacks;
  callbacks.stop = [n, asked = 0]() mutable { return ++asked == n; };
  return callbacks;
}

Json line_of(const fs::path& folder, std::size_t i) {
  std::istringstream in(read_file(folder / "metrics.jsonl"));
  std::string line;
  for (std::size_t n = 0; n <= i; ++n) std::getline(in, line);
  return Json::parse(line);
}

TEST_F(RunTest, LossFalls) {
  RunConfig run = config();
  run.train.steps = 60;
  run.train.checkpoint_every = 0;
  const RunResult result = train::run(run, root_ / "a");
  EXPECT_EQ(result.status, RunStatus::kFinished);
  EXPECT_EQ(result.step, 60);
  EXPECT_EQ(result.tokens, 60 * 6 * 16);
  EXPECT_NEAR(line_of(root_ / "a", 0).at("loss").get<double>(), std::log(32.0), 0.5);
  EXPECT_LT(result.loss, 2.0);
  EXPECT_EQ(result.checkpoint, root_ / "a/checkpoints/step-00000060");
}

TEST_F(RunTest, MetricsLineHasEveryField) {
  train::run(config(), root_ / "a");
  std::vector<std::string> keys;
  const Json line = line_of(root_ / "a", 2);
  for (const auto& [key, value] : line.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("step", "tokens", "loss", "objective", "load_balance", "z_loss",
                                "lr", "grad_norm", "seconds", "tokens_per_second",
                                "flops_per_second", "mfu", "peak_rss_bytes", "domains", "router"));
  EXPECT_EQ(line.at("tokens"), 3 * 96);
  ASSERT_EQ(line.at("router").size(), 4u);
  EXPECT_EQ(line.at("router").at(2).at("visit"), 2);
  EXPECT_FALSE(line_of(root_ / "a", 1).contains("router"));
}

TEST_F(RunTest, InterruptedAnywhereAndResumedGivesTheSameBits) {
  // The store's 21 or so rows are read 2-3 times: epoch edges lie inside and between steps.
  for (const std::int64_t micro : {6, 3, 2}) {
    RunConfig run = config();
    run.train.micro_rows = micro;
    const std::string name = std::to_string(micro);
    const RunResult straight = train::run(run, root_ / name);
    const int micros = static_cast<int>(6 / micro);
    for (const int stop : {1, micros + 1, 4 * micros, 5 * micros + 1}) {
      const fs::path folder = root_ / (name + "-" + std::to_string(stop));
      const RunResult part = train::run(run, folder, stop_at(stop));
      EXPECT_EQ(part.status, RunStatus::kInterrupted);
      EXPECT_EQ(part.step, (stop - 1) / micros);
      const RunResult rest = train::run(run, folder);
      EXPECT_EQ(rest.status, RunStatus::kFinished);
      EXPECT_EQ(rest.resumed_from, part.step);
      EXPECT_EQ(bits(rest.checkpoint), bits(straight.checkpoint)) << micro << " " << stop;
      EXPECT_EQ(metrics(folder), metrics(root_ / name)) << micro << " " << stop;
      EXPECT_EQ(rest.data_fingerprint, straight.data_fingerprint);
    }
  }
}

TEST_F(RunTest, ReadsItsPoolRowByRowThroughEpochs) {
  const RunConfig run = config();
  const auto rows_per_epoch =
      data::RowStream(data::TokenStore::open(run.data.store), run.data.pool, run.seed, 16)
          .rows_per_epoch();
  ASSERT_LT(rows_per_epoch, 8u * 6u);  // the test above crosses an epoch
  std::vector<std::string> log;
  Callbacks callbacks;
  callbacks.log = [&](const std::string& line) { log.push_back(line); };
  train::run(run, root_ / "a", callbacks);
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("reads the stable pool ")));
  const Checkpoint end = read_checkpoint(find_latest(root_ / "a"));
  EXPECT_EQ(end.state.next_row, 48u);
}

TEST_F(RunTest, OwnRunTomlMakesTheSameRunAgain) {
  const RunResult first = train::run(config(), root_ / "a");
  const RunConfig again = read_run_config(root_ / "a/run.toml");
  const RunResult second = train::run(again, root_ / "deeper/b");
  EXPECT_EQ(bits(first.checkpoint), bits(second.checkpoint));
  EXPECT_EQ(metrics(root_ / "a"), metrics(root_ / "deeper/b"));
  EXPECT_EQ(read_run_config(root_ / "deeper/b/run.toml").data.store, again.data.store);
}

TEST_F(RunTest, FinishedRunIsLeftAlone) {
  train::run(config(), root_ / "a");
  const std::string before = read_file(root_ / "a/metrics.jsonl");
  const auto time = fs::last_write_time(root_ / "a/checkpoints/step-00000008/state.json");
  const RunResult again = train::run(config(), root_ / "a");
  EXPECT_EQ(again.status, RunStatus::kAlreadyFinished);
  EXPECT_EQ(again.step, 8);
  EXPECT_EQ(read_file(root_ / "a/metrics.jsonl"), before);
  EXPECT_EQ(fs::last_write_time(root_ / "a/checkpoints/step-00000008/state.json"), time);
}

TEST_F(RunTest, LongerRunGoesOn) {
  train::run(config(), root_ / "a");
  RunConfig longer = config();
  longer.train.steps = 12;
  const RunResult on = train::run(longer, root_ / "a");
  EXPECT_EQ(on.resumed_from, 8);
  EXPECT_EQ(bits(on.checkpoint), bits(train::run(longer, root_ / "b").checkpoint));
}

TEST_F(RunTest, BothArmsOfAPairReadTheSame) {
  RunConfig baseline = config();
  baseline.model.loop.reset();
  baseline.model.hidden_size = 24;
  baseline.train.micro_rows = 3;
  const RunResult a = train::run(config(), root_ / "a"), b = train::run(baseline, root_ / "b");
  EXPECT_EQ(a.data_fingerprint, b.data_fingerprint);
  RunConfig other = config();
  other.seed = 6;
  EXPECT_NE(train::run(other, root_ / "c").data_fingerprint, a.data_fingerprint);
}

TEST_F(RunTest, OneVisitIsTheBaselineToTheBit) {
  RunConfig once = config(), never = config();
  once.model.loop = arch::Loop{2, 2, 1, 1.0};
  never.model.loop.reset();
  EXPECT_EQ(bits(train::run(once, root_ / "a").checkpoint),
            bits(train::run(never, root_ / "b").checkpoint));
}

TEST_F(RunTest, EvaluationMovesNoBit) {
  RunConfig run = config();
  const RunResult plain = train::run(run, root_ / "a");
  run.train.eval_every = 3;
  std::vector<std::int64_t> steps;
  Callbacks callbacks;
  callbacks.evaluate = [&](std::int64_t step, const model::Decoder& decoder) {
    EXPECT_FALSE(at::GradMode::is_enabled());
    steps.push_back(step);
    const std::vector<std::int64_t> text = {1, 5, 6, 7, 8, 2};
    const auto batch = model::make_batch(text, kVocab);
    const auto out = model::forward(decoder, batch);
    return Json{
        {"loss", model::token_nll(decoder, out.hidden, batch.targets).sum().item<double>()}};
  };
  const RunResult scored = train::run(run, root_ / "b", callbacks);
  EXPECT_THAT(steps, ElementsAre(3, 6, 8));
  EXPECT_EQ(bits(plain.checkpoint), bits(scored.checkpoint));
  EXPECT_EQ(metrics(root_ / "b").size(), metrics(root_ / "a").size() + 3);
  EXPECT_TRUE(line_of(root_ / "b", 3).contains("eval"));
}

TEST_F(RunTest, SignalDuringEvaluationSavesAndTheEvaluationIsRepeated) {
  RunConfig run = config();
  run.train.eval_every = 3;
  Callbacks whole;
  whole.evaluate = [](std::int64_t step, const model::Decoder&) { return Json(step); };
  train::run(run, root_ / "a", whole);
  bool stop = false;
  Callbacks cut;
  cut.stop = [&] { return stop; };
  cut.evaluate = [&](std::int64_t, const model::Decoder&) {
    stop = true;
    return Json();
  };
  EXPECT_EQ(train::run(run, root_ / "b", cut).status, RunStatus::kInterrupted);
  EXPECT_EQ(checkpoint_steps(root_ / "b"), (std::vector<std::int64_t>{2, 3}));
  train::run(run, root_ / "b", whole);
  EXPECT_EQ(metrics(root_ / "b"), metrics(root_ / "a"));
}

TEST_F(RunTest, BranchDecaysOnFreshTokensFromItsParentsRate) {
  RunConfig parent = config();
  parent.train.keep_steps = {3};
  train::run(parent, root_ / "a");
  const RunConfig branch =
      make_branch(root_ / "a", {.at = 3, .decay_steps = 5, .lr_floor = 0.2}, "a-3");
  EXPECT_EQ(branch.data.pool, data::Pool::kDecay);
  const RunResult result = train::run(branch, root_ / "a-3");
  EXPECT_EQ(result.step, 8);
  EXPECT_EQ(result.tokens, 8 * 96);
  const std::string log = read_file(root_ / "a-3/metrics.jsonl");
  EXPECT_EQ(metrics(root_ / "a-3").size(), 5u);
  EXPECT_EQ(line_of(root_ / "a-3", 0).at("step"), 4);
  EXPECT_EQ(line_of(root_ / "a-3", 0).at("lr"), line_of(root_ / "a", 2).at("lr"));
  EXPECT_DOUBLE_EQ(line_of(root_ / "a-3", 4).at("lr").get<double>(), 0.2 * 0.01);
  // Stopped, resumed, and made again from its own run.toml: the same bits.
  train::run(branch, root_ / "again", stop_at(3));
  EXPECT_EQ(bits(train::run(read_run_config(root_ / "a-3/run.toml"), root_ / "again").checkpoint),
            bits(result.checkpoint));
  // What it read are the decay pool's first rows.
  const data::TokenStore store = data::TokenStore::open(branch.data.store);
  data::RowStream rows(store, data::Pool::kDecay, branch.seed, 16);
  std::string chain;
  for (std::uint64_t step = 0; step < 5; ++step) {
    Hasher hasher;
    hasher.update(chain);
    for (std::uint64_t r = 0; r < 6; ++r) {
      const data::Row row = rows.row(6 * step + r);
      hasher.update(row.tokens.data(), 64);
      hasher.update(row.segments.data(), 64);
    }
    chain = hasher.digest();
  }
  EXPECT_EQ(result.data_fingerprint, chain);
}

TEST_F(RunTest, BranchRefusals) {
  train::run(config(), root_ / "a");
  EXPECT_THAT(error_of([&] { make_branch(root_ / "a", {5, 4, {}}, "x"); }),
              HasSubstr("no checkpoint of step 5; there are 6 or 8"));
  RunConfig tail = config();
  tail.train.decay_steps = 4;
  train::run(tail, root_ / "b");
  EXPECT_THAT(error_of([&] { make_branch(root_ / "b", {6, 4, {}}, "x"); }),
              HasSubstr("own decay tail"));
  RunConfig other = make_branch(root_ / "a", {6, 4, {}}, "x");
  other.model.num_experts = 8;
  EXPECT_THAT(error_of([&] { train::run(other, root_ / "c"); }), HasSubstr("the parent's model"));
}

TEST_F(RunTest, DamagedCheckpointIsReportedAndTheOneBeforeTaken) {
  const RunResult straight = train::run(config(), root_ / "a");
  train::run(config(), root_ / "b", stop_at(7));
  EXPECT_EQ(checkpoint_steps(root_ / "b"), (std::vector<std::int64_t>{4, 6}));
  fs::resize_file(root_ / "b/checkpoints/step-00000006/model.safetensors", 1000);
  std::vector<std::string> log;
  Callbacks callbacks;
  callbacks.log = [&](const std::string& line) { log.push_back(line); };
  const RunResult rest = train::run(config(), root_ / "b", callbacks);
  EXPECT_EQ(rest.resumed_from, 4);
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("step-00000006/model.safetensors")));
  EXPECT_EQ(bits(rest.checkpoint), bits(straight.checkpoint));
  EXPECT_EQ(metrics(root_ / "b"), metrics(root_ / "a"));
}

TEST_F(RunTest, OtherSettingsOrDataAreRefusedByName) {
  train::run(config(), root_ / "a", stop_at(5));
  RunConfig other = config();
  other.train.beta2 = 0.9;
  other.seed = 9;
  const std::string text = error_of([&] { train::run(other, root_ / "a"); });
  EXPECT_THAT(text, HasSubstr("train.beta2: the checkpoint has 0.95, run.toml has 0.9"));
  EXPECT_THAT(text, HasSubstr("seed: the checkpoint has 5, run.toml has 9"));
  write_store(root_ / "store2", 60, 2);
  RunConfig moved = config();
  moved.data.store = root_ / "store2";
  const auto order = [&](const RunConfig& run) {
    return data::RowStream(data::TokenStore::open(run.data.store), run.data.pool, run.seed, 16)
        .order_fingerprint();
  };
  const std::string both = error_of([&] { train::run(moved, root_ / "a"); });
  EXPECT_THAT(both, HasSubstr(order(config())));
  EXPECT_THAT(both, HasSubstr(order(moved)));
  RunConfig shorter = config();
  shorter.train.steps = 3;
  EXPECT_THAT(error_of([&] { train::run(shorter, root_ / "a"); }),
              HasSubstr("at step 4, run.toml ends at step 3"));
}

TEST_F(RunTest, StoreOfALargerVocabularyIsRefused) {
  RunConfig run = config();
  run.model.vocab_size = 31;
  EXPECT_THAT(error_of([&] { train::run(run, root_ / "a"); }),
              HasSubstr("the store has 32 token ids, the model's vocab_size is 31"));
}

TEST_F(RunTest, OneProcessPerFolder) {
  RunConfig run = config();
  run.train.eval_every = 8;
  Callbacks callbacks;
  std::string text;
  callbacks.evaluate = [&](std::int64_t, const model::Decoder&) {
    text = error_of([&] { train::run(run, root_ / "a"); });
    return Json(1);
  };
  train::run(run, root_ / "a", callbacks);
  EXPECT_THAT(text, HasSubstr("another process is training in this folder"));
}

TEST_F(RunTest, NonFiniteStepsAreSkippedCountedAndEndTheRun) {
  RunConfig run = config();
  run.train.max_skipped = 3;
  run.train.eval_every = 2;
  Callbacks callbacks;
  std::vector<std::string> log;
  callbacks.log = [&](const std::string& line) { log.push_back(line); };
  callbacks.evaluate = [](std::int64_t, const model::Decoder& decoder) {
    at::Tensor gain = decoder.final_norm.detach();
    gain[0] = std::numeric_limits<float>::quiet_NaN();
    return Json(0);
  };
  const RunResult result = train::run(run, root_ / "a", callbacks);
  EXPECT_EQ(result.status, RunStatus::kDiverged);
  EXPECT_EQ(result.step, 5);
  EXPECT_EQ(result.skipped_steps, 3);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("step 3 skipped: not finite: model.")));
  const Json line = line_of(root_ / "a", 3);  // after steps 1, 2 and an evaluation
  EXPECT_EQ(line.at("step"), 3);
  EXPECT_TRUE(line.at("grad_norm").is_null());
  EXPECT_FALSE(line.at("skipped").empty());
  EXPECT_GT(line.at("lr").get<double>(), 0);  // the schedule goes by the step
  EXPECT_EQ(train::run(run, root_ / "a", callbacks).status, RunStatus::kDiverged);
}

TEST_F(RunTest, RouterThatOverflowsIsADivergenceToo) {
  RunConfig run = config();
  run.train.max_skipped = 2;
  run.train.eval_every = 2;
  Callbacks callbacks;
  callbacks.evaluate = [](std::int64_t, const model::Decoder& decoder) {
    at::Tensor gate = decoder.layers[1].gate.detach();
    gate.fill_(std::numeric_limits<float>::infinity());
    return Json(0);
  };
  const RunResult result = train::run(run, root_ / "a", callbacks);
  EXPECT_EQ(result.status, RunStatus::kDiverged);
  EXPECT_EQ(result.step, 4);
}

TEST_F(RunTest, IncompleteRunTomlIsKeptBesideTheCompleteOne) {
  make_folder(root_ / "a");
  std::string text = "# mine\n" + to_toml(config(), root_ / "a/run.toml");
  std::ofstream(root_ / "a/run.toml") << text;
  train::run(read_run_config(root_ / "a/run.toml"), root_ / "a");
  EXPECT_EQ(read_file(root_ / "a/run.given.toml"), text);
  EXPECT_EQ(read_file(root_ / "a/run.toml"), to_toml(config(), root_ / "a/run.toml"));
}

TEST_F(RunTest, TimingWritesNothing) {
  const StepTiming timing = time_steps(config(), 3);
  EXPECT_EQ(timing.steps, 3);
  EXPECT_GT(timing.step_seconds, 0);
  EXPECT_GT(timing.peak_rss_bytes, 1e7);
  const double sum =
      timing.data_share + timing.forward_share + timing.backward_share + timing.optimizer_share;
  EXPECT_GT(sum, 0.5);
  EXPECT_LE(sum, 1 + 1e-9);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);  // the store
}

}  // namespace
}  // namespace smelt::train
