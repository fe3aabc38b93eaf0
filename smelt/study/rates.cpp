#include "smelt/study/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace smelt::study {
namespace {

using plan::Arm;

/// The rate of one cell and arm from its trials; nothing when it has none.
std::optional<ChosenRate> tuned_rate(const std::string& cell, Arm arm,
                                     const std::vector<Trial>& trials) {
  std::vector<law::RateLoss> tried;
  for (const Trial& trial : trials) {
    if (trial.cell == cell && trial.arm == arm) tried.push_back(trial.result);
  }
  if (tried.empty()) return std::nullopt;
  const law::RateCurve curve = law::fit_rate_curve(tried);
  if (curve.diverged) {
    throw Error("study",
                fmt::format("every learning rate tried for {} of {} diverged: try lower ones",
                            enum_name(arm), cell));
  }
  return ChosenRate{cell, arm, curve.lr, RateSource::kTuned, curve};
}

struct TunedPoint {
  double log_flops, log_lr;
};

/// ln lr at ln F between the tuned points around it; outside them the nearest one's.
ChosenRate from_tuned(const RateCell& cell, Arm arm, const std::vector<TunedPoint>& tuned) {
  const double at = std::log(cell.flops_per_token[static_cast<int>(arm)]);
  const TunedPoint* below = nullptr;
  const TunedPoint* above = nullptr;
  for (const TunedPoint& point : tuned) {
    if (point.log_flops <= at && (!below || point.log_flops > below->log_flops)) below = &point;
    if (point.log_flops >= at && (!above || point.log_flops < above->log_flops)) above = &point;
  }
  if (below && above && below->log_flops < above->log_flops) {
    const double share = (at - below->log_flops) / (above->log_flops - below->log_flops);
    const double log_lr = below->log_lr + share * (above->log_lr - below->log_lr);
    return {cell.name, arm, std::exp(log_lr), RateSource::kInterpolated, {}};
  }
  return {cell.name, arm, std::exp((below ? below : above)->log_lr), RateSource::kNearest, {}};
}

}  // namespace

RateChoice choose_rates(const std::vector<RateCell>& cells, const std::vector<Trial>& trials) {
  RateChoice choice;
  for (const Arm arm : plan::kArms) {
    std::vector<TunedPoint> tuned;
    std::map<std::string, ChosenRate> own;
    for (const RateCell& cell : cells) {
      if (const auto rate = tuned_rate(cell.name, arm, trials)) {
        tuned.push_back(
            {std::log(cell.flops_per_token[static_cast<int>(arm)]), std::log(rate->lr)});
        own[cell.name] = *rate;
      }
    }
    for (const RateCell& cell : cells) {
      const auto found = own.find(cell.name);
      choice.chosen.push_back(found == own.end() ? from_tuned(cell, arm, tuned) : found->second);
      const ChosenRate& chosen = choice.chosen.back();
      if (chosen.curve &&
          !(chosen.curve->fitted && (chosen.curve->interval || !chosen.curve->spread))) {
        choice.words.push_back(
            fmt::format("{} of {}: {}", enum_name(arm), cell.name, chosen.curve->words));
      }
      if (chosen.source == RateSource::kNearest) {
        choice.words.push_back(
            fmt::format("{} of {}: rate {:.4g} taken from the nearest tuned cell", enum_name(arm),
                        cell.name, chosen.lr));
      }
    }
  }
  return choice;
}

RateChoice fixed_rates(const std::vector<RateCell>& cells, double baseline_lr, double smelt_lr) {
  RateChoice choice;
  for (const Arm arm : plan::kArms) {
    for (const RateCell& cell : cells) {
      choice.chosen.push_back(
          {cell.name, arm, arm == Arm::kBaseline ? baseline_lr : smelt_lr, RateSource::kFixed, {}});
    }
  }
  choice.words.push_back(
      fmt::format("learning rates were fixed, not tuned (baseline {:.4g}, smelt {:.4g}): with an "
                  "untuned rate either arm "
                  "can win",
                  baseline_lr, smelt_lr));
  return choice;
}

Json to_json(const Trial& trial) {
  const law::RateLoss& result = trial.result;
  return {{"cell", trial.cell},     {"arch", enum_name(trial.arm)},
          {"lr", result.lr},        {"seed", result.seed},
          {"tokens", trial.tokens}, {"loss", result.loss ? Json(*result.loss) : Json()},
          {"run", trial.run}};
}

Json to_json(const ChosenRate& chosen) {
  Json json = {{"cell", chosen.cell},
               {"arch", enum_name(chosen.arm)},
               {"lr", chosen.lr},
               {"how", enum_name(chosen.source)},
               {"at_edge", chosen.at_edge()}};
  if (chosen.curve) json["curve"] = law::to_json(*chosen.curve);
  return json;
}

}  // namespace smelt::study
