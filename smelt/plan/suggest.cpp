#include "smelt/plan/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <type_traits>

#include "smelt/core/table.h"

namespace smelt::plan {
namespace {

constexpr std::int64_t kHorizons = 4;
constexpr std::int64_t kFewestSteps = 8;
constexpr std::size_t kEnoughCells = 6;
const std::vector<double> kWidths = {0.5, 0.7, 1};
const std::vector<double> kDenseWidths = {0.4, 0.5, 0.6, 0.7, 0.85, 1};  // no sparsities to vary

std::int64_t scaled(std::int64_t size, double factor, std::int64_t step) {
  if (size == 0) return 0;
  const auto steps = std::llround(static_cast<double>(size) * factor / static_cast<double>(step));
  return std::max<std::int64_t>(1, steps) * step;
}

/// Whether a number of a config is one that scales differ in.
bool is_size(std::string_view field) {
  return field != "vocab_size" && field != "num_experts" && field != "num_experts_per_tok" &&
         field != "max_position_embeddings";
}

bool can_tell_a_law(const StudyConfig& study) {
  std::size_t cells = 0;
  std::set<std::int64_t> experts;
  for (const Scale& scale : study.scales) {
    cells += scale.experts.size();
    experts.insert(scale.experts.begin(), scale.experts.end());
  }
  const bool dense = experts == std::set<std::int64_t>{0};
  return cells >= kEnoughCells && study.scales.size() >= 2 && (dense || experts.size() >= 2);
}

}  // namespace

std::vector<Scale> suggest_scales(const StudyConfig& study) {
  if (can_tell_a_law(study)) return study.scales;
  const auto by_width = [](const Scale& a, const Scale& b) {
    return a.baseline.hidden_size < b.baseline.hidden_size;
  };
  const Scale& largest = *std::max_element(study.scales.begin(), study.scales.end(), by_width);
  const arch::ModelConfig& whole = largest.baseline;
  const std::int64_t experts = *std::max_element(largest.experts.begin(), largest.experts.end());
  const std::int64_t step = whole.hidden_size >= 512 ? 8 : 2;
  std::set<std::int64_t> counts = {0};
  if (experts > 0) {
    counts.clear();
    for (const std::int64_t count : {experts / 2, experts, 2 * experts}) {
      counts.insert(std::max(count, whole.num_experts_per_tok + 1));
    }
  }
  std::vector<Scale> scales;
  for (const double factor : experts > 0 ? kWidths : kDenseWidths) {
    Scale scale{"", whole, {counts.begin(), counts.end()}};
    arch::ModelConfig& m = scale.baseline;
    m.hidden_size = scaled(whole.hidden_size, factor, step);
    m.num_attention_heads =
        scaled(whole.num_attention_heads, factor, whole.latent() ? 1 : whole.num_key_value_heads);
    if (whole.latent()) m.num_key_value_heads = m.num_attention_heads;
    for (const auto width :
         {&arch::ModelConfig::moe_intermediate_size, &arch::ModelConfig::intermediate_size,
          &arch::ModelConfig::shared_expert_intermediate_size}) {
      m.*width = scaled(whole.*width, factor, step);
    }
    scale.name = fmt::format("h{}", m.hidden_size);
    // Of a tiny model two factors may give the same width.
    if (scales.empty() || scales.back().name != scale.name) scales.push_back(std::move(scale));
  }
  return scales;
}

HorizonOptions horizons_for(const StudyConfig& study, const Plan& plan, double flops) {
  // FLOPs of one token in every run, and in every trial.
  double runs = 0, trials = 0;
  for (std::size_t c = 0; c < plan.cells.size(); ++c) {
    double pair = 0;
    for (const Arm arm : kArms) {
      const budget::Budget& b = plan.cells[c].budget(arm);
      pair += b.flops_per_token + b.flops_head;
    }
    runs += pair * static_cast<double>(study.seeds.size());
    if (std::find(plan.rate_cells.begin(), plan.rate_cells.end(), c) != plan.rate_cells.end()) {
      trials += pair * study.rates.runs();
    }
  }
  // With a last horizon of n steps: decays n/20 each, trials as long as the first endpoint, n/8.
  const double decay = 1.0 / 20, first = 1.0 / 8;
  const double steps =
      flops / plan.tokens_per_step / (runs * (1 + kHorizons * decay) + trials * (first + decay));
  if (steps > kMostSteps) {
    throw Error("plan", fmt::format("{} FLOPs pay for {:.3g} steps of each run: too many for this "
                                    "grid; take larger scales",
                                    with_si(flops), steps));
  }
  const auto shortest = static_cast<std::int64_t>(steps * first);
  if (shortest < kFewestSteps) {
    throw Error("plan",
                fmt::format("{} FLOPs pay for {:.1f} steps of each run: too few; take fewer "
                            "cells, seeds or rates, or smaller scales",
                            with_si(flops), steps));
  }
  HorizonOptions horizons;
  for (std::int64_t i = 0; i < kHorizons; ++i) {
    horizons.steps.push_back(shortest << i);
  }
  horizons.decay_steps =
      std::max<std::int64_t>(2, std::llround(static_cast<double>(horizons.steps.back()) * decay));
  return horizons;
}

std::string to_toml(const std::vector<Scale>& scales, const HorizonOptions& horizons) {
  std::string text;
  for (const Scale& scale : scales) {
    text += fmt::format("[[scale]]\nname = \"{}\"\n", scale.name);
    arch::ModelConfig::visit_fields(scale.baseline, [&](const Field& field, const auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::int64_t>) {
        if (is_size(field.name) && value > 0) text += fmt::format("{} = {}\n", field.name, value);
      }
    });
    text += fmt::format("experts = [{}]\n\n", fmt::join(scale.experts, ", "));
  }
  return text + "[horizons]\n" + fields_to_toml(horizons);
}

}  // namespace smelt::plan
