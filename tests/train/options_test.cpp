// What a run can choose beyond its numbers: recomputation, precision, balance groups, undecayed
// tensors, checkpoints kept, branches of its own, changes accepted at resume, failing disks,
// spikes.
#include <gmock/gmock.h>

#include <cmath>

#include "smelt/core/hash.h"
#include "smelt/model/products.h"
#include "smelt/model/weights.h"
#include "smelt/train/checkpoint.h"
#include "smelt/train/optimizer.h"
#include "smelt/train/router_bias.h"
#include "smelt/train/step.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;
using OptionsTest = TinyRun;

std::vector<Json> lines(const fs::path& folder) {
  std::vector<Json> all;
  std::istringstream in(read_file(folder / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
  return all;
}

/// Collects what a run says.
struct Log {
  std::vector<std::string> said;
  Callbacks callbacks() {
    Callbacks made;
    made.log = [this](const std::string& line) { said.push_back(line); };
    return made;
  }
};

model::Batch some_rows(std::int64_t rows) {
  constexpr std::int64_t kLength = 12;
  std::vector<std::int64_t> tokens, segments;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      tokens.push_back((5 * r + 3 * i + r * i) % kVocab);
      segments.push_back(i < 2 + r ? 0 : 1);
    }
  }
  return model::make_batch(tokens, segments, rows, kLength, kVocab);
}

model::Decoder trainable(const arch::ModelConfig& config) {
  model::Decoder decoder = model::init_decoder(config, 3, 0.02);
  for (auto& layer : decoder.layers) layer.gate.mul_(30);
  for (auto& [name, tensor] : model::named_parameters(decoder))
    at::Tensor(tensor).set_requires_grad(true);
  return decoder;
}

// ---- recomputation

TEST_F(OptionsTest, RecomputedLayersGiveTheSameLossGradientsAndCounts) {
  RouterOptions router;
  router.load_balance = 0.5;
  router.z_loss = 0.1;
  const auto run = [&](arch::Recompute recompute) {
    model::Decoder decoder = trainable(config().model);
    decoder.recompute = recompute;
    const auto losses = accumulate_gradients(decoder, {some_rows(2), some_rows(2)}, router);
    std::vector<at::Tensor> gradients;
    for (const auto& [name, tensor] : model::named_parameters(decoder))
      gradients.push_back(tensor.grad().clone());
    return std::pair(*losses, gradients);
  };
  const auto [losses, gradients] = run(arch::Recompute::kNone);
  for (const arch::Recompute recompute : {arch::Recompute::kLoop, arch::Recompute::kLayer}) {
    const auto [other, other_gradients] = run(recompute);
    EXPECT_EQ(other.loss, losses.loss);
    EXPECT_EQ(other.load_balance, losses.load_balance);
    EXPECT_TRUE(at::equal(other.counts, losses.counts)) << "statistics are counted once";
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_LT((other_gradients[i] - gradients[i]).abs().max().item<double>(), 1e-7) << i;
    }
  }
}

TEST_F(OptionsTest, RecomputedRunsResumeToTheBit) {
  RunConfig run = config();
  run.train.recompute = arch::Recompute::kLoop;
  const RunResult whole = train::run(run, root_ / "a");
  Callbacks cut;
  cut.stop = [n = 0]() mutable { return ++n == 5; };
  train::run(run, root_ / "b", cut);
  EXPECT_EQ(bits(train::run(run, root_ / "b").checkpoint), bits(whole.checkpoint));
}

// ---- precision

TEST_F(OptionsTest, Bf16StaysNearFp32OrIsRefusedWhereTheMachineHasNone) {
  RunConfig run = config();
  run.train.steps = 20;
  const RunResult fp32 = train::run(run, root_ / "fp32");
  run.train.precision = arch::Precision::kBf16;
  if (!model::has_bf16_products()) {
    EXPECT_THAT(error_of([&] { train::run(run, root_ / "bf16"); }), HasSubstr("no bf16 products"));
    return;
  }
  const RunResult bf16 = train::run(run, root_ / "bf16");
  EXPECT_NE(bits(bf16.checkpoint), bits(fp32.checkpoint));
  EXPECT_NEAR(bf16.loss, fp32.loss, 0.02);
}

