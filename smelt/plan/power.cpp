#include "smelt/plan/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "smelt/law/loss_gap.h"

namespace smelt::plan {
namespace {

constexpr std::size_t kMostSeeds = 1000;

/// Pooled deviation of groups around their own means.
struct Pooled {
  double squares = 0;
  std::size_t freedom = 0;

  void add(const std::vector<double>& values) {
    if (values.size() < 2) return;
    double mean = 0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    for (const double v : values) squares += (v - mean) * (v - mean);
    freedom += values.size() - 1;
  }
  std::optional<double> deviation() const {
    if (freedom == 0) return std::nullopt;
    return std::sqrt(squares / static_cast<double>(freedom));
  }
};

using CellTokens = std::pair<std::string, double>;

/// Seeds of one arm per cell and horizon.
std::map<CellTokens, std::vector<double>> losses_by_cell(const std::vector<law::Point>& points) {
  std::map<CellTokens, std::vector<double>> groups;
  for (const law::Point& point : points) groups[{point.cell, point.tokens}].push_back(point.loss);
  return groups;
}

/// By how much the loss falls per e-fold of tokens: least squares of loss on ln tokens with a level
/// of its own per cell.  Nothing when no cell has two horizons.
std::optional<double> slope_in_tokens(const std::vector<law::Point>& points) {
  std::map<std::string, std::vector<std::pair<double, double>>> cells;
  for (const law::Point& point : points) {
    cells[point.cell].emplace_back(std::log(point.tokens), point.loss);
  }
  double xx = 0, xy = 0;
  for (const auto& [cell, pairs] : cells) {
    double x_mean = 0, y_mean = 0;
    for (const auto& [x, y] : pairs) {
      x_mean += x / static_cast<double>(pairs.size());
      y_mean += y / static_cast<double>(pairs.size());
    }
    for (const auto& [x, y] : pairs) {
      xx += (x - x_mean) * (x - x_mean);
      xy += (x - x_mean) * (y - y_mean);
    }
  }
  if (xx <= 0) return std::nullopt;
  return -xy / xx;
}

}  // namespace

Noise noise_of(const law::Endpoints& endpoints) {
  const std::vector<std::string> groups = endpoints.groups();
  Noise noise;
  const auto arms = groups.size();
  const bool named = std::find(groups.begin(), groups.end(), "baseline") != groups.end();
  const std::string reference = named ? "baseline" : groups.front();
  const std::vector<law::Point> base = endpoints.points(reference);
  Pooled pooled;
  if (arms == 2) {
    const std::string target = groups[0] == reference ? groups[1] : groups[0];
    const law::LossGap gap = law::loss_gap(base, endpoints.points(target));
    std::map<CellTokens, std::vector<double>> gaps;
    for (const law::PairedLoss& pair : gap.pairs) {
      gaps[{pair.cell, pair.tokens}].push_back(pair.gap());
    }
    for (const auto& [cell, values] : gaps) pooled.add(values);
    noise.gap_deviation = pooled.deviation();
  }
  const bool paired = noise.gap_deviation.has_value();
  if (!paired) {
    for (const std::string& group : groups) {
      for (const auto& [cell, values] : losses_by_cell(endpoints.points(group))) pooled.add(values);
    }
    if (const auto one = pooled.deviation()) noise.gap_deviation = std::sqrt(2.0) * *one;
  }
  noise.replicas = pooled.freedom;
  const std::optional<double> slope = slope_in_tokens(base);
  if (slope && *slope > 0) noise.loss_per_efold = slope;
  noise.deviation_words =
      noise.gap_deviation
          ? fmt::format("a pair's gap varies by {:.4f} nats between seeds ({} replicas{})",
                        *noise.gap_deviation, noise.replicas,
                        paired ? "" : "; nothing pairs: from single losses, times the root of 2")
          : std::string("no cell has two seeds: the noise is not known");
  const std::string whose = reference.empty() ? "the " : reference + "'s ";
  if (noise.loss_per_efold) {
    noise.worth_words = fmt::format("{}loss falls by {:.4f} nats per e-fold of tokens", whose,
                                    *noise.loss_per_efold);
  } else {
    noise.worth_words = (slope ? whose + "loss does not fall with tokens"
                               : std::string("no cell has two horizons")) +
                        ": what tokens are worth is not known";
  }
  return noise;
}

std::optional<double> detectable_gap(double gap_deviation, std::size_t cells, std::size_t seeds) {
  if (seeds < 2 || cells == 0) return std::nullopt;
  const int freedom = static_cast<int>(seeds) - 1;
  // Two-sided 95 %, and the one-sided 80 % of the power (two-sided 60 %).
  const double t = law::student_t(freedom, 0.95) + law::student_t(freedom, 0.6);
  return t * gap_deviation / std::sqrt(static_cast<double>(cells * seeds));
}

double gain_of_gap(double gap, double loss_per_efold) {
  return 1 - std::exp(-gap / loss_per_efold);
}

double gap_of_gain(double gain, double loss_per_efold) {
  return -loss_per_efold * std::log(1 - gain);
}

std::optional<std::size_t> seeds_for_gap(double gap, double gap_deviation, std::size_t cells) {
  for (std::size_t seeds = 2; seeds <= kMostSeeds; ++seeds) {
    if (detectable_gap(gap_deviation, cells, seeds).value_or(INFINITY) <= gap) return seeds;
  }
  return std::nullopt;
}

}  // namespace smelt::plan
