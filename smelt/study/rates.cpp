#include "smelt/study/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace smelt::study {
namespace {

using plan::Arm;

/// The best trial of one cell and arm, and whether it lies at an edge of what was tried.
std::optional<ChosenRate> best_trial(const std::string& cell, Arm arm,
                                     const std::vector<Trial>& trials) {
  const Trial* best = nullptr;
  double low = INFINITY, high = 0;
  for (const Trial& trial : trials) {
    if (trial.cell != cell || trial.arm != arm) continue;
    low = std::min(low, trial.lr);
    high = std::max(high, trial.lr);
    if (trial.loss && (!best || *trial.loss < *best->loss)) best = &trial;
  }
  if (high == 0) return std::nullopt;
  if (!best) {
    throw Error("study",
                fmt::format("every learning rate tried for {} of {} diverged: try lower ones",
                            enum_name(arm), cell));
  }
  return ChosenRate{cell, arm, best->lr, RateSource::kTuned, best->lr == low || best->lr == high};
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
    return {cell.name, arm, std::exp(log_lr), RateSource::kInterpolated, false};
  }
  return {cell.name, arm, std::exp((below ? below : above)->log_lr), RateSource::kNearest, false};
}

}  // namespace

RateChoice choose_rates(const std::vector<RateCell>& cells, const std::vector<Trial>& trials) {
  RateChoice choice;
  for (const Arm arm : plan::kArms) {
    std::vector<TunedPoint> tuned;
    for (const RateCell& cell : cells) {
      if (const auto best = best_trial(cell.name, arm, trials)) {
        tuned.push_back(
            {std::log(cell.flops_per_token[static_cast<int>(arm)]), std::log(best->lr)});
      }
    }
    for (const RateCell& cell : cells) {
      const auto best = best_trial(cell.name, arm, trials);
      choice.chosen.push_back(best ? *best : from_tuned(cell, arm, tuned));
      const ChosenRate& chosen = choice.chosen.back();
      if (chosen.at_edge) {
        choice.words.push_back(fmt::format(
            "{} of {}: the best rate, {:.4g}, is at the edge of what was tried; try further ones",
            enum_name(arm), cell.name, chosen.lr));
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
      choice.chosen.push_back({cell.name, arm, arm == Arm::kBaseline ? baseline_lr : smelt_lr,
                               RateSource::kFixed, false});
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
  return {{"cell", trial.cell},     {"arch", enum_name(trial.arm)},
          {"lr", trial.lr},         {"seed", trial.seed},
          {"tokens", trial.tokens}, {"loss", trial.loss ? Json(*trial.loss) : Json()},
          {"run", trial.run}};
}

Json to_json(const ChosenRate& chosen) {
  return {{"cell", chosen.cell},
          {"arch", enum_name(chosen.arm)},
          {"lr", chosen.lr},
          {"how", enum_name(chosen.source)},
          {"at_edge", chosen.at_edge}};
}

}  // namespace smelt::study