// ---- router

TEST_F(OptionsTest, PooledVisitsBalanceALayerNotEachVisit) {
  // Straight from the forward pass: E Σ f P over the assignments of both visits.
  RouterOptions pooled;
  pooled.pool_visits = true;
  const model::Decoder decoder = trainable(config().model);
  {
    torch::NoGradGuard no_grad;  // the second visit must choose otherwise than the first
    decoder.layers[1].down.mul_(1000);
  }
  const model::Batch batch = some_rows(3);
  const auto losses = accumulate_gradients(decoder, {batch}, pooled);
  const auto apart = accumulate_gradients(decoder, {batch}, {});
  torch::NoGradGuard no_grad;
  const model::Forward out = model::forward(decoder, batch);
  double sum = 0;
  for (const std::vector<std::size_t>& visits :
       {std::vector<std::size_t>{0}, std::vector<std::size_t>{1, 2}, std::vector<std::size_t>{3}}) {
    at::Tensor experts, probabilities;
    for (const std::size_t i : visits) {
      const auto& routing = out.routing[i];
      experts = experts.defined() ? at::cat({experts, routing.experts}) : routing.experts;
      probabilities = probabilities.defined() ? at::cat({probabilities, routing.probabilities})
                                              : routing.probabilities;
    }
    for (std::int64_t e = 0; e < 4; ++e) {
      sum += 4 * (experts == e).to(at::kDouble).mean().item<double>() *
             probabilities.select(1, e).to(at::kDouble).mean().item<double>() *
             static_cast<double>(visits.size());
    }
  }
  // The mean over executed layers: a pooled layer counts once per visit.
  EXPECT_NEAR(losses->load_balance, sum / 4, 1e-6);
  EXPECT_GT(std::abs(losses->load_balance - apart->load_balance), 1e-6);
}

TEST_F(OptionsTest, BiasesMoveAgainstTheLoad) {
  model::Decoder decoder = model::init_decoder(config().model, 1);  // layers 1, 2, 2, 3
  model::add_router_biases(decoder);
  RouterOptions router;
  router.balance = Balance::kBias;
  router.bias_rate = 0.5;
  const at::Tensor counts =
      at::tensor(std::vector<std::int64_t>{5, 5, 5, 5, 9, 1, 5, 5, 3, 7, 8, 2, 0, 0, 20, 0})
          .view({4, 4});
  move_router_biases(decoder, counts, router);
  const auto rows = [&](std::size_t layer) { return decoder.layers[layer].gate_bias; };
  EXPECT_TRUE(at::equal(rows(0), at::zeros({1, 4})));
  EXPECT_TRUE(
      at::equal(rows(1), torch::tensor({{-0.5f, 0.5f, 0.f, 0.f}, {0.5f, -0.5f, -0.5f, 0.5f}})));
  EXPECT_TRUE(at::equal(rows(2), torch::tensor({{0.5f, 0.5f, -0.5f, 0.5f}})));

  // Pooled, the visits of layer 2 carry 12, 8, 13, 7.
  router.pool_visits = true;
  rows(1).zero_();
  move_router_biases(decoder, counts, router);
  EXPECT_TRUE(
      at::equal(rows(1), torch::tensor({{-0.5f, 0.5f, -0.5f, 0.5f}, {-0.5f, 0.5f, -0.5f, 0.5f}})));
}

