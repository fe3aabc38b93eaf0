// What is kept of millions of candidates of a match.
//
//   Shortlist found(options, baseline.num_key_value_heads);
//   found.add(candidate);   // … many times
//   found.nearest_narrow;   // inside every tolerance; nothing when none is
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "smelt/budget/match.h"

namespace smelt::budget {

/// Plain numbers, no copies of configs.  In latent attention `head_dim` is the width of the cached
/// vector (kv_lora_rank); in a dense model `expert_width` is that of its feed-forward.
struct Candidate {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, experts = 0, expert_width = 0;
  Mismatch off;
  double distance = 0;  // sum of squared logs of the proportions' ratios to the Baseline's

  friend bool operator==(const Candidate& a, const Candidate& b) {
    return a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads &&
           a.head_dim == b.head_dim && a.experts == b.experts && a.expert_width == b.expert_width;
  }
};

/// What is worth keeping of all candidates.
class Shortlist {
 public:
  Shortlist(const MatchOptions& options, std::int64_t base_kv_heads);

  void add(const Candidate& c);

  /// The three mismatches in units of tolerance, worst first; at most 1 is inside.
  std::array<double, 3> sorted_units(const Candidate& c, double kv_tolerance) const;
  double units(const Candidate& c, double kv_tolerance) const {
    return sorted_units(c, kv_tolerance)[0];
  }
  /// Of the KV cache when nothing fits, and for other numbers of KV heads.
  double wide_tolerance() const { return wide_; }

  /// Nearest to the Baseline's proportions inside the tolerances: with the Baseline's KV heads and
  /// the narrow tolerance of the KV cache, else the wide one.
  std::optional<Candidate> nearest_narrow, nearest_wide;
  /// Smallest worst mismatch; of equal ones the smaller next mismatch outside the tolerances, then
  /// the nearer one.
  std::optional<Candidate> least_bad;
  std::optional<Candidate> multiple_of_8;  // the same among head sizes 8, 16, 24, …
  /// FLOPs, parameters or KV cache given up, the other two inside: the smallest mismatch of it (in
  /// whole percent), then the nearest.
  std::array<std::optional<Candidate>, 3> giving_up_one;
  std::vector<Candidate> near;  // within twice the tolerances

 private:
  const MatchOptions& options_;
  std::int64_t base_kv_heads_;
  double wide_;
};

}  // namespace smelt::budget
