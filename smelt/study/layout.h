// Where a study keeps its runs, and the run.toml of each: names are the cell, the seed, the arm and
// what the run is for.
//
//   DIR/runs/tiny-e32-seed1-smelt            stable run          result.json  metrics.jsonl
//   checkpoints/ DIR/runs/tiny-e32-seed1-smelt-at400      decay branch        result.json
//   eval/validation.json DIR/runs/trial-tiny-e32-smelt-lr0.004-seed101  rate trial result.json
//   eval/tuning.json
#pragma once

#include <filesystem>
#include <string>

#include "smelt/plan/plan.h"
#include "smelt/train/run_config.h"

namespace smelt::study {

/// A study with what the training verb reads, per arm.
struct StudySetup {
  plan::StudyConfig config;
  plan::Plan plan;
  train::TrainOptions train[2];  // per arm; steps, horizons and rate are filled in per run
  train::RouterOptions router;
  bool rate_given[2] = {};  // the user named a learning rate for this arm
};

/// Reads the file, checks everything in it, and matches the cells to the store's t̄.  Throws one
/// Error with all problems of the file.
StudySetup read_study(const std::filesystem::path& file);

class Layout {
 public:
  Layout(const StudySetup& setup, std::filesystem::path out)
      : setup_(setup), out_(std::move(out)) {}

  std::filesystem::path folder(const std::string& run) const { return out_ / "runs" / run; }

  static std::string stable_name(const plan::Cell& cell, std::int64_t seed, plan::Arm arm);
  static std::string branch_name(const plan::Cell& cell, std::int64_t seed, plan::Arm arm,
                                 std::int64_t horizon);
  static std::string trial_name(const plan::Cell& cell, plan::Arm arm, double lr,
                                std::int64_t seed);

  /// Complete configurations; the same data for both arms of a pair.
  train::RunConfig stable(const plan::Cell& cell, std::int64_t seed, plan::Arm arm,
                          double lr) const;
  train::RunConfig trial(const plan::Cell& cell, plan::Arm arm, double lr, std::int64_t seed) const;

  std::int64_t trial_steps() const;
  std::int64_t trial_decay_steps() const;

 private:
  train::RunConfig common(const plan::Cell& cell, plan::Arm arm, double lr) const;

  const StudySetup& setup_;
  std::filesystem::path out_;
};

}  // namespace smelt::study