TEST_F(OptionsTest, BiasesBalanceARunAndResumeToTheBit) {
  RunConfig run = config();
  run.train.steps = 60;
  run.train.checkpoint_every = 20;
  run.router.balance = Balance::kOff;
  run.router.z_loss = 0;
  const auto last_load = [&](const char* name) {
    train::run(run, root_ / name);
    double worst = 0;
    for (const Json& layer : lines(root_ / name).back().at("router")) {
      worst = std::max(worst, layer.at("max_load").get<double>());
    }
    return worst;
  };
  const double off = last_load("off");
  run.router.balance = Balance::kBias;
  run.router.bias_rate = 0.01;
  EXPECT_LT(last_load("bias") - 1, 0.7 * (off - 1));
  const Checkpoint whole = read_checkpoint(find_latest(root_ / "bias"));
  for (const auto& layer : whole.decoder.layers) {
    EXPECT_GT(layer.gate_bias.abs().max().item<double>(), 0);
  }

  Callbacks cut;
  cut.stop = [n = 0]() mutable { return ++n == 50; };
  train::run(run, root_ / "cut", cut);
  EXPECT_EQ(bits(train::run(run, root_ / "cut").checkpoint), bits(whole.folder));
}

// ---- undecayed tensors

TEST(NoDecay, GroupsAreWhatTheirNamesSay) {
  EXPECT_EQ(parameter_group("model.embed_tokens.weight"), "embedding");
  EXPECT_EQ(parameter_group("lm_head.weight"), "head");
  EXPECT_EQ(parameter_group("model.norm.weight"), "norms");
  EXPECT_EQ(parameter_group("model.layers.3.input_layernorm.weight"), "norms");
  EXPECT_EQ(parameter_group("model.layers.3.self_attn.q_norm.weight"), "norms");
  EXPECT_EQ(parameter_group("model.layers.3.mlp.gate.weight"), "router");
  EXPECT_EQ(parameter_group("model.layers.3.mlp.experts.gate_up_proj"), "");
  EXPECT_EQ(parameter_group("model.layers.3.self_attn.q_proj.weight"), "");
}

TEST_F(OptionsTest, OnlyTheNamedGroupsAreLeftUndecayed) {
  for (const auto& [name, tensor] :
       model::named_parameters(model::init_decoder(config().model, 1))) {
    const auto decayed = [&](std::vector<std::string> no_decay) {
      TrainOptions options;
      options.no_decay = std::move(no_decay);
      const at::Tensor weight = at::ones({3});
      const model::NamedTensors parameters = {{name, weight}};
      AdamW optimizer(options, parameters, zero_moments(parameters));
      weight.mutable_grad() = at::zeros({3});
      optimizer.step(0.1, 1);
      return weight[0].item<float>() < 1;
    };
    const std::string group = parameter_group(name);
    EXPECT_TRUE(decayed({})) << name;
    for (const char* each : plan::kParameterGroups) EXPECT_EQ(decayed({each}), group != each);
  }
}

// ---- checkpoints

TEST_F(OptionsTest, KeepEveryKeepsThoseForGood) {
  RunConfig run = config();
  run.train.steps = 12;
  run.train.checkpoint_every = 1;
  run.train.keep_every = 5;
  run.train.keep_last = 1;
  train::run(run, root_ / "a");
  EXPECT_THAT(checkpoint_steps(root_ / "a"), ElementsAre(5, 10, 12));
}

TEST_F(OptionsTest, AFailingDiskEndsTheRunOrIsToldAndGoneOver) {
  // A file where the folder of checkpoints should be: no checkpoint can be written.
  const auto block = [&](const fs::path& folder) {
    make_folder(folder);
    write_file_atomic(folder / "checkpoints", "in the way");
  };
  RunConfig run = config();
  block(root_ / "stop");
  EXPECT_THAT(error_of([&] { train::run(run, root_ / "stop"); }), HasSubstr("checkpoints"));

  run.train.on_write_error = WriteError::kGoOn;
  block(root_ / "go-on");
  std::vector<std::string> said;
  Callbacks callbacks;
  callbacks.log = [&](const std::string& line) {
    said.push_back(line);
    if (line.find("goes on") != std::string::npos) fs::remove(root_ / "go-on/checkpoints");
  };
  const RunResult result = train::run(run, root_ / "go-on", callbacks);
  EXPECT_THAT(said, Contains(HasSubstr("goes on without this checkpoint")));
  EXPECT_EQ(result.status, RunStatus::kFinished);
  EXPECT_EQ(bits(result.checkpoint), bits(train::run(run, root_ / "whole").checkpoint));
}

