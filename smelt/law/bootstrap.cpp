#include "smelt/law/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>

#include "smelt/core/parallel.h"
#include "smelt/core/philox.h"
#include "smelt/law/design.h"
#include "smelt/law/profile.h"

namespace smelt::law {
namespace {

constexpr std::size_t kDrawStarts = 4;  // of the grid, beside the full data's optimum

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

/// The coefficients of a draw in which unit u counts `counts[u]` times; nothing when the draw does
/// not determine them.
std::optional<std::vector<double>> draw_law(const Arm& arm, const std::vector<double>& counts,
                                            std::size_t starts) {
  Problem problem = arm.design.problem;
  for (std::size_t i = 0; i < problem.x.size(); ++i) problem.weight[i] *= counts[arm.unit[i]];
  if (distinct_points(problem) < arm.design.free_coefficients) return std::nullopt;
  const SearchResult found = search(problem, arm.grid, starts, &arm.found.best.unknowns);
  const JacobianShape shape = jacobian_shape(problem, found.best);
  if (!faults_of(problem, found.best, shape).empty()) return std::nullopt;
  return found.best.coefficients;
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

/// Units that occur in every arm.
std::size_t shared_units(const std::vector<Arm>& arms, std::size_t units) {
  std::vector<std::size_t> seen(units, 0);
  for (const Arm& arm : arms) {
    for (const std::size_t u : std::set<std::size_t>(arm.unit.begin(), arm.unit.end())) ++seen[u];
  }
  return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), arms.size()));
}

}  // namespace

Philox draw_generator(std::uint64_t seed) {
  return Philox(seed, "law/bootstrap");
}

std::vector<double> draw_counts(const Philox& random, std::size_t draw, std::size_t units) {
  std::vector<double> counts(units, 0.0);
  for (std::size_t i = 0; i < units; ++i) counts[random.below(draw * units + i, units)] += 1;
  return counts;
}

std::vector<std::string> unit_names(const std::vector<Point>& points,
                                    const std::vector<std::size_t>& order, const Form& form,
                                    Unit unit) {
  std::set<std::string> names;
  for (const std::size_t i : order) names.insert(unit_of(points[i], i, unit, form));
  return {names.begin(), names.end()};
}

std::vector<std::size_t> unit_numbers(const std::vector<Point>& points,
                                      const std::vector<std::size_t>& order, const Form& form,
                                      Unit unit, const DrawKey& key) {
  std::vector<std::size_t> numbers;
  for (const std::size_t i : order) {
    const auto found =
        std::lower_bound(key.names.begin(), key.names.end(), unit_of(points[i], i, unit, form));
    numbers.push_back(static_cast<std::size_t>(found - key.names.begin()));
  }
  return numbers;
}

