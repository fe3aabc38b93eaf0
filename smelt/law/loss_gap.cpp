#include "smelt/law/loss_gap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <tuple>

#include "smelt/core/error.h"

namespace smelt::law {
namespace {

using Key = std::tuple<std::string, double, std::int64_t>;  // cell, tokens, seed

std::map<Key, const Point*> by_key(const std::vector<Point>& points, const char* arm,
                                   Problems& problems) {
  std::map<Key, const Point*> keyed;
  for (const Point& point : points) {
    if (!keyed.emplace(Key{point.cell, point.tokens, point.seed}, &point).second) {
      problems.add(fmt::format("{}: cell {}, {} tokens, seed {} occurs twice", arm, point.cell,
                               number_text(point.tokens), point.seed),
                   point.where);
    }
  }
  return keyed;
}

/// P(|T| <= t), integer degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4).
double student_probability(int df, double t) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(df)));
  const double c2 = std::cos(theta) * std::cos(theta);
  double sum = 0, term = df % 2 ? std::cos(theta) : 1;
  if (df == 1) return 2 * theta / std::numbers::pi;
  for (int k = df % 2 ? 3 : 2; k <= df; k += 2) {
    sum += term;
    term *= c2 * (k - 1.0) / k;
  }
  sum *= std::sin(theta);
  return df % 2 ? 2 / std::numbers::pi * (theta + sum) : sum;
}

}  // namespace

double student_t(int degrees_of_freedom, double confidence) {
  double low = 0, high = 1;
  while (student_probability(degrees_of_freedom, high) < confidence && high < 1e12) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (student_probability(degrees_of_freedom, middle) < confidence ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

LossGap loss_gap(std::vector<PairedLoss> pairs, double confidence) {
  if (pairs.empty())
    throw Error("law", "no pairs of endpoints: nothing has the same cell, tokens and seed");
  std::sort(pairs.begin(), pairs.end(), [](const PairedLoss& a, const PairedLoss& b) {
    return std::tie(a.cell, a.tokens, a.seed) < std::tie(b.cell, b.tokens, b.seed);
  });
  LossGap result;
  std::set<std::int64_t> seeds;
  std::map<std::pair<std::string, double>, std::set<std::int64_t>> covered;
  for (const PairedLoss& pair : pairs) {
    seeds.insert(pair.seed);
    covered[{pair.cell, pair.tokens}].insert(pair.seed);
    result.worst_flops_mismatch =
        std::max(result.worst_flops_mismatch, std::abs(pair.flops_ratio - 1));
  }
  // Seeds are comparable only over what all of them have.
  std::size_t common = 0;
  for (const auto& [key, with] : covered) common += with.size() == seeds.size();
  if (common == 0) {
    result.warnings.push_back(
        "no cell and horizon has every seed: seeds are compared over different runs");
  } else if (common < covered.size()) {
    result.warnings.push_back(fmt::format(
        "{} of {} cells and horizons have every seed; the others are left out of the mean", common,
        covered.size()));
  }
  for (const std::int64_t seed : seeds) {
    double sum = 0, count = 0;
    for (const PairedLoss& pair : pairs) {
      const bool counts = common == 0 || covered[{pair.cell, pair.tokens}].size() == seeds.size();
      if (pair.seed != seed || !counts) continue;
      sum += pair.gap();
      count += 1;
    }
    if (count > 0) result.per_seed.push_back({seed, sum / count});
  }
  const double n = static_cast<double>(result.per_seed.size());
  for (const SeedGap& one : result.per_seed) result.mean += one.gap / n;
  const char* better = result.mean >= 0 ? "lower" : "higher";
  if (n < 2) {
    result.words = fmt::format(
        "the target's loss is {:.4f} nats {}, one seed: the spread between seeds is unknown",
        std::abs(result.mean), better);
  } else {
    double squares = 0;
    for (const SeedGap& one : result.per_seed)
      squares += (one.gap - result.mean) * (one.gap - result.mean);
    const double error = std::sqrt(squares / (n - 1) / n);
    const double reach = student_t(static_cast<int>(n) - 1, confidence) * error;
    result.standard_error = error;
    result.interval = Range{result.mean - reach, result.mean + reach};
    result.within_noise = result.interval->contains(0);
    result.words = fmt::format(
        "the target's loss is {:.4f} nats {} (mean of {} seeds, standard error {:.4f}, {:.0f} % "
        "interval of the "
        "gap {:+.4f} to {:+.4f}): {}",
        std::abs(result.mean), better, result.per_seed.size(), error, 100 * confidence,
        result.interval->min, result.interval->max,
        result.within_noise ? "within the noise between seeds" : "beyond the noise between seeds");
  }
  result.pairs = std::move(pairs);
  return result;
}

LossGap loss_gap(const std::vector<Point>& reference, const std::vector<Point>& target,
                 double confidence) {
  Problems problems("law");
  const auto references = by_key(reference, "reference", problems);
  const auto targets = by_key(target, "target", problems);
  problems.throw_if_any();
  std::vector<PairedLoss> pairs;
  for (const auto& [key, point] : references) {
    const auto found = targets.find(key);
    if (found == targets.end()) continue;
    pairs.push_back({point->cell, point->tokens, point->seed, point->loss, found->second->loss,
                     found->second->size / point->size});
  }
  const std::size_t lonely = references.size() + targets.size() - 2 * pairs.size();
  LossGap result = loss_gap(std::move(pairs), confidence);
  if (lonely > 0) {
    result.warnings.insert(result.warnings.begin(),
                           fmt::format("{} endpoints have no partner in the other arm", lonely));
  }
  return result;
}

Json to_json(const LossGap& gap) {
  Json json = {{"mean", gap.mean}};
  Json& seeds = json["per_seed"] = Json::array();
  for (const SeedGap& one : gap.per_seed) seeds.push_back({{"seed", one.seed}, {"gap", one.gap}});
  json["standard_error"] = gap.standard_error ? Json(*gap.standard_error) : Json(nullptr);
  json["interval"] =
      gap.interval ? Json::array({gap.interval->min, gap.interval->max}) : Json(nullptr);
  json["within_noise"] = gap.within_noise;
  json["worst_flops_mismatch"] = gap.worst_flops_mismatch;
  Json& pairs = json["pairs"] = Json::array();
  for (const PairedLoss& pair : gap.pairs) {
    pairs.push_back({{"cell", pair.cell},
                     {"tokens", pair.tokens},
                     {"seed", pair.seed},
                     {"reference", pair.reference},
                     {"target", pair.target},
                     {"gap", pair.gap()}});
  }
  json["warnings"] = gap.warnings;
  json["words"] = gap.words;
  return json;
}

}  // namespace smelt::law
