#include "smelt/train/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <span>

#include "smelt/model/loss.h"

namespace smelt::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Executed layers whose load is balanced as one: each by itself, or all visits of a layer.
using Groups = std::vector<std::vector<std::size_t>>;

Groups balance_groups(const model::Decoder& decoder, bool pool_visits) {
  Groups groups;
  std::map<std::int64_t, std::size_t> group_of;  // physical layer → group
  for (std::size_t e = 0; e < decoder.executed_layers(); ++e) {
    const auto [found, added] = group_of.try_emplace(decoder.schedule[e].layer, groups.size());
    if (added || !pool_visits) {
      groups.push_back({e});
    } else {
      groups[found->second].push_back(e);
    }
  }
  return groups;
}

/// What the step's micro-batches have added up to, of this rank (counts: of all).
struct Sums {
  Sums(std::int64_t layers, std::int64_t experts, std::size_t domains)
      : probabilities(at::zeros({layers, experts}, at::kDouble)),
        counts(at::zeros({layers, experts}, at::kLong)),
        domain_nll(domains),
        domain_targets(domains) {}

  double nll = 0;
  double z = 0;              // summed over executed layers, weighted by the share of positions
  double row_balance = 0;    // the same, for the loss per row
  at::Tensor probabilities;  // [executed layers, E] double: P of the step so far, by share
  at::Tensor counts;         // [executed layers, E] int64
  std::vector<double> domain_nll;
  std::vector<double> domain_targets;
};

/// The executed layers' routing of one group as if it were one layer's, visit behind visit in each
/// row.
model::Routing pooled(const std::vector<model::Routing>& routing,
                      const std::vector<std::size_t>& group, std::int64_t rows) {
  if (group.size() == 1) return routing[group[0]];
  std::vector<at::Tensor> probabilities, experts;
  for (const std::size_t e : group) {
    const model::Routing& one = routing[e];
    probabilities.push_back(one.probabilities.view({rows, -1, one.probabilities.size(1)}));
    experts.push_back(one.experts.view({rows, -1, one.experts.size(1)}));
  }
  return {at::cat(probabilities, 1).flatten(0, 1), at::cat(experts, 1).flatten(0, 1), {}};
}

/// Adds this micro-batch's choices on every rank to `counts`; false when the forward pass failed on
/// one of them.
bool add_counts(const model::Forward& out, bool failed_here, at::Tensor& counts,
                Collectives& ranks) {
  at::Tensor batch = at::zeros_like(counts);
  for (std::size_t e = 0; e < out.routing.size(); ++e) {
    batch[static_cast<std::int64_t>(e)] =
        model::expert_counts(out.routing[e].experts, counts.size(1));
  }
  auto* data = batch.mutable_data_ptr<std::int64_t>();
  std::vector<std::int64_t> values(data, data + batch.numel());
  values.push_back(failed_here);
  ranks.sum(std::span(values));
  if (values.back() > 0) return false;
  std::copy_n(values.begin(), batch.numel(), data);
  counts += batch;
  return true;
}

/// Adds one micro-batch's router statistics; returns the auxiliary part of the objective (undefined
/// when it has none).
at::Tensor auxiliary_loss(const model::Forward& out, const Groups& groups, std::int64_t rows,
                          double share, const RouterOptions& router, Sums& sums) {
  const double per_layer = share / static_cast<double>(out.routing.size());
  at::Tensor balance, z;
  const auto add = [](at::Tensor& sum, const at::Tensor& term) {
    sum = sum.defined() ? sum + term : term;
  };
  for (std::size_t e = 0; e < out.routing.size(); ++e) {
    sums.probabilities[static_cast<std::int64_t>(e)].add_(
        out.routing[e].probabilities.detach().mean(0).to(at::kDouble), share);
    add(z, model::z_loss(out.routing[e].logsumexp));
  }
  for (const auto& group : groups) {
    const auto visits = static_cast<double>(group.size());
    if (router.balance == Balance::kGlobal) {
      at::Tensor counts = at::zeros({sums.counts.size(1)}, at::kLong), mean;
      for (const std::size_t e : group) {
        counts += sums.counts[static_cast<std::int64_t>(e)];
        add(mean, out.routing[e].probabilities.mean(0));
      }
      add(balance, model::load_balance_loss(counts, mean.unsqueeze(0)));  // Σ of P = visits · mean
    } else if (router.balance == Balance::kRow) {
      const model::Routing routing = pooled(out.routing, group, rows);
      add(balance, model::load_balance_loss_per_row(routing, rows) * visits);
    }
  }
  sums.z += share * z.item<double>();
  if (router.balance == Balance::kRow) sums.row_balance += share * balance.item<double>();
  at::Tensor objective;
  if (balance.defined() && router.load_balance != 0) {
    add(objective, balance * (router.load_balance * per_layer));
  }
  if (router.z_loss != 0) add(objective, z * (router.z_loss * per_layer));
  return objective;
}

