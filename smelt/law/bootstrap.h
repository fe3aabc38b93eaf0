// Laws drawn again and again from resampled units, and intervals out of the draws.
//
//   FitResult result = bootstrap_fit(points, form, {}, {.draws = 2000, .unit = Unit::kCell});
//   result.intervals;
//
// Every draw searches its law anew from a grid of starts and from the full data's optimum.  Draws
// come from a counter-based generator, so that a seed gives the same ones on any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/philox.h"
#include "smelt/law/fit.h"

namespace smelt::law {

/// Profile: where the objective, a coefficient held, rises by what its scatter allows; no draws.
enum class Interval { kPercentile, kBca, kProfile };

}  // namespace smelt::law

template <>
struct smelt::EnumNames<smelt::law::Interval> {
  static constexpr std::pair<smelt::law::Interval, const char*> kNames[] = {
      {smelt::law::Interval::kPercentile, "percentile"},
      {smelt::law::Interval::kBca, "bca"},
      {smelt::law::Interval::kProfile, "profile"}};
};

namespace smelt::law {

struct BootstrapOptions {
  std::int64_t draws = 2000;
  std::uint64_t seed = 0;
  Unit unit = Unit::kCell;
  Interval interval = Interval::kPercentile;
  double confidence = 0.95;
  bool leave_one_out = false;
  std::int64_t threads = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"draws", "bootstrap draws; 0 = no intervals", "", 0, 1e6}, self.draws);
    visit(Field{"seed", "seed of the draws", ""}, self.seed);
    visit(Field{"unit", "what a draw resamples"}, self.unit);
    visit(Field{"interval",
                "percentile, bias-corrected and accelerated, or (of coefficients, without draws) "
                "profile"},
          self.interval);
    visit(Field{"confidence", "coverage of the intervals", "", 0.5, 0.999}, self.confidence);
    visit(Field{"leave_one_out", "how far coefficients move without one unit (draws tell it too)"},
          self.leave_one_out);
    visit(Field{"threads", "0 = all cores; the outcome does not depend on it", "", 0, 4096},
          self.threads);
  }
};

/// fit() with draws: intervals and standard errors of the coefficients, and how far each moves
/// without one unit.
FitResult bootstrap_fit(const std::vector<Point>& points, const Form& form,
                        const FitOptions& options, const BootstrapOptions& bootstrap);

/// Several arms drawn together: draw d takes the same units from each.  Their points, in the order
/// of `results`, which take the fits.  `progress` may be empty.
std::vector<Draws> draw_together(
    const std::vector<const std::vector<Point>*>& points, const Form& form,
    const FitOptions& options, const BootstrapOptions& bootstrap, std::vector<FitResult*> results,
    const std::function<void(double done, double total)>& progress = {});

/// The generator of draws, and how often draw `draw` takes each of `units` units.
Philox draw_generator(std::uint64_t seed);
std::vector<double> draw_counts(const Philox& random, std::size_t draw, std::size_t units);

/// The names of the units of points[order[i]], in order and so independent of the rows'.
std::vector<std::string> unit_names(const std::vector<Point>& points,
                                    const std::vector<std::size_t>& order, const Form& form,
                                    Unit unit);

/// The place in `key.names` of the unit of points[order[i]], for every i.
std::vector<std::size_t> unit_numbers(const std::vector<Point>& points,
                                      const std::vector<std::size_t>& order, const Form& form,
                                      Unit unit, const DrawKey& key);

/// Linear interpolation between order statistics (the usual definition, "type 7"); `values` in
/// order.
double quantile(const std::vector<double>& values, double share);

/// Between two quantiles of the draws; nothing with fewer than 20.
std::optional<Range> percentile_interval(std::vector<double> values, double confidence);

/// Bias-corrected and accelerated (Efron 1987): the percentiles are shifted by how far the draws
/// lie from the estimate and by the skewness that leaving out one unit at a time shows.
std::optional<Range> bca_interval(const std::vector<double>& draws, double estimate,
                                  const std::vector<double>& left_out, double confidence);

/// Spread and intervals of every coefficient, and its largest shift without a unit, into a result.
void summarize_draws(const Draws& draws, const BootstrapOptions& options, FitResult& result);

/// Share of the draws that must be used for an interval to mean anything.
inline constexpr double kShareNeeded = 0.5;

/// Says when draws did not determine the coefficients.
void say_used(std::int64_t used, std::int64_t draws, std::vector<std::string>& warnings);

}  // namespace smelt::law
