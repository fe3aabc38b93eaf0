// The compute-optimal frontier of a law, and the compute one law saves against another at equal
// loss (paper section 6).
//
//   Frontier best = frontier(law, 1e21, 0.95);           // F*, D*, L*, tokens per parameter
//   ExactGain gain = ce_gain(reference, target, 1e21, 0.95);
#pragma once

#include <optional>
#include <string>

#include "smelt/law/form.h"

namespace smelt::law {

/// min L at C = F D:  F* = (a A (1-S)^b C^c / (c K))^(1/(a+c)),  D* = C / F*,  L* = E + const
/// C^-gamma.
struct Frontier {
  double compute = 0;
  double flops_per_token = 0;       // F*
  double tokens = 0;                // D*
  double loss = 0;                  // L*
  double gamma = 0;                 // a c / (a + c)
  double tokens_per_parameter = 0;  // D* / (F* / 6)
};

/// Throws Error when a term is absent (A, K, a or c not above 0): such a law has no frontier.
Frontier frontier(const Law& law, double compute, double sparsity);
bool has_frontier(const Law& law, double sparsity);

/// Compute at which the frontier reaches `loss`; nothing when `loss` is at or below the floor E.
std::optional<double> compute_for_loss(const Law& law, double loss, double sparsity);

/// CE Gain = 1 - C_target / C_reference at equal frontier loss.
struct ExactGain {
  std::optional<double> gain;  // a fraction; nothing when the reference never gets there
  std::optional<double> reference_compute;  // C_reference
  /// The same from the reference's side: the compute at which the target reaches the loss that the
  /// reference has at `compute`, and 1 − that over `compute`.
  std::optional<double> target_compute, reverse_gain;
  Frontier target;      // at C_target
  Frontier reference;   // at C_target too: its tokens per parameter
  double loss_gap = 0;  // reference - target frontier loss at C_target, nats
};
ExactGain ce_gain(const Law& reference, const Law& target, double compute, double sparsity);

}  // namespace smelt::law