void add_domains(const model::Batch& batch, const at::Tensor& token_nll, Sums& sums) {
  const auto* nll = token_nll.const_data_ptr<float>();
  const auto* target = batch.targets.const_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < batch.domains.size(); ++i) {
    if (target[i] == model::kMasked) continue;
    const auto domain = static_cast<std::size_t>(batch.domains[i]);
    sums.domain_nll[domain] += static_cast<double>(nll[i]);
    sums.domain_targets[domain] += 1;
  }
}

/// Sums of this rank become those of all.
void sum_over(Collectives& ranks, Sums& sums) {
  if (ranks.size() == 1) return;
  auto* p = sums.probabilities.mutable_data_ptr<double>();
  std::vector<double> values = {sums.nll, sums.z, sums.row_balance};
  for (const auto& part : {std::span(sums.domain_nll), std::span(sums.domain_targets),
                           std::span(p, static_cast<std::size_t>(sums.probabilities.numel()))}) {
    values.insert(values.end(), part.begin(), part.end());
  }
  ranks.sum(std::span(values));
  auto next = values.begin();
  for (double* value : {&sums.nll, &sums.z, &sums.row_balance}) *value = *next++;
  for (const auto& part : {std::span(sums.domain_nll), std::span(sums.domain_targets),
                           std::span(p, static_cast<std::size_t>(sums.probabilities.numel()))}) {
    std::copy_n(next, part.size(), part.begin());
    next += static_cast<std::ptrdiff_t>(part.size());
  }
}

StepLosses step_losses(const Sums& sums, const Groups& groups, std::int64_t targets,
                       const RouterOptions& router) {
  torch::NoGradGuard no_grad;
  const auto layers = static_cast<double>(sums.counts.size(0));
  StepLosses losses;
  losses.loss = sums.nll / static_cast<double>(targets);
  losses.z_loss = sums.z / layers;
  if (router.balance == Balance::kRow) {
    losses.load_balance = sums.row_balance / layers;
  } else {
    for (const auto& group : groups) {
      at::Tensor counts = at::zeros_like(sums.counts[0]);
      at::Tensor probabilities = at::zeros_like(sums.probabilities[0]);
      for (const std::size_t e : group) {
        counts += sums.counts[static_cast<std::int64_t>(e)];
        probabilities += sums.probabilities[static_cast<std::int64_t>(e)];
      }
      losses.load_balance +=
          model::load_balance_loss(counts, probabilities.unsqueeze(0)).item<double>() / layers;
    }
  }
  const bool in_objective = router.balance == Balance::kGlobal || router.balance == Balance::kRow;
  const double balance_coefficient = in_objective ? router.load_balance : 0;
  losses.objective =
      losses.loss + balance_coefficient * losses.load_balance + router.z_loss * losses.z_loss;
  losses.counts = sums.counts;
  for (std::size_t d = 0; d < sums.domain_nll.size(); ++d) {
    losses.domain_loss.push_back(sums.domain_nll[d] / sums.domain_targets[d]);
  }
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
                                               const std::function<bool()>& stop,
                                               Collectives& ranks) {
  std::int64_t total[2] = {0, 0};  // targets and positions of the step
  for (const model::Batch& batch : micro_batches) {
    total[0] += batch.target_count;
    total[1] += batch.size();
  }
  ranks.sum(std::span(total));
  const auto [targets, positions] = total;
  if (targets == 0)
    throw Error("train", "a step without a single target: every piece is one token long");
  const Groups groups = balance_groups(decoder, router.pool_visits);
  Sums sums(static_cast<std::int64_t>(decoder.executed_layers()), decoder.config.num_experts,
            static_cast<std::size_t>(micro_batches[0].domain_count));
  double forward_seconds = 0, backward_seconds = 0;
  for (const model::Batch& batch : micro_batches) {
    if (ranks.any(stop && stop())) return std::nullopt;
    const auto start = Clock::now();
    const double share = static_cast<double>(batch.size()) / static_cast<double>(positions);
    model::Forward out;
    std::string failure;
    try {
      out = model::forward(decoder, batch);
    } catch (const Error&
                 error) {  // activations that are not finite: a matter of the run, not of its input
      failure = error.what();
      out = {};
    }
    if (!add_counts(out, !failure.empty(), sums.counts, ranks)) {
      return failed(sums.counts, failure.empty() ? "the forward pass of another rank" : failure);
    }
    at::Tensor token_nll;
    const at::Tensor nll = model::sum_nll(decoder, out.hidden, batch.targets,
                                          batch.domains.empty() ? nullptr : &token_nll);
    sums.nll += nll.item<double>();
    if (token_nll.defined()) add_domains(batch, token_nll, sums);
    at::Tensor objective = nll / static_cast<double>(targets);
    const at::Tensor auxiliary = auxiliary_loss(out, groups, batch.rows, share, router, sums);
    if (auxiliary.defined()) objective = objective + auxiliary;
    out = {};  // what backward does not need goes now
    forward_seconds += seconds_since(start);
    const auto backward_start = Clock::now();
    objective.backward();
    backward_seconds += seconds_since(backward_start);
  }
  sum_over(ranks, sums);
  StepLosses losses = step_losses(sums, groups, targets, router);
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