double quantile(const std::vector<double>& values, double share) {
  const double place = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  if (values[low] == values[high]) return values[low];  // infinities too
  return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

std::optional<Range> percentile_interval(std::vector<double> values, double confidence) {
  if (values.size() < 20) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Range{quantile(values, 0.5 * (1 - confidence)), quantile(values, 0.5 * (1 + confidence))};
}

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

void say_used(std::int64_t used, std::int64_t draws, std::vector<std::string>& warnings) {
  const double share =
      static_cast<double>(used) / static_cast<double>(std::max<std::int64_t>(draws, 1));
  if (draws == 0 || share >= 0.98) return;
  warnings.push_back(fmt::format(
      "{} of {} draws determine the coefficients; {}", used, draws,
      share < kShareNeeded ? "too few for an interval" : "the intervals are over those only"));
}

void summarize_draws(const Draws& draws, const BootstrapOptions& options, FitResult& result) {
  for (std::size_t j = 0; !draws.left_out.empty() && j < result.law.coefficients.size(); ++j) {
    double largest = 0;
    for (const auto& law : draws.left_out) {
      const double shift = law ? (*law)[j] - result.law.coefficients[j] : 0;
      if (std::abs(shift) > std::abs(largest)) largest = shift;
    }
    result.leave_one_out.push_back(largest);
  }
  if (draws.drawn.empty()) return;
  result.draws = static_cast<std::int64_t>(draws.drawn.size());
  result.draws_used = draws.used();
  say_used(result.draws_used, result.draws, result.identifiability.warnings);
  result.standard_errors.clear();
  result.standard_error_kind = "draws";
  result.intervals.clear();
  result.interval_kind = enum_name(options.interval);
  const bool enough = static_cast<double>(result.draws_used) >=
                      kShareNeeded * static_cast<double>(draws.drawn.size());
  for (std::size_t j = 0; j < result.law.coefficients.size(); ++j) {
    const double estimate = result.law.coefficients[j];
    std::vector<double> values, without;
    double mean = 0, squares = 0;
    for (const auto& law : draws.drawn) {
      if (!law) continue;
      values.push_back((*law)[j]);
      const double step = values.back() - mean;
      mean += step / static_cast<double>(values.size());
      squares += step * (values.back() - mean);
    }
    for (const auto& law : draws.left_out) {
      if (!law) continue;
      without.push_back((*law)[j]);
    }
    const bool several = enough && values.size() > 1;
    result.standard_errors.push_back(
        several ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : std::nan(""));
    if (!enough) {
      result.intervals.emplace_back();
    } else if (options.interval == Interval::kBca) {
      result.intervals.push_back(bca_interval(values, estimate, without, options.confidence));
    } else {
      result.intervals.push_back(percentile_interval(std::move(values), options.confidence));
    }
  }
}

std::vector<Draws> draw_together(const std::vector<const std::vector<Point>*>& points,
                                 const Form& form, const FitOptions& options,
                                 const BootstrapOptions& bootstrap, std::vector<FitResult*> results,
                                 const std::function<void(double done, double total)>& progress) {
  std::vector<Arm> arms;
  bool all = true;
  for (std::size_t a = 0; a < points.size(); ++a) {
    const auto start = std::chrono::steady_clock::now();
    const bool nothing = std::all_of(points[a]->begin(), points[a]->end(),
                                     [](const Point& point) { return point.weight == 0; });
    if (nothing) {
      *results[a] = fit(*points[a], form, options);
      all = false;
      continue;
    }
    arms.emplace_back(*points[a], form, options);
    *results[a] = finish_fit(arms.back().design, *points[a], options, arms.back().found);
    results[a]->seconds = seconds_since(start);
    all = all && results[a]->identifiable;
  }
  if (!all || (bootstrap.draws == 0 && !bootstrap.leave_one_out)) return {};
  std::set<std::string> names;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const auto own = unit_names(*points[a], arms[a].design.order, form, bootstrap.unit);
    names.insert(own.begin(), own.end());
  }
  const DrawKey key{bootstrap.unit, bootstrap.seed, {names.begin(), names.end()}};
  for (std::size_t a = 0; a < arms.size(); ++a) {
    arms[a].unit = unit_numbers(*points[a], arms[a].design.order, form, bootstrap.unit, key);
  }
  const std::size_t units = key.names.size(), shared = shared_units(arms, units);
  if (shared < units) {
    results.front()->identifiability.warnings.push_back(fmt::format(
        "{} of {} units of the bootstrap occur in one arm only: draws are paired over {}",
        units - shared, units, shared));
  }
  const auto count = static_cast<std::size_t>(bootstrap.draws);
  std::vector<Draws> draws(arms.size());
  for (Draws& one : draws) {
    one.key = key;
    one.drawn.resize(count);
    one.left_out.resize(units);
  }
  const Philox random = draw_generator(bootstrap.seed);
  std::atomic<std::size_t> done{0};
  std::mutex mutex;
  parallel_for(
      count,
      [&](std::size_t draw) {
        const auto counts = draw_counts(random, draw, units);
        for (std::size_t a = 0; a < arms.size(); ++a) {
          draws[a].drawn[draw] = draw_law(arms[a], counts, kDrawStarts);
        }
        const std::size_t now = ++done;
        if (progress && now % 50 == 0) {
          const std::lock_guard lock(mutex);
          progress(static_cast<double>(now), static_cast<double>(count));
        }
      },
      static_cast<unsigned>(bootstrap.threads));
  // Without one unit the optimum is near that of all: it is refined from there alone.
  parallel_for(
      units,
      [&](std::size_t unit) {
        std::vector<double> counts(units, 1.0);
        counts[unit] = 0;
        for (std::size_t a = 0; a < arms.size(); ++a) {
          draws[a].left_out[unit] = draw_law(arms[a], counts, 0);
        }
      },
      static_cast<unsigned>(bootstrap.threads));
  for (std::size_t a = 0; a < arms.size(); ++a) {
    summarize_draws(draws[a], bootstrap, *results[a]);
    if (bootstrap.draws > 0) results[a]->draw_values = draws[a];
  }
  return bootstrap.draws > 0 ? draws : std::vector<Draws>{};
}

FitResult bootstrap_fit(const std::vector<Point>& points, const Form& form,
                        const FitOptions& options, const BootstrapOptions& bootstrap) {
  const auto start = std::chrono::steady_clock::now();
  FitResult result;
  if (bootstrap.interval == Interval::kProfile) {
    result = fit(points, form, options);
    if (result.identifiable) {
      result.intervals = profile_intervals(points, form, options, bootstrap.confidence);
      result.interval_kind = "profile";
    }
  } else {
    draw_together({&points}, form, options, bootstrap, {&result});
  }
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace smelt::law
