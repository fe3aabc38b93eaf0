// The loss gap of two arms at equal compute, with its spread over seeds: what can be said on a grid
// too small for a scaling law.
//
//   LossGap gap = loss_gap(table.points("baseline"), table.points("smelt"));
//   // gap.mean > 0: the target has the lower loss
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/law/endpoints.h"

namespace smelt::law {

/// One matched pair of endpoints: same cell, tokens and seed.
struct PairedLoss {
  std::string cell;
  double tokens = 0;
  std::int64_t seed = 0;
  double reference = 0, target = 0;  // nats
  double flops_ratio = 1;            // target FLOPs per token / reference
  double gap() const { return reference - target; }
};

struct SeedGap {
  std::int64_t seed = 0;
  double gap = 0;  // mean over the pairs of this seed
};

struct LossGap {
  double mean = 0;                       // reference - target, nats: mean of `per_seed`
  std::vector<SeedGap> per_seed;         // over the (cell, tokens) that every seed has
  std::optional<double> standard_error;  // over seeds; nothing with one seed
  std::optional<Range> interval;         // Student t, seeds - 1 degrees of freedom
  bool within_noise = true;              // the interval holds 0, or there is none
  double worst_flops_mismatch = 0;       // largest |flops_ratio - 1|
  std::vector<PairedLoss> pairs;         // all that matched
  std::vector<std::string> warnings;     // rows without a partner, unbalanced seeds
  std::string words;                     // one sentence
};

/// Pairs rows by (cell, tokens, seed).  Throws Error when nothing pairs or a key occurs twice in an
/// arm.
LossGap loss_gap(const std::vector<Point>& reference, const std::vector<Point>& target,
                 double confidence = 0.95);
/// The same over given pairs (one domain's losses, say).
LossGap loss_gap(std::vector<PairedLoss> pairs, double confidence = 0.95);

Json to_json(const LossGap& gap);

/// Two-sided Student t: t with P(|T| <= t) = confidence.
double student_t(int degrees_of_freedom, double confidence);

}  // namespace smelt::law
