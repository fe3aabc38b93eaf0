// What a study can resolve, before anything runs: the smallest loss gap, and with it the smallest
// compute saving, that its seeds would show.
//
//   Noise noise = noise_of(law::read_endpoints("endpoints.csv"));
//   double gap = detectable_gap(noise.gap_deviation, cells, seeds);
//   gain_of_gap(gap, noise.loss_per_efold);       // as a share of compute
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "smelt/law/endpoints.h"

namespace smelt::plan {

/// Spread between seeds and what more tokens are worth, from endpoints there already are.
struct Noise {
  /// Standard deviation over seeds of the paired gap (reference − target) of one cell and horizon,
  /// nats; of a single arm's loss times √2 where nothing pairs.
  std::optional<double> gap_deviation;
  std::size_t replicas = 0;  // degrees of freedom behind it
  /// Nats by which the reference's loss falls when tokens grow by e, the cell held fixed.
  std::optional<double> loss_per_efold;
  std::string deviation_words, worth_words;  // where both come from, or what is missing
};
Noise noise_of(const law::Endpoints& endpoints);

/// The mean gap over all cells that a two-sided t test over seeds finds with probability 0.8 at
/// level 0.05: (t(0.975) + t(0.8)) · deviation / √(cells · seeds), seeds − 1 degrees of freedom.
/// Nothing with one seed.
std::optional<double> detectable_gap(double gap_deviation, std::size_t cells, std::size_t seeds);

/// The compute that a gap is worth: 1 − exp(−gap / loss_per_efold), and back.
double gain_of_gap(double gap, double loss_per_efold);
double gap_of_gain(double gain, double loss_per_efold);

/// The fewest seeds (2 to 1000) that resolve a gap; nothing when none do.
std::optional<std::size_t> seeds_for_gap(double gap, double gap_deviation, std::size_t cells);

}  // namespace smelt::plan
