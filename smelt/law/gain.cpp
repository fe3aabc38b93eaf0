#include "smelt/law/gain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "smelt/law/design.h"
#include "smelt/law/subsets.h"

namespace smelt::law {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Sets what two laws say at a point; nothing where one has no frontier.
void set_quantities(const Law& reference, const Law& target, std::optional<double> time_ratio,
                    GainPoint& point) {
  const ExactGain exact = ce_gain(reference, target, point.compute, point.sparsity);
  point.gain = exact.gain;
  point.target_loss = exact.target.loss;
  point.reference_loss = exact.reference.loss;
  point.reference_compute = exact.reference_compute;
  point.target_compute = exact.target_compute;
  point.reverse_gain = exact.reverse_gain;
  point.tpp_reference = exact.reference.tokens_per_parameter;
  point.tpp_target = exact.target.tokens_per_parameter;
  point.size_reference = exact.reference.flops_per_token;
  point.size_target = exact.target.flops_per_token;
  point.tokens_reference = exact.reference.tokens;
  point.tokens_target = exact.target.tokens;
  point.loss_gap = exact.loss_gap;
  if (exact.gain && time_ratio) point.wall_clock_gain = 1 - (1 - *exact.gain) * *time_ratio;
}

GainPoint exact_point(const Law& reference, const Law& target, std::optional<double> time_ratio,
                      double compute, double sparsity) {
  GainPoint point;
  point.compute = compute;
  point.sparsity = sparsity;
  std::vector<std::string> words;
  for (const Law* law : {&reference, &target}) {
    if (!law->range) continue;
    if (!law->range->compute.contains(compute)) point.extrapolated = true;
    const Range& s = law->range->sparsity;
    // Matched arms of one nominal sparsity differ a little in S.
    if (law->form->size == SizeKind::kFlopsPerToken &&
        (sparsity < s.min - kSameSparsity * (1 - s.min) ||
         sparsity > s.max + kSameSparsity * (1 - s.max))) {
      point.extrapolated = true;
      if (words.empty()) words.push_back("the sparsity lies outside the data");
    }
  }
  if (!has_frontier(reference, sparsity) || !has_frontier(target, sparsity)) {
    point.words = "undefined: a law has no frontier";
    return point;
  }
  set_quantities(reference, target, time_ratio, point);
  if (!point.gain) {
    words.push_back("undefined: the target's loss lies below the reference's floor E");
  } else if (reference.range && !reference.range->compute.contains(*point.reference_compute)) {
    point.extrapolated = true;
  }
  if (point.extrapolated && words.empty())
    words.push_back("extrapolated beyond the data's compute");
  point.words = fmt::format("{}", fmt::join(words, "; "));
  return point;
}

/// Three compute budgets inside both arms' data, and the sparsities they share.
void fill_defaults(GainOptions& options, const DesignRange& a, const DesignRange& b,
                   const std::vector<Point>& reference) {
  if (options.compute.empty()) {
    const double low = std::max(a.compute.min, b.compute.min),
                 high = std::min(a.compute.max, b.compute.max);
    for (const double share : {0.25, 0.5, 0.75}) {
      options.compute.push_back(high > low ? low * std::pow(high / low, share) : low);
    }
  }
  if (options.sparsity.empty()) {
    std::set<double> seen;
    for (const Point& point : reference) seen.insert(point.sparsity);
    for (const double s : seen) {
      if (options.sparsity.empty() || s - options.sparsity.back() > kSameSparsity * (1 - s)) {
        options.sparsity.push_back(s);
      }
    }
  }
}

void check_options(const GainOptions& options) {
  Problems problems("law");
  for (const double c : options.compute) {
    if (!(std::isfinite(c) && c > 0))
      problems.add("compute: expected above 0, got " + number_text(c));
  }
  for (const double s : options.sparsity) {
    if (!(s >= 0 && s < 1))
      problems.add("sparsity: expected at least 0 and below 1, got " + number_text(s));
  }
  check_fields(options.bootstrap, problems);
  if (options.bootstrap.interval == Interval::kProfile) {
    problems.add("interval: a gain has no profile; expected percentile or bca");
  }
  problems.throw_if_any();
}

/// One law per draw for each arm; nothing where a draw determines one of them not.
struct LawPairs {
  std::vector<std::optional<std::pair<Law, Law>>> drawn, left_out;
};

/// Throws Error when a draw has not as many coefficients as its form.
void check_draws(const Draws& draws, const Form& form, const char* arm) {
  for (const auto* laws : {&draws.drawn, &draws.left_out}) {
    for (const auto& law : *laws) {
      if (!law || law->size() == form.coefficients.size()) continue;
      throw Error("law", fmt::format("draws_kept of the {}: form {} has {} coefficients, a draw {}",
                                     arm, form.name, form.coefficients.size(), law->size()));
    }
  }
}

LawPairs law_pairs(const Form& reference_form, const Form& target_form, const Draws& reference,
                   const Draws& target) {
  LawPairs pairs;
  const auto join = [&](const auto& a, const auto& b, auto& out) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      out.emplace_back();
      if (!a[i] || !b[i]) continue;
      out.back() = std::pair(Law{&reference_form, *a[i], std::nullopt, {}},
                             Law{&target_form, *b[i], std::nullopt, {}});
    }
  };
  join(reference.drawn, target.drawn, pairs.drawn);
  join(reference.left_out, target.left_out, pairs.left_out);
  return pairs;
}

