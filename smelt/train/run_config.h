// run.toml: everything that decides a training run, to the bit.
//
//   schema = "smelt.run/1"          [train]    steps, rows, lr, …     (TrainOptions)
//   name, seed, threads             [router]   balance, coefficients  (RouterOptions)
//   [model]  config.json's keys     [data]     store, row_length, pool, first_row
//   [model.loop]                    [branch]   parent, step           (decay branches only)
//                                   [branches] at, decay_steps        (branches made by the run)
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
#include "smelt/plan/run_options.h"

namespace smelt::train {

using plan::Balance;
using plan::DecayShape;
using plan::RouterOptions;
using plan::Schedule;
using plan::TrainOptions;
using plan::WriteError;

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

/// Decay branches that a stable run trains itself, once it is done: RUN/branches/step-….
struct BranchPlan {
  std::vector<std::int64_t> at;
  std::int64_t decay_steps = 0;
  std::string tokens;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"at", "steps that a decay branch forks at, once the run is done", "steps", 1, 1e12},
          self.at);
    visit(Field{"decay_steps", "length of each; or give tokens", "steps", 0, 1e12},
          self.decay_steps);
    visit(Field{"tokens", "length of each in tokens (10M, 1.5B), to the nearest step"},
          self.tokens);
  }
  friend bool operator==(const BranchPlan&, const BranchPlan&) = default;
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
  BranchPlan branches;

  /// Steps whose checkpoints are written and never deleted: keep_steps and the forks.
  std::vector<std::int64_t> kept_steps() const;
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

/// Length in steps of a branch that is given in steps or in tokens ("10M", to the nearest step);
/// adds a problem when it is given in neither or both ways, or is shorter than 2 steps.
std::int64_t branch_steps(std::int64_t decay_steps, const std::string& tokens,
                          std::int64_t tokens_per_step, Problems& problems);

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
