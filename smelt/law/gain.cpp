#include "smelt/law/gain.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "smelt/core/parallel.h"
#include "smelt/core/philox.h"
#include "smelt/law/design.h"

namespace smelt::law {
namespace {

constexpr std::size_t kDrawStarts =
    4;  // grid starts refined per draw, beside the full data's optimum
constexpr double kShareNeeded = 0.5;  // of the draws, for an interval to mean anything

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string unit_of(const Point& point, std::size_t index, Unit unit, const Form& form) {
  switch (unit) {
    case Unit::kCell:
      return point.cell;
    case Unit::kRun:
      return point.cell + "#" + std::to_string(point.seed);
    case Unit::kPoint:
      return std::to_string(index);
    case Unit::kSize:
      return fmt::format("{:.4e}", point.size);
    case Unit::kCompute:  // bins of a factor of two
      return fmt::format("{:+05.0f}", std::floor(std::log2(compute_of(form, point.inputs()))));
  }
  return "";
}

/// One arm, ready to be drawn again and again.
struct Arm {
  Design design;
  StartGrid grid;
  SearchResult found;
  std::vector<std::size_t> unit;  // of every row of the problem

  Arm(const std::vector<Point>& points, const Form& form, const FitOptions& options)
      : design(make_design(points, form, options)),
        grid(design.problem),
        found(search(design.problem, grid, static_cast<std::size_t>(options.starts))) {}
};

/// The law of a draw in which unit u counts `counts[u]` times; nothing when the draw does not
/// determine it.
std::optional<Law> draw_law(const Arm& arm, const std::vector<double>& counts) {
  Problem problem = arm.design.problem;
  for (std::size_t i = 0; i < problem.x.size(); ++i) problem.weight[i] *= counts[arm.unit[i]];
  if (distinct_points(problem) < arm.design.free_coefficients) return std::nullopt;
  const SearchResult found = search(problem, arm.grid, kDrawStarts, &arm.found.best.unknowns);
  const JacobianShape shape = jacobian_shape(problem, found.best);
  if (!faults_of(problem, found.best, shape).empty()) return std::nullopt;
  return Law{problem.form, found.best.coefficients, std::nullopt, {}};
}

std::vector<double> draw_counts(const Philox& random, std::size_t draw, std::size_t units) {
  std::vector<double> counts(units, 0.0);
  for (std::size_t i = 0; i < units; ++i) counts[random.below(draw * units + i, units)] += 1;
  return counts;
}

/// Linear interpolation between order statistics (the usual definition, "type 7").
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

std::optional<Range> percentile_interval(std::vector<double> values, double confidence) {
  if (values.size() < 20) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Range{quantile(values, 0.5 * (1 - confidence)), quantile(values, 0.5 * (1 + confidence))};
}

double normal_cdf(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2.0));
}

