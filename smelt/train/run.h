// One training run, from its run.toml to its last checkpoint; killed at any moment and started
// again it ends with the same bits.  Leaves run.toml, metrics.jsonl and checkpoints/ in the run's
// folder.
//
//   RunConfig config = read_run_config("runs/a/run.toml");
//   prepare_process(config.threads);
//   RunResult result = run(config, "runs/a", {.progress = line, .log = log});
//   if (result.status == RunStatus::kFinished) use(result.checkpoint);
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/json.h"
#include "smelt/core/progress.h"
#include "smelt/model/decoder.h"
#include "smelt/train/collectives.h"
#include "smelt/train/profile.h"
#include "smelt/train/run_config.h"

namespace smelt::train {

enum class RunStatus {
  kFinished,
  kInterrupted,      // `stop` said so; a checkpoint of the last completed step is there
  kAlreadyFinished,  // the last checkpoint was there: nothing was done
  kDiverged,         // max_skipped steps in a row had a non-finite gradient
};

/// All may be empty.
struct Callbacks {
  /// Resumes under another configuration of what is safe to change: threads, [train], [router],
  /// program versions; each change is logged.
  bool accept_changes = false;

  ProgressSink progress;
  LogSink log;                 // warnings and milestones
  std::function<bool()> stop;  // polled before every micro-batch
  /// Scores the model after `step`; what it returns becomes the "eval" of a metrics line; null = it
  /// was cut short (a resumed run evaluates again).  Must leave the weights alone; runs under
  /// NoGradGuard.
  std::function<Json(std::int64_t step, const model::Decoder& decoder)> evaluate;
};

struct RunResult {
  RunStatus status = RunStatus::kFinished;
  std::string name;
  std::int64_t step = 0;    // last completed
  std::int64_t tokens = 0;  // trained on so far, the parent's included
  double loss = 0;          // of the last completed step
  std::int64_t skipped_steps = 0;
  std::int64_t resumed_from = 0;  // step this call started behind
  double seconds = 0;             // of this call
  std::string data_fingerprint;   // of every token and segment id read, in order; equal for a pair
  std::filesystem::path checkpoint;  // newest; empty when there is none
  std::vector<RunResult> branches;   // of [branches], in its order
};

Json to_json(const RunResult& result);

/// Trains what is left of the run in `folder`, then of its [branches], each a run folder
/// RUN/branches/step-….  Throws Error for a checkpoint of another
/// configuration or data order (naming both), a store that does not fit, a full disk, a folder that
/// another process trains in.  With several ranks all call it; rank 0 alone reports, evaluates and
/// writes, and a rank that throws must abort the others.
RunResult run(const RunConfig& config, const std::filesystem::path& folder,
              const Callbacks& callbacks = {}, Collectives& ranks = single_process());

struct BranchOptions {
  std::int64_t at = 0;
  std::int64_t decay_steps = 0;
  std::string tokens = {};
  std::optional<double> lr_floor = {};

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"at", "step of the parent run to fork at; 0 = its newest checkpoint", "steps", 0,
                1e12},
          self.at);
    visit(Field{"decay_steps", "length of the branch; or give tokens", "steps", 0, 1e12},
          self.decay_steps);
    visit(Field{"tokens", "length of the branch in tokens (10M, 1.5B), to the nearest step"},
          self.tokens);
    visit(Field{"lr_floor",
                "last learning rate as a share of the rate at the fork; default: the parent's "
                "min_lr_ratio",
                "", 0, 1},
          self.lr_floor);
  }
};

/// The run that forks from `parent_folder`: the parent's configuration, a decay tail, the decay
/// pool from its first row on.  Throws Error when the parent has no checkpoint of that step
/// (listing those there are), and when not exactly one of decay_steps and tokens is given.
RunConfig make_branch(const std::filesystem::path& parent_folder, const BranchOptions& options,
                      const std::string& name);

/// Time of a step of this geometry on this machine, alone; nothing is written.
struct StepTiming {
  std::int64_t steps = 0;        // timed, after 2 warm-up steps
  double step_seconds = 0;       // median
  double tokens_per_second = 0;  // at the median
  double peak_rss_bytes = 0;     // of the process
  double planned_bytes = 0;      // plan::training_memory of the same step
  double data_share = 0;         // of the summed time; these four and the rest (bookkeeping) make 1
  double forward_share = 0;
  double backward_share = 0;
  double optimizer_share = 0;
  std::vector<ProfileRow> profile;  // summed over the steps; with a trace only
};

Json to_json(const StepTiming& timing);
/// With `trace` the steps are recorded there (Chrome's format), which slows them a little.
StepTiming time_steps(const RunConfig& config, std::int64_t steps, const Callbacks& callbacks = {},
                      const std::filesystem::path& trace = {});

/// Call first in a process that trains: thread counts of LibTorch (inter-op 1), and an allocator
/// that keeps freed activations for the next step.
void prepare_process(std::int64_t threads);

}  // namespace smelt::train

template <>
struct smelt::EnumNames<smelt::train::RunStatus> {
  static constexpr std::pair<smelt::train::RunStatus, const char*> kNames[] = {
      {smelt::train::RunStatus::kFinished, "finished"},
      {smelt::train::RunStatus::kInterrupted, "interrupted"},
      {smelt::train::RunStatus::kAlreadyFinished, "already_finished"},
      {smelt::train::RunStatus::kDiverged, "diverged"}};
};
