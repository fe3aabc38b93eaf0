// What a study found: reads the runs' results and makes endpoints.csv and study.json out of them.
//
// Gaps are Baseline minus SMELT in nats per token, so that positive is in favour of the loop.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "smelt/core/csv.h"
#include "smelt/core/json.h"
#include "smelt/study/layout.h"
#include "smelt/study/rates.h"

namespace smelt::study {

struct RateReport {
  std::vector<Trial> trials;
  RateChoice choice;
};

/// One endpoint: a decay branch of one arm, evaluated.
struct Endpoint {
  std::size_t cell = 0;  // index into the plan
  plan::Arm arm = plan::Arm::kBaseline;
  std::int64_t seed = 0;
  std::int64_t horizon = 0;  // steps of the stable run it forked at
  double tokens = 0;         // trained on in all
  double lr = 0;
  double step_seconds = 0;       // of this geometry timed alone; 0: not measured
  std::string run;               // of the branch
  std::string data_fingerprint;  // of the stable run, then of the branch
  std::string branch_fingerprint;
  Json eval;  // smelt.eval/1

  double loss() const { return eval.at("overall").at("loss").get<double>(); }
};

std::vector<Endpoint> read_endpoints(const StudySetup& setup, const Layout& layout,
                                     const std::vector<ChosenRate>& rates);

Csv endpoints_csv(const StudySetup& setup, const std::vector<Endpoint>& endpoints);

/// All keys of study.json but "provenance".  Throws Error when the arms of a pair did not read the
/// same tokens.
Json study_json(const StudySetup& setup, const Layout& layout, const RateReport& rates,
                const std::vector<Endpoint>& endpoints,
                const std::function<void(double, double)>& bootstrap_progress);

}  // namespace smelt::study
