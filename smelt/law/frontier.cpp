#include "smelt/law/frontier.h"

#include <cmath>

#include "smelt/core/csv.h"

namespace smelt::law {
namespace {

Separable separable(const Law& law, double sparsity) {
  return law.form->separable(law.coefficients, sparsity);
}

bool usable(const Separable& s) {
  const double logs = std::log(s.A) + std::log(s.K) + std::log(s.a) + std::log(s.c);
  return std::isfinite(logs) && std::isfinite(s.E);
}

Separable checked(const Law& law, double sparsity) {
  const Separable s = separable(law, sparsity);
  if (!usable(s)) {
    throw Error("law",
                "the law has no compute-optimal frontier: a term in size or tokens is absent");
  }
  return s;
}

}  // namespace

bool has_frontier(const Law& law, double sparsity) {
  return usable(separable(law, sparsity));
}

Frontier frontier(const Law& law, double compute, double sparsity) {
  if (!(compute > 0) || !std::isfinite(compute)) {
    throw Error("law", "compute: expected a finite number above 0, got " + number_text(compute));
  }
  const Separable s = checked(law, sparsity);
  // In logarithms: C^c alone overflows nothing, but amplitudes of steep fits may.
  const double log_compute = std::log(compute);
  const double log_size =
      (std::log(s.a * s.A) + s.c * log_compute - std::log(s.c) - std::log(s.K)) / (s.a + s.c);
  const double log_tokens = log_compute - log_size;
  Frontier best;
  best.compute = compute;
  best.flops_per_token = std::exp(log_size);
  best.tokens = std::exp(log_tokens);
  best.loss =
      s.E + std::exp(std::log(s.A) - s.a * log_size) + std::exp(std::log(s.K) - s.c * log_tokens);
  best.gamma = s.a * s.c / (s.a + s.c);
  best.tokens_per_parameter = 6 * std::exp(log_tokens - log_size);
  return best;
}

std::optional<double> compute_for_loss(const Law& law, double loss, double sparsity) {
  const Separable s = checked(law, sparsity);
  if (!(loss > s.E)) return std::nullopt;
  // On the frontier L* - E falls as C^-gamma exactly, so one known point gives all.
  const Frontier one = frontier(law, 1e20, sparsity);
  const double compute =
      1e20 * std::exp((std::log(one.loss - s.E) - std::log(loss - s.E)) / one.gamma);
  if (!std::isfinite(compute)) return std::nullopt;
  return compute;
}

ExactGain ce_gain(const Law& reference, const Law& target, double compute, double sparsity) {
  ExactGain result;
  result.target = frontier(target, compute, sparsity);
  result.reference = frontier(reference, compute, sparsity);
  result.loss_gap = result.reference.loss - result.target.loss;
  result.reference_compute = compute_for_loss(reference, result.target.loss, sparsity);
  if (result.reference_compute) result.gain = 1 - compute / *result.reference_compute;
  return result;
}

}  // namespace smelt::law
