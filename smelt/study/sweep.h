// One run at several learning rates and seeds: which rate it wants.  Every run is a process of its
// own and is not done twice; more rates and seeds may be added to a folder later.
//
//   SweepResult result = run_sweep({.run = "runs/a/run.toml", .out = "runs/a-sweep", .rates =
//   {…}}); result.curve.words
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/json.h"
#include "smelt/core/progress.h"
#include "smelt/law/rate_curve.h"

namespace smelt::study {

struct SweepOptions {
  std::vector<double> lr;
  std::int64_t seeds = 1;
  std::int64_t parallel = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"lr", "learning rates to try, as 1e-3,2e-3,4e-3", "", 1e-12, 10}, self.lr);
    visit(Field{"seeds", "seeds of each rate: the run's, and those after it", "", 1, 1000},
          self.seeds);
    visit(Field{"parallel", "runs at a time; 0: as many as the run's threads leave cores for", "",
                0, 4096},
          self.parallel);
  }
};

struct SweepRequest {
  std::filesystem::path run;      // run.toml
  std::filesystem::path out;      // runs go to lr0.001-seed1, …
  std::filesystem::path program;  // smelt-torch
  SweepOptions options;
  ProgressSink progress;
  std::function<int()> signal;  // 0, or the signal that asks to stop
};

struct SweepRun {
  law::RateLoss result;  // loss on the store's tuning documents
  std::string run;       // folder below `out`
};

struct SweepResult {
  bool interrupted = false;  // what is finished is kept
  std::string name;
  std::vector<SweepRun> runs;  // by rate, then seed
  law::RateCurve curve;
  std::vector<std::string> words;
};

/// Leaves sweep.json and sweep.csv in `out`.  Throws Error with every problem of the request, for a
/// folder of another sweep, a run that failed.
SweepResult run_sweep(const SweepRequest& request);

Json to_json(const SweepResult& result);

}  // namespace smelt::study
