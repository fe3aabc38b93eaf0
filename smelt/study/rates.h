// Which learning rate each arm gets: the minimum of its losses over those tried, on held-out
// documents that the endpoints do not use.  One shared rate makes either arm win; so each arm has
// its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/law/rate_curve.h"
#include "smelt/plan/study_config.h"

namespace smelt::study {

struct Trial {
  std::string cell;
  plan::Arm arm = plan::Arm::kBaseline;
  law::RateLoss result;
  double tokens = 0;
  std::string run;
};

/// How an arm of a cell came to its rate.
enum class RateSource { kTuned, kInterpolated, kNearest, kFixed };

struct ChosenRate {
  std::string cell;
  plan::Arm arm = plan::Arm::kBaseline;
  double lr = 0;
  RateSource source = RateSource::kFixed;
  std::optional<law::RateCurve> curve;  // of a tuned one

  bool at_edge() const { return curve && curve->at_edge; }
};

/// A cell as far as rates depend on it.
struct RateCell {
  std::string name;
  double flops_per_token[2] = {};  // per arm
};

struct RateChoice {
  std::vector<ChosenRate> chosen;  // cells × arms
  std::vector<std::string> words;  // edges, cells that were not tuned
};

/// Tuned cells take the minimum of their rate curve; a cell between two tuned ones is interpolated
/// in ln F (ln lr is linear in ln F), others take the nearest one's rate and are marked.  Throws
/// Error when every trial of an arm diverged.
RateChoice choose_rates(const std::vector<RateCell>& cells, const std::vector<Trial>& trials);

/// The rates of the user, told as such.
RateChoice fixed_rates(const std::vector<RateCell>& cells, double baseline_lr, double smelt_lr);

Json to_json(const Trial& trial);
Json to_json(const ChosenRate& chosen);

}  // namespace smelt::study

template <>
struct smelt::EnumNames<smelt::study::RateSource> {
  static constexpr std::pair<smelt::study::RateSource, const char*> kNames[] = {
      {smelt::study::RateSource::kTuned, "tuned"},
      {smelt::study::RateSource::kInterpolated, "interpolated"},
      {smelt::study::RateSource::kNearest, "not tuned"},
      {smelt::study::RateSource::kFixed, "fixed"}};
};
