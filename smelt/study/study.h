// The main job: match pairs, try learning rates, train both arms of every pair on the same tokens,
// branch, evaluate, fit the laws, look inside the second visit.
//
// Every training run is a process of its own.  What is done leaves a file and is not done again, so
// a study that was killed anywhere goes on when it is started again with the same folder, and ends
// with the same numbers.
//
//   StudyResult result = run_study({.config = "configs/quick.toml", .out = "runs/quick", .program =
//   smelt_torch});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "smelt/core/json.h"
#include "smelt/core/progress.h"
#include "smelt/study/layout.h"

namespace smelt::study {

/// An endpoint as it comes in.
struct EndpointRow {
  std::string cell;
  std::int64_t seed = 0;
  double tokens = 0;
  const char* arm = "";
  double loss = 0;
};

struct StudyRequest {
  std::filesystem::path config;
  std::filesystem::path out;
  std::filesystem::path program;  // smelt-torch: trains, evaluates, probes
  std::string version, commit;    // for the provenance
  ProgressSink progress;
  LogSink log;
  std::function<void(const EndpointRow&)> endpoint;
  std::function<int()> signal;  // 0, or the signal that asks to stop
};

struct StudyResult {
  bool interrupted = false;  // everything finished so far is kept
  Json study;                // study.json, when not interrupted
};

/// Leaves endpoints.csv, study.json and runs/ in `out`.  Throws Error for a bad configuration, a
/// folder that holds another study, or a run that failed.
StudyResult run_study(const StudyRequest& request);

}  // namespace smelt::study