/// z with P(Z < z) = p, by halving: an interval needs a few digits.
double normal_quantile(double p) {
  double low = -9, high = 9;
  for (int i = 0; i < 80; ++i) {
    const double middle = 0.5 * (low + high);
    (normal_cdf(middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Bias-corrected and accelerated (Efron 1987): the percentiles are shifted by how far the draws
/// lie from the estimate and by the skewness that leaving out one unit at a time shows.
std::optional<Range> bca_interval(const std::vector<double>& draws, double estimate,
                                  const std::vector<double>& left_out, double confidence) {
  if (draws.size() < 20 || left_out.size() < 3) return std::nullopt;
  const auto below = static_cast<double>(std::count_if(
      draws.begin(), draws.end(), [estimate](double value) { return value < estimate; }));
  const auto equal = static_cast<double>(std::count(draws.begin(), draws.end(), estimate));
  const double share = (below + 0.5 * equal) / static_cast<double>(draws.size());
  if (share <= 0 || share >= 1) return percentile_interval(draws, confidence);
  const double bias = normal_quantile(share);
  double mean = 0, squares = 0, cubes = 0;
  for (const double value : left_out) mean += value / static_cast<double>(left_out.size());
  for (const double value : left_out) {
    squares += (mean - value) * (mean - value);
    cubes += std::pow(mean - value, 3);
  }
  const double acceleration = squares > 0 ? cubes / (6 * std::pow(squares, 1.5)) : 0;
  const auto level = [&](double p) {
    const double z = bias + normal_quantile(p);
    return normal_cdf(bias + z / (1 - acceleration * z));
  };
  const double low = level(0.5 * (1 - confidence)), high = level(0.5 * (1 + confidence));
  if (!(low > 0 && high < 1 && low < high)) return percentile_interval(draws, confidence);
  std::vector<double> sorted = draws;
  std::sort(sorted.begin(), sorted.end());
  return Range{quantile(sorted, low), quantile(sorted, high)};
}

std::size_t name_units(std::vector<Arm*> arms, std::vector<const std::vector<Point>*> points,
                       Unit unit, std::size_t& shared) {
  std::map<std::string, std::size_t> number;
  std::vector<std::set<std::string>> of_arm(arms.size());
  // Numbered by name, so that the order of rows does not matter.
  for (std::size_t a = 0; a < arms.size(); ++a) {
    for (std::size_t i = 0; i < points[a]->size(); ++i) {
      const std::string name = unit_of((*points[a])[i], i, unit, *arms[a]->design.problem.form);
      number.emplace(name, 0);
      of_arm[a].insert(name);
    }
  }
  std::size_t next = 0;
  shared = 0;
  for (auto& [name, value] : number) {
    value = next++;
    shared += std::all_of(of_arm.begin(), of_arm.end(),
                          [&](const auto& set) { return set.contains(name); });
  }
  for (std::size_t a = 0; a < arms.size(); ++a) {
    for (const std::size_t i : arms[a]->design.order) {
      arms[a]->unit.push_back(
          number.at(unit_of((*points[a])[i], i, unit, *arms[a]->design.problem.form)));
    }
  }
  return number.size();
}

void say_used(std::int64_t used, std::int64_t draws, std::vector<std::string>& warnings) {
  const double share =
      static_cast<double>(used) / static_cast<double>(std::max<std::int64_t>(draws, 1));
  if (draws == 0 || share >= 0.98) return;
  warnings.push_back(fmt::format(
      "{} of {} draws determine the coefficients; {}", used, draws,
      share < kShareNeeded ? "too few for an interval" : "the intervals are over those only"));
}

GainPoint exact_point(const Law& reference, const Law& target, double compute, double sparsity) {
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
  const ExactGain exact = ce_gain(reference, target, compute, sparsity);
  point.gain = exact.gain;
  point.target_loss = exact.target.loss;
  point.reference_compute = exact.reference_compute;
  point.tpp_reference = exact.reference.tokens_per_parameter;
  point.tpp_target = exact.target.tokens_per_parameter;
  point.loss_gap = exact.loss_gap;
  if (!exact.gain) {
    words.push_back("undefined: the target's loss lies below the reference's floor E");
  } else if (reference.range && !reference.range->compute.contains(*exact.reference_compute)) {
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
  problems.throw_if_any();
}

/// What one draw says at one point.
struct Drawn {
  double gain = 0, gap = 0, tpp_reference = 0, tpp_target = 0;
  bool defined = false;
};

void add_intervals(const GainOptions& options, Arm& reference, Arm& target, std::size_t units,
                   GainResult& result) {
  const auto draws = static_cast<std::size_t>(options.bootstrap.draws);
  const std::size_t points = result.points.size();
  std::vector<Drawn> drawn(draws * points);
  std::vector<char> used(draws, 0);
  const Philox random(options.bootstrap.seed, "law/bootstrap");
  std::atomic<std::size_t> done{0};
  std::mutex mutex;
  parallel_for(
      draws,
      [&](std::size_t draw) {
        const auto counts = draw_counts(random, draw, units);
        const auto a = draw_law(reference, counts);
        const auto b = a ? draw_law(target, counts) : std::nullopt;
        if (b) {
          used[draw] = 1;
          for (std::size_t i = 0; i < points; ++i) {
            const GainPoint& at = result.points[i];
            if (!has_frontier(*a, at.sparsity) || !has_frontier(*b, at.sparsity)) continue;
            const ExactGain exact = ce_gain(*a, *b, at.compute, at.sparsity);
            // A reference that never gets there needs unbounded compute: the gain is 1.
            drawn[draw * points + i] = {exact.gain.value_or(1.0), exact.loss_gap,
                                        exact.reference.tokens_per_parameter,
                                        exact.target.tokens_per_parameter, true};
          }
        }
        const std::size_t now = ++done;
        if (options.progress && now % 50 == 0) {
          const std::lock_guard lock(mutex);
          options.progress(static_cast<double>(now), static_cast<double>(draws));
        }
      },
      static_cast<unsigned>(options.bootstrap.threads));
  result.draws = options.bootstrap.draws;
  result.draws_used = std::count(used.begin(), used.end(), 1);
  say_used(result.draws_used, result.draws, result.warnings);
  if (static_cast<double>(result.draws_used) < kShareNeeded * static_cast<double>(draws)) return;
  for (std::size_t i = 0; i < points; ++i) {
    std::vector<double> gains, gaps, tpp_a, tpp_b;
    for (std::size_t draw = 0; draw < draws; ++draw) {
      const Drawn& one = drawn[draw * points + i];
      if (!one.defined) continue;
      gains.push_back(one.gain);
      gaps.push_back(one.gap);
      tpp_a.push_back(one.tpp_reference);
      tpp_b.push_back(one.tpp_target);
    }
    GainPoint& point = result.points[i];
    const double confidence = options.bootstrap.confidence;
    if (!point.target_loss) continue;
    point.interval = percentile_interval(std::move(gains), confidence);
    point.loss_gap_interval = percentile_interval(std::move(gaps), confidence);
    point.tpp_reference_interval = percentile_interval(std::move(tpp_a), confidence);
    point.tpp_target_interval = percentile_interval(std::move(tpp_b), confidence);
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

void add_points(const Law& reference, const Law& target, const GainOptions& options,
                GainResult& result) {
  for (const double sparsity : options.sparsity) {
    for (const double compute : options.compute) {
      result.points.push_back(result.identifiable
                                  ? exact_point(reference, target, compute, sparsity)
                                  : undefined_point(compute, sparsity));
    }
  }
}

}  // namespace

GainResult gain(const std::vector<Point>& reference, const std::vector<Point>& target,
                const Form& form, const GainOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  check_options(given);
  GainResult result;
  result.reference = fit(reference, form, given.fit);
  result.target = fit(target, form, given.fit);
  result.identifiable = result.reference->identifiable && result.target->identifiable;
  say_laws(*result.reference, "reference", result.warnings);
  say_laws(*result.target, "target", result.warnings);
  GainOptions options = given;
  if (result.reference->law.range && result.target->law.range) {
    fill_defaults(options, *result.reference->law.range, *result.target->law.range, reference);
  }
  add_points(result.reference->law, result.target->law, options, result);
  if (result.identifiable && options.bootstrap.draws > 0) {
    Arm a(reference, form, options.fit), b(target, form, options.fit);
    std::size_t shared = 0;
    const std::size_t units =
        name_units({&a, &b}, {&reference, &target}, options.bootstrap.unit, shared);
    if (shared < units) {
      result.warnings.push_back(fmt::format(
          "{} of {} units of the bootstrap occur in one arm only: draws are paired over {}",
          units - shared, units, shared));
    }
    add_intervals(options, a, b, units, result);
  }
  result.seconds = seconds_since(start);
  return result;
}

GainResult gain(const Law& reference, const Law& target, const GainOptions& options) {
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
  add_points(reference, target, filled, result);
  return result;
}

FitResult bootstrap_fit(const std::vector<Point>& points, const Form& form,
                        const FitOptions& options, const BootstrapOptions& bootstrap) {
  const auto start = std::chrono::steady_clock::now();
  FitResult result = fit(points, form, options);
  if (!result.identifiable || bootstrap.draws <= 0) return result;
  Arm arm(points, form, options);
  std::size_t shared = 0;
  const std::size_t units = name_units({&arm}, {&points}, bootstrap.unit, shared);
  const auto draws = static_cast<std::size_t>(bootstrap.draws);
  std::vector<std::optional<Law>> laws(draws);
  const Philox random(bootstrap.seed, "law/bootstrap");
  parallel_for(
      draws,
      [&](std::size_t draw) { laws[draw] = draw_law(arm, draw_counts(random, draw, units)); },
      static_cast<unsigned>(bootstrap.threads));
  // The law without each unit: how far it moves, and the skewness that BCa needs.
  std::vector<std::optional<Law>> left_out(units);
  parallel_for(
      units,
      [&](std::size_t unit) {
        std::vector<double> counts(units, 1.0);
        counts[unit] = 0;
        left_out[unit] = draw_law(arm, counts);
      },
      static_cast<unsigned>(bootstrap.threads));
  result.draws = bootstrap.draws;
  result.draws_used =
      std::count_if(laws.begin(), laws.end(), [](const auto& law) { return law.has_value(); });
  say_used(result.draws_used, result.draws, result.identifiability.warnings);
  result.standard_errors.clear();
  result.standard_error_kind = "draws";
  const bool enough =
      static_cast<double>(result.draws_used) >= kShareNeeded * static_cast<double>(draws);
  for (std::size_t j = 0; j < form.coefficients.size(); ++j) {
    std::vector<double> values;
    double mean = 0, squares = 0;
    for (const auto& law : laws) {
      if (!law) continue;
      const double value = law->coefficients[j];
      values.push_back(value);
      const double step = value - mean;
      mean += step / static_cast<double>(values.size());
      squares += step * (value - mean);
    }
    const bool several = enough && values.size() > 1;
    result.standard_errors.push_back(
        several ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : std::nan(""));
    double largest = 0;
    std::vector<double> without;
    for (const auto& law : left_out) {
      if (!law) continue;
      without.push_back(law->coefficients[j]);
      const double shift = law->coefficients[j] - result.law.coefficients[j];
      if (std::abs(shift) > std::abs(largest)) largest = shift;
    }
    result.leave_one_out.push_back(largest);
    if (!enough) {
      result.intervals.emplace_back();
    } else if (bootstrap.interval == Interval::kBca) {
      result.intervals.push_back(
          bca_interval(values, result.law.coefficients[j], without, bootstrap.confidence));
    } else {
      result.intervals.push_back(percentile_interval(std::move(values), bootstrap.confidence));
    }
  }
  result.seconds = seconds_since(start);
  return result;
}

Json to_json(const GainResult& result) {
  const auto optional = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
  };
  const auto range = [](const std::optional<Range>& value) {
    return value ? Json::array({value->min, value->max}) : Json(nullptr);
  };
  Json json = {{"schema", "smelt.gain/1"}, {"identifiable", result.identifiable}};
  Json& points = json["points"] = Json::array();
  for (const GainPoint& point : result.points) {
    points.push_back({{"compute", point.compute},
                      {"sparsity", point.sparsity},
                      {"gain", optional(point.gain)},
                      {"interval", range(point.interval)},
                      {"target_loss", optional(point.target_loss)},
                      {"reference_compute", optional(point.reference_compute)},
                      {"tpp_reference", optional(point.tpp_reference)},
                      {"tpp_reference_interval", range(point.tpp_reference_interval)},
                      {"tpp_target", optional(point.tpp_target)},
                      {"tpp_target_interval", range(point.tpp_target_interval)},
                      {"loss_gap", optional(point.loss_gap)},
                      {"loss_gap_interval", range(point.loss_gap_interval)},
                      {"extrapolated", point.extrapolated},
                      {"words", point.words}});
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
