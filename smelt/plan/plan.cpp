#include "smelt/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "smelt/plan/run_options.h"

namespace smelt::plan {
namespace {

constexpr double kBytesPerFloat = 4;
constexpr double kTooMuchTogether = 0.9;  // |correlation| of ln F and ln(1 - S)

double all_parameters(const budget::Budget& b) {
  return b.parameters_total + b.parameters_embedding;
}

/// Checkpoints that a run and its branches leave: written at multiples of checkpoint_every and at
/// horizons, the last of which ends the stable run, and at the end of a branch; the newest
/// keep_last of each run stay, and every horizon.
double checkpoints_left(const StudyConfig& study, const TrainOptions& train) {
  const auto& horizons = study.horizons.steps;
  const std::int64_t every = train.checkpoint_every, last = horizons.back();
  const auto multiples = [every](std::int64_t step) { return every > 0 ? step / every : 0; };
  const auto apart = [&](std::int64_t after) {  // horizons later than a step that are no multiple
    return std::count_if(horizons.begin(), horizons.end(), [&](std::int64_t h) {
      return h > after && (every == 0 || h % every != 0);
    });
  };
  const std::int64_t written = multiples(last) + apart(0);
  std::int64_t left = std::min(train.keep_last, written);
  for (const std::int64_t h : horizons) {
    const std::int64_t newer = multiples(last) - multiples(h) + apart(h);
    if (newer >= train.keep_last) ++left;
  }
  for (const std::int64_t h : horizons) {
    const std::int64_t end = h + study.horizons.decay_steps;
    const std::int64_t inside = multiples(end) - multiples(h);
    const bool ends_apart = every == 0 || end % every != 0;
    left += std::min(train.keep_last, inside + (ends_apart ? 1 : 0));
  }
  return static_cast<double>(left);
}

Cell make_cell(const StudyConfig& study, const Scale& scale, std::int64_t experts, double attended,
               std::int64_t vocab_size) {
  Cell cell;
  cell.name = fmt::format("{}-e{}", scale.name, experts);
  cell.scale = scale.name;
  cell.experts = experts;
  arch::ModelConfig baseline = scale.baseline;
  baseline.num_experts = experts;
  if (baseline.vocab_size == 0) baseline.vocab_size = vocab_size;
  budget::MatchOptions options = study.match;
  options.attended = attended;
  try {
    cell.match = budget::match(baseline, options);
  } catch (const Error& error) {
    throw Error("plan", "cell " + cell.name + ": " + error.what(),
                study.file ? study.file->root().where() : "");
  }
  const auto control = budget::count(budget::fully_active(baseline), attended);
  for (const Arm arm : kArms) {
    const auto i = static_cast<std::size_t>(arm);
    cell.sparsity[i] = budget::sparsity(cell.budget(arm), control);
    cell.sparsity_own[i] = budget::sparsity(
        cell.budget(arm), budget::count(budget::fully_active(cell.config(arm)), attended));
  }
  return cell;
}

/// Cells with the smallest and the largest F.
std::vector<std::size_t> extreme_cells(const std::vector<Cell>& cells) {
  const auto by_flops = [](const Cell& a, const Cell& b) {
    return a.match.baseline_budget.flops_per_token < b.match.baseline_budget.flops_per_token;
  };
  const auto [low, high] = std::minmax_element(cells.begin(), cells.end(), by_flops);
  std::vector<std::size_t> found = {static_cast<std::size_t>(low - cells.begin())};
  if (high != low) found.push_back(static_cast<std::size_t>(high - cells.begin()));
  return found;
}

std::vector<std::size_t> tuned_cells(const RateOptions& rates, const std::vector<Cell>& cells) {
  if (rates.rates.empty()) return {};
  if (rates.cells == RateCells::kEnds) return extreme_cells(cells);
  std::vector<std::size_t> all(cells.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Correlation of ln F and ln(1 − S) over the cells.
double size_sparsity_correlation(const std::vector<Cell>& cells) {
  const auto n = static_cast<double>(cells.size());
  double x_mean = 0, y_mean = 0, xx = 0, yy = 0, xy = 0;
  std::vector<std::pair<double, double>> points;
  for (const Cell& cell : cells) {
    points.emplace_back(std::log(cell.match.baseline_budget.flops_per_token),
                        std::log(std::max(1e-12, 1 - cell.sparsity[0])));
    x_mean += points.back().first / n;
    y_mean += points.back().second / n;
  }
  for (const auto& [x, y] : points) {
    xx += (x - x_mean) * (x - x_mean);
    yy += (y - y_mean) * (y - y_mean);
    xy += (x - x_mean) * (y - y_mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

void add_words(const StudyConfig& study, Plan& plan) {
  std::set<std::string> scales;
  std::set<std::int64_t> experts;
  for (const Cell& cell : plan.cells) {
    scales.insert(cell.scale);
    experts.insert(cell.experts);
    if (!cell.match.within_tolerance) {
      plan.words.push_back("cell " + cell.name +
                           " is not matched within tolerance: " + cell.match.words.front());
    }
  }
  if (plan.cells.size() < 6) {
    plan.words.push_back(fmt::format(
        "{} cell{}: fewer than 6, so the six coefficients of the law cannot all be identified",
        plan.cells.size(), plan.cells.size() == 1 ? "" : "s"));
  }
  if (scales.size() < 2)
    plan.words.push_back("one scale: the loss term in F cannot be told from E");
  if (experts.size() < 2) plan.words.push_back("one sparsity: the exponent b cannot be told");
  const double together = size_sparsity_correlation(plan.cells);
  if (experts.size() > 1 && scales.size() > 1 && std::abs(together) > kTooMuchTogether) {
    plan.words.push_back(
        fmt::format("F and S move together over the cells (correlation {:.2f}): the exponents a "
                    "and b cannot be "
                    "told apart; give each scale several expert counts",
                    together));
  }
  if (study.horizons.steps.size() < 2) {
    plan.words.push_back("one horizon: the loss term in D cannot be told from E");
  }
  if (study.seeds.size() < 2) {
    plan.words.push_back("one seed: the gap between the arms comes without a spread");
  }
}

}  // namespace

double endpoint_tokens(const StudyConfig& study, std::int64_t horizon) {
  return static_cast<double>(horizon + study.horizons.decay_steps) *
         static_cast<double>(study.rows) * static_cast<double>(study.row_length);
}

Plan make_plan(const StudyConfig& study, double attended, std::int64_t vocab_size) {
  Plan plan;
  for (const Scale& scale : study.scales) {
    for (const std::int64_t experts : scale.experts) {
      plan.cells.push_back(make_cell(study, scale, experts, attended, vocab_size));
    }
  }
  plan.rate_cells = tuned_cells(study.rates, plan.cells);

  const auto& horizons = study.horizons;
  plan.tokens_per_step = static_cast<double>(study.rows) * static_cast<double>(study.row_length);
  const auto first = horizons.steps.front(), last = horizons.steps.back();
  const std::int64_t trial_steps =
      (study.rates.steps ? study.rates.steps : first) +
      (study.rates.decay_steps ? study.rates.decay_steps : horizons.decay_steps);
  plan.trial_tokens = static_cast<double>(trial_steps) * plan.tokens_per_step;
  plan.trials = static_cast<double>(plan.rate_cells.size() * kArms.size()) * study.rates.runs();
  plan.pair_tokens = static_cast<double>(last + static_cast<std::int64_t>(horizons.steps.size()) *
                                                    horizons.decay_steps) *
                     plan.tokens_per_step;

  const double seeds = static_cast<double>(study.seeds.size());
  TrainOptions train;
  Problems ignored("plan");  // whoever read the study has reported them
  read_fields(train, study.train, ignored);
  const double checkpoints = checkpoints_left(study, train);
  for (Cell& cell : plan.cells) {
    for (const Arm arm : kArms) {
      const budget::Budget& b = cell.budget(arm);
      const double per_token = b.flops_per_token + b.flops_head;
      cell.flops += per_token * plan.pair_tokens * seeds;
      const double parameters = all_parameters(b);
      plan.largest_run_bytes = std::max(plan.largest_run_bytes, 4 * kBytesPerFloat * parameters);
      cell.checkpoint_bytes += 3 * kBytesPerFloat * parameters * checkpoints * seeds;
    }
    plan.flops_runs += cell.flops;
    plan.checkpoint_bytes += cell.checkpoint_bytes;
  }
  for (const std::size_t c : plan.rate_cells) {
    for (const Arm arm : kArms) {
      const budget::Budget& b = plan.cells[c].budget(arm);
      plan.flops_trials +=
          (b.flops_per_token + b.flops_head) * plan.trial_tokens * study.rates.runs();
    }
  }
  plan.flops = plan.flops_trials + plan.flops_runs;
  add_words(study, plan);
  return plan;
}

Json to_json(const Plan& plan) {
  Json cells = Json::array();
  for (const Cell& cell : plan.cells) {
    cells.push_back({{"cell", cell.name},
                     {"scale", cell.scale},
                     {"experts", cell.experts},
                     {"sparsity", cell.sparsity[0]},
                     {"mismatch", budget::to_json(cell.match.best.mismatch)},
                     {"within_tolerance", cell.match.within_tolerance},
                     {"flops_per_token", cell.match.baseline_budget.flops_per_token},
                     {"parameters", cell.match.baseline_budget.parameters_total},
                     {"flops", cell.flops},
                     {"checkpoint_bytes", cell.checkpoint_bytes},
                     {"configs",
                      {{"baseline", arch::to_json(cell.config(Arm::kBaseline))},
                       {"smelt", arch::to_json(cell.config(Arm::kSmelt))}}}});
  }
  return {
      {"schema", "smelt.plan/1"},
      {"cells", cells},
      {"trials", plan.trials},
      {"trial_tokens", plan.trial_tokens},
      {"run_tokens", plan.pair_tokens},
      {"flops", {{"trials", plan.flops_trials}, {"runs", plan.flops_runs}, {"total", plan.flops}}},
      {"memory_bytes", plan.largest_run_bytes},
      {"checkpoint_bytes", plan.checkpoint_bytes},
      {"words", plan.words}};
}

}  // namespace smelt::plan