TEST_F(OptionsTest, TheLastCheckpointIsNeverGoneOver) {
  RunConfig run = config();
  run.train.on_write_error = WriteError::kGoOn;
  make_folder(root_ / "a");
  write_file_atomic(root_ / "a/checkpoints", "in the way");
  EXPECT_THAT(error_of([&] { train::run(run, root_ / "a"); }), HasSubstr("checkpoints"));
}

// ---- branches of a run's own

TEST_F(OptionsTest, ARunTrainsItsBranches) {
  RunConfig run = config();
  run.branches.at = {4, 8};
  run.branches.tokens = "288";  // 3 steps of 96
  const RunResult result = train::run(run, root_ / "a");
  ASSERT_EQ(result.branches.size(), 2u);
  EXPECT_EQ(result.branches[0].step, 7);
  EXPECT_EQ(result.branches[1].step, 11);
  EXPECT_EQ(result.branches[1].tokens, 11 * 96);
  const fs::path folder = root_ / "a/branches/step-00000004";
  EXPECT_EQ(read_run_config(folder / "run.toml").data.pool, data::Pool::kDecay);
  const auto log = lines(folder);
  EXPECT_EQ(log.front().at("lr"), 0.01);
  EXPECT_DOUBLE_EQ(log.back().at("lr").get<double>(), 0.001);
  // The same as the verb makes it.
  const RunConfig branch =
      make_branch(root_ / "a", {.at = 4, .decay_steps = 3, .tokens = {}, .lr_floor = {}}, "b");
  EXPECT_EQ(bits(train::run(branch, root_ / "b").checkpoint), bits(result.branches[0].checkpoint));
  // Started again there is nothing to do; read back it says the same.
  const RunResult again = train::run(read_run_config(root_ / "a/run.toml"), root_ / "a");
  EXPECT_EQ(again.status, RunStatus::kAlreadyFinished);
  EXPECT_EQ(again.branches[1].status, RunStatus::kAlreadyFinished);
}

TEST_F(OptionsTest, BranchLengthsAreStepsOrTokens) {
  const auto steps = [](std::int64_t decay_steps, const std::string& tokens) {
    Problems problems("train");
    const std::int64_t found = branch_steps(decay_steps, tokens, 1000, problems);
    problems.throw_if_any();
    return found;
  };
  EXPECT_EQ(steps(7, ""), 7);
  EXPECT_EQ(steps(0, "10k"), 10);
  EXPECT_EQ(steps(0, "1.5M"), 1500);
  EXPECT_EQ(steps(0, "2499"), 2);
  EXPECT_EQ(steps(0, "2500"), 3);
  EXPECT_THAT(error_of([&] { steps(0, ""); }), HasSubstr("either decay_steps or tokens"));
  EXPECT_THAT(error_of([&] { steps(7, "10k"); }), HasSubstr("either decay_steps or tokens"));
  EXPECT_THAT(error_of([&] { steps(0, "many"); }), HasSubstr("\"many\""));
  EXPECT_THAT(error_of([&] { steps(0, "1000"); }), HasSubstr("at least 2 steps"));
}

// ---- resuming under changes

