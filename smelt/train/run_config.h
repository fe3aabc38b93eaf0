// run.toml: everything that decides a training run, to the bit.
//
//   schema = "smelt.run/1"          [train]    steps, rows, lr, …     (TrainOptions)
//   name, seed, threads             [router]   balance, coefficients  (RouterOptions)
//   [model]  config.json's keys     [data]     store, row_length, pool, first_row
//   [model.loop]                    [branch]   parent, step           (decay branches only)
//
//   RunConfig run = read_run_config("runs/a/run.toml");   // paths become absolute
//   write_run_config(run, "elsewhere/run.toml");          // complete, paths relative to the file
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"
#include "smelt/core/fields.h"
#include "smelt/core/json.h"
#include "smelt/data/token_store.h"

namespace smelt::train {

enum class DecayShape { kCosine, kLinear };
enum class Balance { kGlobal, kRow, kOff };

}  // namespace smelt::train

template <>
struct smelt::EnumNames<smelt::train::DecayShape> {
  static constexpr std::pair<smelt::train::DecayShape, const char*> kNames[] = {
      {smelt::train::DecayShape::kCosine, "cosine"}, {smelt::train::DecayShape::kLinear, "linear"}};
};
template <>
struct smelt::EnumNames<smelt::train::Balance> {
  static constexpr std::pair<smelt::train::Balance, const char*> kNames[] = {
      {smelt::train::Balance::kGlobal, "global"},
      {smelt::train::Balance::kRow, "row"},
      {smelt::train::Balance::kOff, "off"}};
};

namespace smelt::train {

struct TrainOptions {
  std::int64_t steps = 1000;
  std::int64_t rows = 8;
  std::int64_t micro_rows = 0;
  double init_std = 0;
  double lr = 0.002;
  std::int64_t warmup_steps = 20;
  std::int64_t decay_steps = 0;
  DecayShape decay = DecayShape::kCosine;
  double min_lr_ratio = 0.1;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip = 1.0;
  std::int64_t max_skipped = 10;
  std::int64_t checkpoint_every = 500;
  std::int64_t keep_last = 2;
  std::vector<std::int64_t> keep_steps;
  std::int64_t eval_every = 0;
  std::int64_t eval_tokens = 100000;
  std::int64_t log_every = 1;
  std::int64_t router_every = 10;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"steps", "number of the last step; a branch counts on from its parent", "steps", 1,
                1e12},
          self.steps);
    visit(Field{"rows", "rows per step", "rows", 1, 1e9}, self.rows);
    visit(Field{"micro_rows", "rows per forward pass; rows must be a multiple; 0 = all at once",
                "rows", 0, 1e9},
          self.micro_rows);
    visit(Field{"init_std",
                "standard deviation of the initial weights; 0 = sqrt(2 / (5 · hidden_size))", "", 0,
                10},
          self.init_std);
    visit(Field{"lr", "stable learning rate", "", 0, 10}, self.lr);
    visit(Field{"warmup_steps", "steps of linear warmup", "steps", 0, 1e12}, self.warmup_steps);
    visit(Field{"decay_steps", "steps of the decay tail at the end; 0 = none", "steps", 0, 1e12},
          self.decay_steps);
    visit(Field{"decay", "shape of the decay tail"}, self.decay);
    visit(Field{"min_lr_ratio", "last rate of the tail, as a share of its first", "", 0, 1},
          self.min_lr_ratio);
    visit(Field{"weight_decay", "decoupled decay of every tensor that is no norm gain", "", 0, 100},
          self.weight_decay);
    visit(Field{"beta1", "decay of the first moment", "", 0, 0.999999}, self.beta1);
    visit(Field{"beta2", "decay of the second moment", "", 0, 0.9999999}, self.beta2);
    visit(Field{"eps", "AdamW epsilon", "", 1e-30, 1}, self.eps);
    visit(Field{"clip", "largest global gradient norm; 0 = no clipping", "", 0, 1e30}, self.clip);
    visit(
        Field{"max_skipped", "steps with a non-finite gradient in a row that end a run as diverged",
              "steps", 1, 1e9},
        self.max_skipped);
    visit(
        Field{"checkpoint_every", "steps between checkpoints; 0 = only the last", "steps", 0, 1e12},
        self.checkpoint_every);
    visit(Field{"keep_last", "newest checkpoints kept", "", 1, 1e9}, self.keep_last);
    visit(Field{"keep_steps", "checkpoints written at these steps and never deleted", "steps", 1,
                1e12},
          self.keep_steps);
    visit(Field{"eval_every", "steps between evaluations (and one at the end); 0 = none", "steps",
                0, 1e12},
          self.eval_every);
    visit(Field{"eval_tokens",
                "size of the sample of tuning documents that `smelt train` evaluates on; 0 = all",
                "tokens", 0, 1e15},
          self.eval_tokens);
    visit(Field{"log_every", "steps between lines of metrics.jsonl", "steps", 1, 1e12},
          self.log_every);
    visit(Field{"router_every", "steps between router summaries in metrics.jsonl; 0 = none",
                "steps", 0, 1e12},
          self.router_every);
  }
  friend bool operator==(const TrainOptions&, const TrainOptions&) = default;
};

