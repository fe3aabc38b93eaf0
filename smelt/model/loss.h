// Token losses and the router's auxiliary losses.
//
//   nll_t = logsumexp(logits_t) - logits_t[target_t],   loss = Σ nll / number of unmasked targets
//   load balance of one executed layer = E · Σ_e f_e P_e   (1 in perfect balance; f has no
//   gradient) z-loss of one executed layer = mean over positions of logsumexp(router logits)²
//   objective = loss + lb_coef · mean(load balance) + z_coef · mean(z-loss), means over executed
//   layers
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

#include "smelt/model/decoder.h"

namespace smelt::model {

/// hidden [N, H] (Forward::hidden), targets [N] int64 -> Σ of the unmasked targets' NLL in nats,
/// fp64 scalar.  `token_nll`, if given, receives each position's, [N], 0 where masked.  The head is
/// applied to unmasked rows only, a chunk of rows at a time; the logits of the whole batch never
/// exist at once.  Differentiable, once.  A target outside [0, V) other than kMasked throws Error.
at::Tensor sum_nll(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& targets,
                   at::Tensor* token_nll = nullptr);

/// The same per token, [N], exactly 0 where masked; no gradient.
at::Tensor token_nll(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& targets);

/// How often each expert was chosen: experts [N, k] -> [E] int64, on the CPU; sums to N · k.
at::Tensor expert_counts(const at::Tensor& experts, std::int64_t num_experts);

/// E · Σ_e f_e P_e with f = counts / Σ counts (counts [E], integers, of any group of tokens: a
/// micro-batch, the step so far, all ranks) and P = mean over `probabilities` [N, E].  Scalar;
/// differentiable in P.
at::Tensor load_balance_loss(const at::Tensor& counts, const at::Tensor& probabilities);

/// The mean over rows of each row's own E · Σ_e f_e P_e: the same for any split into micro-batches
/// of rows.
at::Tensor load_balance_loss_per_row(const Routing& routing, std::int64_t rows);

/// mean(logsumexp²); scalar.
at::Tensor z_loss(const at::Tensor& logsumexp);

struct ObjectiveOptions {
  double load_balance = 0;  // coefficient of the mean load-balance loss over executed layers
  double z_loss = 0;        // coefficient of the mean z-loss over executed layers
};

/// The losses of one batch taken as one group over all its positions (masked targets included in
/// the auxiliary ones).
struct Losses {
  at::Tensor loss;                       // scalar; 0 when the batch has no target
  std::vector<at::Tensor> load_balance;  // scalar per executed layer
  std::vector<at::Tensor> z_loss;        // scalar per executed layer
  at::Tensor objective;                  // scalar
};

Losses losses(const Forward& out, const at::Tensor& sum_nll, std::int64_t target_count,
              const ObjectiveOptions& options = {});

}  // namespace smelt::model