TEST_F(OptionsTest, AChangeIsRefusedWithBothValuesAndAcceptedWhenItIsSafe) {
  train::run(config(), root_ / "a");
  RunConfig changed = config();
  changed.train.steps = 12;
  changed.train.lr = 0.02;
  const std::string refused = error_of([&] { train::run(changed, root_ / "a"); });
  EXPECT_THAT(refused, HasSubstr("0.01"));
  EXPECT_THAT(refused, HasSubstr("0.02"));
  EXPECT_THAT(refused, HasSubstr("--accept-changes"));
  Log log;
  Callbacks callbacks = log.callbacks();
  callbacks.accept_changes = true;
  const RunResult result = train::run(changed, root_ / "a", callbacks);
  EXPECT_EQ(result.status, RunStatus::kFinished);
  EXPECT_THAT(log.said, Contains(HasSubstr("resumes with a change: train.lr")));
  EXPECT_DOUBLE_EQ(lines(root_ / "a").back().at("lr").get<double>(), 0.02);
  // From here on it is this run.
  EXPECT_EQ(train::run(changed, root_ / "a").status, RunStatus::kAlreadyFinished);

  RunConfig other_model = changed;
  other_model.train.steps = 16;
  other_model.model.loop->residual_scale = 0.7;
  const std::string unsafe = error_of([&] { train::run(other_model, root_ / "a", callbacks); });
  EXPECT_THAT(unsafe, HasSubstr("residual_scale"));
  EXPECT_THAT(unsafe, Not(HasSubstr("--accept-changes")));
}

TEST_F(OptionsTest, AnotherVersionIsRefusedUnlessAccepted) {
  const RunResult first = train::run(config(), root_ / "a");
  Json state = read_json(first.checkpoint / "state.json");
  state["versions"]["torch"] = "1.0.0";
  state.erase("hash");
  state["hash"] = hash_text(to_text(state));
  write_file_atomic(first.checkpoint / "state.json", to_text(state));
  RunConfig longer = config();
  longer.train.steps = 10;
  const std::string refused = error_of([&] { train::run(longer, root_ / "a"); });
  EXPECT_THAT(refused, HasSubstr("1.0.0"));
  EXPECT_THAT(refused, HasSubstr("--accept-changes"));
  Callbacks accept;
  accept.accept_changes = true;
  EXPECT_EQ(train::run(longer, root_ / "a", accept).status, RunStatus::kFinished);
}

// ---- what is told

TEST_F(OptionsTest, ALossSpikeIsReported) {
  RunConfig run = config();
  run.train.steps = 120;
  run.train.checkpoint_every = 0;
  Log calm;
  train::run(run, root_ / "a", calm.callbacks());
  EXPECT_THAT(calm.said, Not(Contains(HasSubstr("loss spike"))));
  RunConfig wild = run;
  wild.train.steps = 126;
  wild.train.lr = 30;
  wild.train.clip = 0;
  Log log;
  Callbacks callbacks = log.callbacks();
  callbacks.accept_changes = true;
  train::run(wild, root_ / "a", callbacks);
  EXPECT_THAT(log.said, Contains(HasSubstr("loss spike at step 12")));
  bool marked = false;
  for (const Json& line : lines(root_ / "a")) marked = marked || line.value("spike", false);
  EXPECT_TRUE(marked);
}

TEST_F(OptionsTest, DomainLossesAddUpToTheLoss) {
  // Two domains: the target-weighted mean of theirs is the step's.
  data::StoreWriter writer(root_ / "two", kVocab, 1, 2);
  for (int d = 0; d < 60; ++d) {
    data::DocumentRecord record;
    record.pool = data::Pool::kStable;
    record.hash = static_cast<std::uint64_t>(d);
    record.domain = d % 3 == 0 ? 1 : 0;
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 5 + d % 9; ++i) tokens.push_back(3 + (d + i) % 28);
    writer.add(record, tokens);
  }
  writer.finish({{"source"}, {"prose", "code"}}, "no real tokenizer", Json::object());
  RunConfig run = config();
  run.data.store = root_ / "two";
  run.train.steps = 1;
  run.train.warmup_steps = 0;
  train::run(run, root_ / "a");
  const Json line = lines(root_ / "a").front();
  ASSERT_EQ(line.at("domains").size(), 2u);
  const double prose = line["domains"]["prose"], code = line["domains"]["code"],
               loss = line["loss"];
  EXPECT_NE(prose, code);
  EXPECT_GT(loss, std::min(prose, code));
  EXPECT_LT(loss, std::max(prose, code));
}

}  // namespace
}  // namespace smelt::train
