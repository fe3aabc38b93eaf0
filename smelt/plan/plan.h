// A study's cells and what they will cost, before anything runs.
//
//   Plan plan = make_plan(study, mean_attended, store_vocab_size);
//   plan.cells[0].match.best.config;      // the looped model of the first pair
//   plan.flops;                           // of the whole study
#pragma once

#include <string>
#include <vector>

#include "smelt/budget/match.h"
#include "smelt/core/json.h"
#include "smelt/plan/study_config.h"

namespace smelt::plan {

/// One scale at one sparsity: a matched pair.
struct Cell {
  std::string name;  // "tiny-e32"
  std::string scale;
  std::int64_t experts = 0;  // of the Baseline
  budget::MatchResult match;
  double sparsity[2] = {};      // per arm, against the Baseline's fully active control
  double sparsity_own[2] = {};  // per arm, against its own geometry at experts = top_k
  double flops = 0;             // of its pair over all seeds, LM head included; trials aside
  double checkpoint_bytes = 0;  // on disk at the end

  const arch::ModelConfig& config(Arm arm) const {
    return arm == Arm::kBaseline ? match.baseline : match.best.config;
  }
  const budget::Budget& budget(Arm arm) const {
    return arm == Arm::kBaseline ? match.baseline_budget : match.best.budget;
  }
};

struct Plan {
  std::vector<Cell> cells;              // in the order of the file
  std::vector<std::size_t> rate_cells;  // cells whose rates are tried
  double tokens_per_step = 0;
  double trial_tokens = 0;  // of one trial
  double trials = 0;        // number of trial runs
  double pair_tokens = 0;   // of one run with its branches
  double flops_trials = 0;  // training FLOPs, LM head included
  double flops_runs = 0;
  double flops = 0;
  double checkpoint_bytes = 0;     // on disk at the end
  double largest_run_bytes = 0;    // weights, gradients, both moments of the largest model
  std::vector<std::string> words;  // what the design cannot tell
};

/// `attended` is t̄ of the token store; `vocab_size` the store's, for models that name none.
/// Throws Error when a cell cannot be matched at all.
Plan make_plan(const StudyConfig& study, double attended, std::int64_t vocab_size);

/// Schema "smelt.plan/1".
Json to_json(const Plan& plan);

/// Tokens of an endpoint that forks at `horizon` steps: stable part and decay.
double endpoint_tokens(const StudyConfig& study, std::int64_t horizon);

}  // namespace smelt::plan
