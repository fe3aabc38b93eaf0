#include "smelt/law/frontier.h"

#include <cmath>

#include "smelt/core/csv.h"

namespace smelt::law {
namespace {

bool usable(const Optimum& best) {
  return std::isfinite(best.E) && std::isfinite(best.excess) && best.excess > 0 &&
         std::isfinite(best.log_flops_per_token) && best.gamma > 0;
}

}  // namespace

bool has_frontier(const Law& law, double sparsity) {
  return law.form->optimum && usable(law.form->optimum(law.coefficients, sparsity, 40));
}

Frontier frontier(const Law& law, double compute, double sparsity) {
  if (!(compute > 0) || !std::isfinite(compute)) {
    throw Error("law", "compute: expected a finite number above 0, got " + number_text(compute));
  }
  if (!has_frontier(law, sparsity)) {
    throw Error("law",
                law.form->optimum
                    ? "the law has no compute-optimal frontier: a term in size or tokens is absent"
                    : "form " + law.form->name + " has no compute-optimal frontier");
  }
  const double log_compute = std::log(compute);
  const Optimum optimum = law.form->optimum(law.coefficients, sparsity, log_compute);
  const double log_tokens = log_compute - optimum.log_flops_per_token;
  Frontier best;
  best.compute = compute;
  best.flops_per_token = std::exp(optimum.log_flops_per_token);
  best.tokens = std::exp(log_tokens);
  best.loss = optimum.E + optimum.excess;
  best.gamma = optimum.gamma;
  best.tokens_per_parameter = 6 * std::exp(log_tokens - optimum.log_flops_per_token);
  return best;
}

std::optional<double> compute_for_loss(const Law& law, double loss, double sparsity) {
  if (!has_frontier(law, sparsity)) frontier(law, 1, sparsity);  // throws
  // The excess falls as C^-gamma exactly, so one known point gives all.
  constexpr double kLogCompute = 46;  // near 1e20
  const Optimum one = law.form->optimum(law.coefficients, sparsity, kLogCompute);
  if (!(loss > one.E)) return std::nullopt;
  const double compute =
      std::exp(kLogCompute + (std::log(one.excess) - std::log(loss - one.E)) / one.gamma);
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
  result.target_compute = compute_for_loss(target, result.reference.loss, sparsity);
  if (result.target_compute) result.reverse_gain = 1 - *result.target_compute / compute;
  return result;
}

}  // namespace smelt::law
