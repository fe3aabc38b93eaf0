#include "smelt/study/tables.h"

#include <functional>
#include <optional>

namespace smelt::study {
namespace {

using plan::Arm;

/// A loss of one endpoint: its overall one, or that of a domain or bucket; nothing where it has no
/// tokens.
using LossOf = std::function<std::optional<double>(const Endpoint&)>;

/// Baseline and SMELT of one cell, horizon and seed, next to each other.
std::vector<law::PairedLoss> paired(const std::vector<Endpoint>& endpoints, const StudySetup& setup,
                                    std::optional<std::size_t> cell, std::int64_t horizon,
                                    const LossOf& loss) {
  std::vector<law::PairedLoss> pairs;
  for (const Endpoint& b : endpoints) {
    if (b.arm != Arm::kBaseline || b.horizon != horizon || (cell && b.cell != *cell)) continue;
    for (const Endpoint& s : endpoints) {
      if (s.arm != Arm::kSmelt || s.cell != b.cell || s.seed != b.seed || s.horizon != horizon)
        continue;
      const auto reference = loss(b), target = loss(s);
      if (!reference || !target) continue;
      const plan::Cell& c = setup.plan.cells[b.cell];
      pairs.push_back({.cell = c.name,
                       .tokens = b.tokens,
                       .seed = b.seed,
                       .reference = *reference,
                       .target = *target,
                       .flops_ratio = 1 + c.match.best.mismatch.flops});
    }
  }
  return pairs;
}

std::optional<double> overall(const Endpoint& e) {
  return e.loss();
}

std::optional<double> number_or_none(const Json& group) {
  const Json& loss = group.at("loss");
  return loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt;
}

/// {"baseline", "smelt", "gap", "per_seed"} of pairs.
Json gap_entry(const std::vector<law::PairedLoss>& pairs) {
  double baseline = 0, smelt = 0;
  Json per_seed = Json::array();
  for (const law::PairedLoss& pair : pairs) {
    baseline += pair.reference / static_cast<double>(pairs.size());
    smelt += pair.target / static_cast<double>(pairs.size());
    per_seed.push_back({{"seed", pair.seed}, {"gap", pair.gap()}});
  }
  return {
      {"baseline", baseline}, {"smelt", smelt}, {"gap", baseline - smelt}, {"per_seed", per_seed}};
}

}  // namespace

law::LossGap pooled_gap(const std::vector<Endpoint>& endpoints, const StudySetup& setup,
                        std::int64_t horizon) {
  return law::loss_gap(paired(endpoints, setup, std::nullopt, horizon, overall));
}

Json gaps_json(const std::vector<Endpoint>& endpoints, const StudySetup& setup) {
  Json entries = Json::array();
  for (std::size_t c = 0; c < setup.plan.cells.size(); ++c) {
    const plan::Cell& cell = setup.plan.cells[c];
    for (const std::int64_t horizon : setup.config.horizons.steps) {
      const law::LossGap gap = law::loss_gap(paired(endpoints, setup, c, horizon, overall));
      const double tokens = plan::endpoint_tokens(setup.config, horizon);
      Json per_seed = Json::array();
      for (const law::SeedGap& seed : gap.per_seed) {
        per_seed.push_back({{"seed", seed.seed}, {"gap", seed.gap}});
      }
      entries.push_back(
          {{"cell", cell.name},
           {"tokens", tokens},
           {"flops", tokens * cell.match.baseline_budget.flops_per_token},
           {"gap", gap.mean},
           {"per_seed", per_seed},
           {"standard_error", gap.standard_error ? Json(*gap.standard_error) : Json()},
           {"interval", gap.interval ? Json({gap.interval->min, gap.interval->max}) : Json()},
           {"level", 0.95},
           {"within_noise", gap.within_noise},
           {"words", gap.words}});
    }
  }
  return entries;
}

Json domains_json(const std::vector<Endpoint>& endpoints, const StudySetup& setup) {
  Json entries = Json::array();
  if (endpoints.empty()) return entries;
  const Json& domains = endpoints.front().eval.at("domains");
  for (std::size_t c = 0; c < setup.plan.cells.size(); ++c) {
    for (const std::int64_t horizon : setup.config.horizons.steps) {
      for (std::size_t d = 0; d < domains.size(); ++d) {
        const auto pairs = paired(endpoints, setup, c, horizon, [d](const Endpoint& e) {
          return number_or_none(e.eval.at("domains").at(d));
        });
        if (pairs.empty()) continue;
        Json entry = {{"cell", setup.plan.cells[c].name},
                      {"tokens", plan::endpoint_tokens(setup.config, horizon)},
                      {"domain", domains[d].at("name")},
                      {"scored_tokens", domains[d].at("tokens")}};
        entry.update(gap_entry(pairs));
        entries.push_back(entry);
      }
    }
  }
  return entries;
}

Json lengths_json(const std::vector<Endpoint>& endpoints, const StudySetup& setup) {
  Json entries = Json::array();
  if (endpoints.empty()) return entries;
  const std::int64_t horizon = setup.config.horizons.steps.back();
  const Json& buckets = endpoints.front().eval.at("lengths");
  for (std::size_t c = 0; c < setup.plan.cells.size(); ++c) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const auto pairs = paired(endpoints, setup, c, horizon, [b](const Endpoint& e) {
        return number_or_none(e.eval.at("lengths").at(b));
      });
      if (pairs.empty()) continue;
      const Json& bucket = buckets[b];
      Json entry = {{"cell", setup.plan.cells[c].name},
                    {"tokens", plan::endpoint_tokens(setup.config, horizon)},
                    {"bucket", bucket.at("name")},
                    {"max_tokens", bucket.at("up_to")},
                    {"cut", bucket.at("cut")},
                    {"documents", bucket.at("documents")},
                    {"scored_tokens", bucket.at("tokens")}};
      entry.update(gap_entry(pairs));
      entries.push_back(entry);
    }
  }
  return entries;
}

}  // namespace smelt::study
