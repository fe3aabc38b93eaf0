#include "smelt/train/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "smelt/model/loss.h"

namespace smelt::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the step's micro-batches have added up to.
struct Sums {
  double nll = 0;
  double z = 0;            // summed over executed layers, weighted by the share of positions
  double row_balance = 0;  // the same, for the loss per row
  at::Tensor
      probabilities;  // [executed layers, E] double: P of the step so far, weighted by the share
  at::Tensor counts;  // [executed layers, E] int64
};

/// Adds one micro-batch's router statistics; returns the auxiliary part of the objective (undefined
/// when it has none).
at::Tensor auxiliary_loss(const model::Forward& out, std::int64_t rows, double share,
                          const RouterOptions& router, Sums& sums) {
  const auto layers = static_cast<std::int64_t>(out.routing.size());
  at::Tensor balance, z;
  const auto add = [](at::Tensor& sum, const at::Tensor& term) {
    sum = sum.defined() ? sum + term : term;
  };
  for (std::int64_t e = 0; e < layers; ++e) {
    const model::Routing& routing = out.routing[static_cast<std::size_t>(e)];
    const at::Tensor mean = routing.probabilities.mean(0);  // [E]
    at::Tensor counts = sums.counts[e];
    counts += model::expert_counts(routing.experts, counts.size(0));
    sums.probabilities[e].add_(mean.detach().to(at::kDouble), share);
    if (router.balance == Balance::kGlobal) {
      add(balance, model::load_balance_loss(counts.clone(), mean.unsqueeze(0)));
    } else if (router.balance == Balance::kRow) {
      add(balance, model::load_balance_loss_per_row(routing, rows));
    }
    add(z, model::z_loss(routing.logsumexp));
  }
  sums.z += share * z.item<double>();
  if (router.balance == Balance::kRow) sums.row_balance += share * balance.item<double>();
  const double per_layer = share / static_cast<double>(layers);
  at::Tensor objective;
  if (balance.defined() && router.load_balance != 0) {
    add(objective, balance * (router.load_balance * per_layer));
  }
  if (router.z_loss != 0) add(objective, z * (router.z_loss * per_layer));
  return objective;
}

StepLosses step_losses(const Sums& sums, std::int64_t targets, const RouterOptions& router) {
  torch::NoGradGuard no_grad;
  const std::int64_t layers = sums.counts.size(0);
  StepLosses losses;
  losses.loss = sums.nll / static_cast<double>(targets);
  losses.z_loss = sums.z / static_cast<double>(layers);
  if (router.balance == Balance::kRow) {
    losses.load_balance = sums.row_balance / static_cast<double>(layers);
  } else {
    for (std::int64_t e = 0; e < layers; ++e) {
      losses.load_balance +=
          model::load_balance_loss(sums.counts[e], sums.probabilities[e].unsqueeze(0))
              .item<double>() /
          static_cast<double>(layers);
    }
  }
  const double balance_coefficient = router.balance == Balance::kOff ? 0 : router.load_balance;
  losses.objective =
      losses.loss + balance_coefficient * losses.load_balance + router.z_loss * losses.z_loss;
  losses.counts = sums.counts;
  return losses;
}

StepLosses failed(const at::Tensor& counts, const std::string& why) {
  StepLosses losses;
  losses.loss = losses.objective = losses.load_balance = losses.z_loss = std::nan("");
  losses.counts = counts;
  losses.failure = why;
  return losses;
}

}  // namespace

std::optional<StepLosses> accumulate_gradients(const model::Decoder& decoder,
                                               const std::vector<model::Batch>& micro_batches,
                                               const RouterOptions& router,
                                               const std::function<bool()>& stop) {
  const auto layers = static_cast<std::int64_t>(decoder.executed_layers());
  const std::int64_t experts = decoder.config.num_experts;
  std::int64_t targets = 0, positions = 0;
  for (const model::Batch& batch : micro_batches) {
    targets += batch.target_count;
    positions += batch.size();
  }
  if (targets == 0)
    throw Error("train", "a step without a single target: every piece is one token long");
  Sums sums;
  sums.counts = at::zeros({layers, experts}, at::kLong);
  sums.probabilities = at::zeros({layers, experts}, at::kDouble);
  double forward_seconds = 0, backward_seconds = 0;
  for (const model::Batch& batch : micro_batches) {
    if (stop && stop()) return std::nullopt;
    const auto start = Clock::now();
    const double share = static_cast<double>(batch.size()) / static_cast<double>(positions);
    model::Forward out;
    try {
      out = model::forward(decoder, batch);
    } catch (const Error&
                 error) {  // activations that are not finite: a matter of the run, not of its input
      return failed(sums.counts, error.what());
    }
    const at::Tensor nll = model::sum_nll(decoder, out.hidden, batch.targets);
    sums.nll += nll.item<double>();
    at::Tensor objective = nll / static_cast<double>(targets);
    const at::Tensor auxiliary = auxiliary_loss(out, batch.rows, share, router, sums);
    if (auxiliary.defined()) objective = objective + auxiliary;
    forward_seconds += seconds_since(start);
    const auto backward_start = Clock::now();
    objective.backward();
    backward_seconds += seconds_since(backward_start);
  }
  StepLosses losses = step_losses(sums, targets, router);
  losses.forward_seconds = forward_seconds;
  losses.backward_seconds = backward_seconds;
  return losses;
}

std::vector<RouterLoad> router_loads(const model::Decoder& decoder, const at::Tensor& counts) {
  const std::int64_t experts = counts.size(1);
  std::vector<RouterLoad> loads;
  for (std::size_t e = 0; e < decoder.executed_layers(); ++e) {
    const auto* count = counts[static_cast<std::int64_t>(e)].const_data_ptr<std::int64_t>();
    RouterLoad load{decoder.schedule[e].layer + 1, decoder.schedule[e].visit};
    double total = 0;
    for (std::int64_t x = 0; x < experts; ++x) total += static_cast<double>(count[x]);
    for (std::int64_t x = 0; x < experts; ++x) {
      const double f = total > 0 ? static_cast<double>(count[x]) / total : 0;
      load.max_load = std::max(load.max_load, f * static_cast<double>(experts));
      if (f > 0) load.entropy -= f * std::log(f);
      if (count[x] == 0) ++load.unused;
    }
    load.entropy = experts > 1 ? load.entropy / std::log(static_cast<double>(experts)) : 1;
    loads.push_back(load);
  }
  return loads;
}

Json to_json(const std::vector<RouterLoad>& loads) {
  Json json = Json::array();
  for (const RouterLoad& load : loads) {
    json.push_back({{"layer", load.layer},
                    {"visit", load.visit},
                    {"max_load", load.max_load},
                    {"entropy", load.entropy},
                    {"unused", load.unused}});
  }
  return json;
}

}  // namespace smelt::train
