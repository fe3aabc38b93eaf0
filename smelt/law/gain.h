// Fits both arms, bootstraps them in pairs, and says how much compute the target saves, with
// intervals (paper section 6, "CE Gain").
//
//   GainOptions options;  options.compute = {1e18, 1e19};  options.sparsity = {0.85};
//   GainResult result = gain(table.points("baseline"), table.points("smelt"), find_form("smelt"),
//   options);
//
// A draw resamples cells for both arms together and searches both laws anew; draws come from a
// counter-based generator, so that a seed gives the same intervals on any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/law/fit.h"
#include "smelt/law/frontier.h"

namespace smelt::law {

/// What a draw resamples.  Runs are a cell and a seed; compute is in bins of a factor of two.
enum class Unit { kCell, kRun, kPoint, kSize, kCompute };
enum class Interval { kPercentile, kBca };

}  // namespace smelt::law

template <>
struct smelt::EnumNames<smelt::law::Unit> {
  static constexpr std::pair<smelt::law::Unit, const char*> kNames[] = {
      {smelt::law::Unit::kCell, "cell"},
      {smelt::law::Unit::kRun, "run"},
      {smelt::law::Unit::kPoint, "point"},
      {smelt::law::Unit::kSize, "size"},
      {smelt::law::Unit::kCompute, "compute"}};
};
template <>
struct smelt::EnumNames<smelt::law::Interval> {
  static constexpr std::pair<smelt::law::Interval, const char*> kNames[] = {
      {smelt::law::Interval::kPercentile, "percentile"}, {smelt::law::Interval::kBca, "bca"}};
};

namespace smelt::law {

struct BootstrapOptions {
  std::int64_t draws = 2000;
  std::uint64_t seed = 0;
  Unit unit = Unit::kCell;
  Interval interval = Interval::kPercentile;  // of a fit's coefficients
  double confidence = 0.95;
  std::int64_t threads = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"draws", "bootstrap draws; 0 = no intervals", "", 0, 1e6}, self.draws);
    visit(Field{"seed", "seed of the draws", ""}, self.seed);
    visit(Field{"unit", "what a draw resamples"}, self.unit);
    visit(Field{"interval", "percentile, or bias-corrected and accelerated (of coefficients)"},
          self.interval);
    visit(Field{"confidence", "coverage of the intervals", "", 0.5, 0.999}, self.confidence);
    visit(Field{"threads", "0 = all cores; the outcome does not depend on it", "", 0, 4096},
          self.threads);
  }
};

struct GainOptions {
  std::vector<double> compute;   // FLOPs; empty: three points inside the data
  std::vector<double> sparsity;  // empty: the sparsities in the data
  FitOptions fit;
  BootstrapOptions bootstrap;
  std::function<void(double done, double total)> progress;  // may be empty
};

struct GainPoint {
  double compute = 0;
  double sparsity = 0;
  std::optional<double> gain;     // a fraction; nothing where it is not defined
  std::optional<Range> interval;  // percentile, of paired draws
  std::optional<double> target_loss;
  std::optional<double> reference_compute;
  std::optional<double> tpp_reference;  // tokens per parameter on each frontier, at `compute`
  std::optional<double> tpp_target;
  std::optional<Range> tpp_reference_interval, tpp_target_interval;
  std::optional<double> loss_gap;  // reference - target at equal compute, nats
  std::optional<Range> loss_gap_interval;
  bool extrapolated = false;
  std::string words;  // why undefined, or what to mind; empty = nothing to say
};

struct GainResult {
  std::optional<FitResult> reference, target;  // absent when laws came from files
  std::vector<GainPoint> points;
  bool identifiable = false;          // both laws are
  std::vector<std::string> warnings;  // words for the reader, most important first
  std::int64_t draws = 0;             // done
  std::int64_t draws_used = 0;        // in which both laws could be identified
  double seconds = 0;
};

/// Both arms fitted, gain at every (compute, sparsity).  Where a law is not identifiable the gains
/// are left undefined, no draw is made and `warnings` says why.
GainResult gain(const std::vector<Point>& reference, const std::vector<Point>& target,
                const Form& form, const GainOptions& options);

/// Two laws with numbers, no intervals.
GainResult gain(const Law& reference, const Law& target, const GainOptions& options);

/// fit() with draws: intervals and standard errors of the coefficients.
FitResult bootstrap_fit(const std::vector<Point>& points, const Form& form,
                        const FitOptions& options, const BootstrapOptions& bootstrap);

/// Keys of the schema "smelt.gain/1".
Json to_json(const GainResult& result);

}  // namespace smelt::law