/// What a quantity is in a draw that leaves it undefined: a loss that is never reached needs
/// unbounded compute.
double when_undefined(std::string_view name) {
  if (name == "gain" || name == "wall_clock_gain") return 1;
  return name == "reverse_gain" ? -INFINITY : INFINITY;
}

void add_intervals(const LawPairs& pairs, const GainOptions& options,
                   std::vector<GainPoint>& points) {
  for (GainPoint& point : points) {
    if (!point.target_loss) continue;
    const auto values = [&](const auto& laws) {
      std::vector<std::vector<double>> columns(gain_quantities().size());
      for (const auto& pair : laws) {
        if (!pair || !has_frontier(pair->first, point.sparsity) ||
            !has_frontier(pair->second, point.sparsity)) {
          continue;
        }
        GainPoint one;
        one.compute = point.compute;
        one.sparsity = point.sparsity;
        set_quantities(pair->first, pair->second, options.time_ratio, one);
        for (std::size_t q = 0; q < columns.size(); ++q) {
          const GainQuantity& quantity = gain_quantities()[q];
          columns[q].push_back((one.*quantity.value).value_or(when_undefined(quantity.name)));
        }
      }
      return columns;
    };
    auto drawn = values(pairs.drawn);
    const bool bca = options.bootstrap.interval == Interval::kBca;
    const auto left_out = bca ? values(pairs.left_out) : drawn;
    for (std::size_t q = 0; q < drawn.size(); ++q) {
      const GainQuantity& quantity = gain_quantities()[q];
      const auto& value = point.*quantity.value;
      if (!value) continue;  // nothing that an interval could hold
      point.*quantity.interval =
          bca ? bca_interval(drawn[q], *value, left_out[q], options.bootstrap.confidence)
              : percentile_interval(std::move(drawn[q]), options.bootstrap.confidence);
    }
  }
}

/// Intervals out of both arms' draws.
void use_draws(const Form& reference_form, const Form& target_form, const Draws& reference,
               const Draws& target, const GainOptions& options, GainResult& result) {
  const LawPairs pairs = law_pairs(reference_form, target_form, reference, target);
  result.draws = static_cast<std::int64_t>(pairs.drawn.size());
  result.draws_used = std::count_if(pairs.drawn.begin(), pairs.drawn.end(),
                                    [](const auto& pair) { return pair.has_value(); });
  say_used(result.draws_used, result.draws, result.warnings);
  if (static_cast<double>(result.draws_used) >= kShareNeeded * static_cast<double>(result.draws)) {
    add_intervals(pairs, options, result.points);
  }
}