struct RouterOptions {
  Balance balance = Balance::kGlobal;
  double load_balance = 0.01;
  double z_loss = 0.001;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"balance",
                "group of the load-balance loss: the whole step (with accumulation its "
                "micro-batches so far), "
                "each row, or no such loss"},
          self.balance);
    visit(Field{"load_balance", "coefficient of the mean load-balance loss over executed layers",
                "", 0, 1e6},
          self.load_balance);
    visit(Field{"z_loss", "coefficient of the mean router z-loss over executed layers", "", 0, 1e6},
          self.z_loss);
  }
  friend bool operator==(const RouterOptions&, const RouterOptions&) = default;
};

struct DataSource {
  std::filesystem::path store;    // absolute once read
  std::int64_t row_length = 256;  // tokens
  data::Pool pool = data::Pool::kStable;
  std::uint64_t first_row = 0;  // row of the order that the run's first step begins with

  friend bool operator==(const DataSource&, const DataSource&) = default;
};

/// A decay branch goes on from a checkpoint of another run: weights, moments, step.
struct BranchPoint {
  std::filesystem::path parent;  // run folder, absolute once read
  std::int64_t step = 0;

  friend bool operator==(const BranchPoint&, const BranchPoint&) = default;
};

struct RunConfig {
  std::string name;
  std::uint64_t seed = 1;    // initial weights and data order
  std::int64_t threads = 1;  // part of the run: sums depend on it
  arch::ModelConfig model;
  DataSource data;
  TrainOptions train;
  RouterOptions router;
  std::optional<BranchPoint> branch;

  /// Step that the run starts behind.
  std::int64_t first_step() const { return branch ? branch->step : 0; }
  std::int64_t micro_rows() const { return train.micro_rows ? train.micro_rows : train.rows; }
  std::int64_t tokens_per_step() const { return train.rows * data.row_length; }
};

/// Throws one Error with every problem of the file: unknown keys with their lines, wrong types,
/// values out of range, inconsistent options.  Does not open the store.
RunConfig read_run_config(const std::filesystem::path& file);

/// Adds what is inconsistent within `config`.
void validate(const RunConfig& config, Problems& problems);

/// Text of the run.toml that would lie at `file`: every field written out.
std::string to_toml(const RunConfig& config, const std::filesystem::path& file);
/// Writes it, atomically.
void write_run_config(const RunConfig& config, const std::filesystem::path& file);

/// Every value that decides the run's bits, as flat "train.lr": value pairs; equal for two runs
/// that must agree. Paths, names, and the spacing of checkpoints, evaluations and log lines are not
/// among them.
Json identity(const RunConfig& config);
/// One line per value in which the two differ: `train.lr: "a" has 0.001, "b" has 0.002`.
std::vector<std::string> differences(const Json& a, const std::string& name_a, const Json& b,
                                     const std::string& name_b);

}  // namespace smelt::train
