// Fits both arms, bootstraps them in pairs, and says how much compute the target saves, with
// intervals (paper section 6, "CE Gain").
//
//   GainOptions options;  options.compute = {1e18, 1e19};  options.sparsity = {0.85};
//   GainResult result = gain(table.points("baseline"), table.points("smelt"), find_form("smelt"),
//   options);
//
// A draw resamples cells for both arms together and searches both laws anew (bootstrap.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/law/bootstrap.h"
#include "smelt/law/frontier.h"

namespace smelt::law {

/// Losses on part of the validation data, row by row of the arms' points.
struct Subset {
  std::string name;
  std::vector<double> reference, target;
};

/// Four subsets out of many: in each pair of rows (same cell, tokens and seed) the subsets are
/// ranked by the reference's loss and averaged in four parts as equal as can be, the larger ones
/// first. Throws Error with fewer than four subsets, and for a row without a partner.
std::vector<Subset> quartiles(const std::vector<Subset>& subsets,
                              const std::vector<Point>& reference,
                              const std::vector<Point>& target);

struct GainOptions {
  std::vector<double> compute;   // FLOPs; empty: three points inside the data
  std::vector<double> sparsity;  // empty: the sparsities in the data
  FitOptions fit;
  BootstrapOptions bootstrap;
  /// Target's seconds per FLOP over the reference's, as steps of matched cells were timed.
  std::optional<double> time_ratio;
  std::vector<Subset> subsets;
  std::function<void(double done, double total)> progress;  // may be empty
};

struct GainPoint {
  double compute = 0;
  double sparsity = 0;
  std::optional<double> gain;                         // a fraction; nothing where it is not defined
  std::optional<Range> interval;                      // of paired draws
  std::optional<double> target_loss, reference_loss;  // on each frontier, at `compute`
  std::optional<Range> target_loss_interval, reference_loss_interval;
  std::optional<double> reference_compute;  // at which the reference reaches target_loss
  std::optional<Range> reference_compute_interval;
  /// The same pair of losses from the reference's side: the compute at which the target reaches
  /// reference_loss, and 1 − that over `compute`.
  std::optional<double> target_compute, reverse_gain;
  std::optional<Range> target_compute_interval, reverse_gain_interval;
  std::optional<double> tpp_reference;  // tokens per parameter on each frontier, at `compute`
  std::optional<double> tpp_target;
  std::optional<Range> tpp_reference_interval, tpp_target_interval;
  std::optional<double> size_reference, size_target;  // F*, FLOPs per token
  std::optional<Range> size_reference_interval, size_target_interval;
  std::optional<double> tokens_reference, tokens_target;  // D*
  std::optional<Range> tokens_reference_interval, tokens_target_interval;
  std::optional<double> loss_gap;  // reference - target at equal compute, nats
  std::optional<Range> loss_gap_interval;
  std::optional<double> wall_clock_gain;  // 1 − (1 − gain) · time ratio
  std::optional<Range> wall_clock_gain_interval;
  bool extrapolated = false;
  std::string words;  // why undefined, or what to mind; empty = nothing to say
};

struct SubsetGain {
  std::string name;
  std::vector<GainPoint> points;  // as those of the whole
  std::string words;              // why there are none
};

/// The measured numbers of a point by name, with their intervals.
struct GainQuantity {
  const char* name;
  std::optional<double> GainPoint::* value;
  std::optional<Range> GainPoint::* interval;
};
std::span<const GainQuantity> gain_quantities();

struct GainResult {
  std::optional<FitResult> reference, target;  // absent when laws came from files
  std::vector<GainPoint> points;
  std::optional<double> time_ratio;
  /// Per subset: exponents are those of the whole, E and the amplitudes fitted anew (paper section
  /// 6).
  std::vector<SubsetGain> subsets;
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

/// Two laws with numbers; intervals where both come with draws over the same units and seed.
GainResult gain(const Law& reference, const Law& target, const GainOptions& options,
                const Draws* reference_draws = nullptr, const Draws* target_draws = nullptr);

/// Keys of the schema "smelt.gain/1".
Json to_json(const GainResult& result);

}  // namespace smelt::law