void say_laws(const FitResult& fit, const char* arm, std::vector<std::string>& warnings) {
  if (!fit.identifiable) {
    warnings.push_back(fmt::format("{}: the law is not identifiable: {}", arm,
                                   fmt::join(fit.law.unidentified, "; ")));
  }
  for (const std::string& warning : fit.identifiability.warnings) {
    warnings.push_back(fmt::format("{}: {}", arm, warning));
  }
}

GainPoint undefined_point(double compute, double sparsity) {
  GainPoint point;
  point.compute = compute;
  point.sparsity = sparsity;
  point.words = "undefined: the points do not determine a law";
  return point;
}

std::vector<GainPoint> points_of(const Law& reference, const Law& target,
                                 const GainOptions& options, bool identifiable) {
  std::vector<GainPoint> points;
  for (const double sparsity : options.sparsity) {
    for (const double compute : options.compute) {
      points.push_back(identifiable
                           ? exact_point(reference, target, options.time_ratio, compute, sparsity)
                           : undefined_point(compute, sparsity));
    }
  }
  return points;
}

/// Each subset with its own E and amplitudes, in the whole and in every draw.
void add_subsets(const std::vector<Point>& reference, const std::vector<Point>& target,
                 const Form& form, const GainOptions& options, const std::vector<Draws>& draws,
                 GainResult& result) {
  for (const Subset& subset : options.subsets) {
    SubsetGain part{subset.name, {}, ""};
    const SubsetLaws a(with_losses(reference, subset.reference), form, options.fit);
    const SubsetLaws b(with_losses(target, subset.target), form, options.fit);
    const auto law_a = a.refit(result.reference->law.coefficients);
    const auto law_b = b.refit(result.target->law.coefficients);
    if (!law_a || !law_b) {
      part.words = "the points do not determine the subset's amplitudes";
      result.subsets.push_back(std::move(part));
      continue;
    }
    Law first{&form, *law_a, result.reference->law.range, {}};
    Law second{&form, *law_b, result.target->law.range, {}};
    part.points = points_of(first, second, options, true);
    if (!draws.empty()) {
      const auto threads = static_cast<unsigned>(options.bootstrap.threads);
      const Draws own_a = a.refit_draws(draws[0], options.bootstrap.unit, threads);
      const Draws own_b = b.refit_draws(draws[1], options.bootstrap.unit, threads);
      add_intervals(law_pairs(form, form, own_a, own_b), options, part.points);
    }
    result.subsets.push_back(std::move(part));
  }
}

}  // namespace

std::span<const GainQuantity> gain_quantities() {
  using P = GainPoint;
  static constexpr GainQuantity kAll[] = {
      {"gain", &P::gain, &P::interval},
      {"target_loss", &P::target_loss, &P::target_loss_interval},
      {"reference_loss", &P::reference_loss, &P::reference_loss_interval},
      {"reference_compute", &P::reference_compute, &P::reference_compute_interval},
      {"target_compute", &P::target_compute, &P::target_compute_interval},
      {"reverse_gain", &P::reverse_gain, &P::reverse_gain_interval},
      {"tpp_reference", &P::tpp_reference, &P::tpp_reference_interval},
      {"tpp_target", &P::tpp_target, &P::tpp_target_interval},
      {"size_reference", &P::size_reference, &P::size_reference_interval},
      {"size_target", &P::size_target, &P::size_target_interval},
      {"tokens_reference", &P::tokens_reference, &P::tokens_reference_interval},
      {"tokens_target", &P::tokens_target, &P::tokens_target_interval},
      {"loss_gap", &P::loss_gap, &P::loss_gap_interval},
      {"wall_clock_gain", &P::wall_clock_gain, &P::wall_clock_gain_interval},
  };
  return kAll;
}

GainResult gain(const std::vector<Point>& reference, const std::vector<Point>& target,
                const Form& form, const GainOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  check_options(given);
  GainResult result;
  result.reference.emplace();
  result.target.emplace();
  const auto draws = draw_together({&reference, &target}, form, given.fit, given.bootstrap,
                                   {&*result.reference, &*result.target}, given.progress);
  result.identifiable = result.reference->identifiable && result.target->identifiable;
  say_laws(*result.reference, "reference", result.warnings);
  say_laws(*result.target, "target", result.warnings);
  GainOptions options = given;
  if (result.reference->law.range && result.target->law.range) {
    fill_defaults(options, *result.reference->law.range, *result.target->law.range, reference);
  }
  result.time_ratio = options.time_ratio;
  result.points =
      points_of(result.reference->law, result.target->law, options, result.identifiable);
  if (!draws.empty()) use_draws(form, form, draws[0], draws[1], options, result);
  if (result.identifiable) add_subsets(reference, target, form, options, draws, result);
  result.seconds = seconds_since(start);
  return result;
}

GainResult gain(const Law& reference, const Law& target, const GainOptions& options,
                const Draws* reference_draws, const Draws* target_draws) {
  const auto start = std::chrono::steady_clock::now();
  check_options(options);
  if (options.compute.empty()) throw Error("law", "compute: name at least one budget in FLOPs");
  GainOptions filled = options;
  if (filled.sparsity.empty()) {
    if (reference.form->uses_sparsity() || target.form->uses_sparsity()) {
      throw Error("law", "sparsity: name at least one, since the law depends on it");
    }
    filled.sparsity = {0};
  }
  GainResult result;
  result.identifiable = reference.unidentified.empty() && target.unidentified.empty();
  for (const auto& [law, arm] :
       {std::pair{&reference, "reference"}, std::pair{&target, "target"}}) {
    if (law->unidentified.empty()) continue;
    result.warnings.push_back(fmt::format("{}: the law is not identifiable: {}", arm,
                                          fmt::join(law->unidentified, "; ")));
  }
  result.points = points_of(reference, target, filled, result.identifiable);
  if (reference_draws) check_draws(*reference_draws, *reference.form, "reference");
  if (target_draws) check_draws(*target_draws, *target.form, "target");
  if (reference_draws && target_draws) {
    if (reference_draws->key == target_draws->key &&
        reference_draws->drawn.size() == target_draws->drawn.size()) {
      use_draws(*reference.form, *target.form, *reference_draws, *target_draws, filled, result);
    } else {
      result.warnings.push_back(
          "no interval: the two results were drawn over other units, seeds or numbers of draws");
    }
  } else if (reference_draws || target_draws) {
    result.warnings.push_back("no interval: one of the two results carries no draws");
  }
  result.seconds = seconds_since(start);
  return result;
}

namespace {

Json points_json(const std::vector<GainPoint>& points) {
  const auto number = [](double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
  };
  Json json = Json::array();
  for (const GainPoint& point : points) {
    Json entry = {{"compute", point.compute}, {"sparsity", point.sparsity}};
    for (const GainQuantity& quantity : gain_quantities()) {
      const std::string name = quantity.name;
      const auto& value = point.*quantity.value;
      const auto& interval = point.*quantity.interval;
      entry[name] = value ? number(*value) : Json(nullptr);
      entry[name == "gain" ? "interval" : name + "_interval"] =
          interval ? Json::array({number(interval->min), number(interval->max)}) : Json(nullptr);
    }
    entry["extrapolated"] = point.extrapolated;
    entry["words"] = point.words;
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Json to_json(const GainResult& result) {
  Json json = {{"schema", "smelt.gain/1"}, {"identifiable", result.identifiable}};
  json["points"] = points_json(result.points);
  json["time_ratio"] = result.time_ratio ? Json(*result.time_ratio) : Json(nullptr);
  if (!result.subsets.empty()) {
    Json& subsets = json["subsets"] = Json::array();
    for (const SubsetGain& subset : result.subsets) {
      subsets.push_back(
          {{"name", subset.name}, {"points", points_json(subset.points)}, {"words", subset.words}});
    }
  }
  json["draws"] = result.draws;
  json["draws_used"] = result.draws_used;
  json["warnings"] = result.warnings;
  if (result.reference) json["reference"] = to_json(*result.reference);
  if (result.target) json["target"] = to_json(*result.target);
  json["seconds"] = result.seconds;
  return json;
}

}  // namespace smelt::law
