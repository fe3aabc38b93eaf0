#include "smelt/study/results.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <set>

#include "smelt/core/table.h"
#include "smelt/law/gain.h"
#include "smelt/law/loss_gap.h"
#include "smelt/study/tables.h"

namespace smelt::study {
namespace {

using plan::Arm;

double lr_of(const std::vector<ChosenRate>& rates, const std::string& cell, Arm arm) {
  for (const ChosenRate& rate : rates) {
    if (rate.cell == cell && rate.arm == arm) return rate.lr;
  }
  throw Error("study", "no learning rate for " + cell);
}

double step_seconds_of(const Layout& layout, const std::string& stable_run) {
  const auto file = layout.folder(stable_run) / "timing.json";
  if (!std::filesystem::exists(file)) return 0;
  return json_get<double>(read_json(file), "step_seconds", file.string());
}

std::string fingerprint_of(const std::filesystem::path& folder) {
  const auto file = folder / "result.json";
  return json_get<std::string>(read_json(file), "data_fingerprint", file.string());
}

std::vector<law::Point> points_of(const Csv& csv, Arm arm) {
  return law::endpoints_from(csv).points(enum_name(arm));
}

const Endpoint& find(const std::vector<Endpoint>& endpoints, std::size_t cell, std::int64_t seed,
                     Arm arm, std::int64_t horizon) {
  for (const Endpoint& e : endpoints) {
    if (e.cell == cell && e.seed == seed && e.arm == arm && e.horizon == horizon) return e;
  }
  throw Error("study", "an endpoint is missing");
}

Json cells_json(const StudySetup& setup, const Layout& layout) {
  Json cells = Json::array();
  for (const plan::Cell& cell : setup.plan.cells) {
    Json configs, budgets, own, seconds;
    for (const Arm arm : plan::kArms) {
      const char* name = enum_name(arm);
      configs[name] = arch::to_json(cell.config(arm));
      budgets[name] = budget::to_json(cell.budget(arm));
      own[name] = cell.sparsity_own[static_cast<int>(arm)];
      const double time =
          step_seconds_of(layout, Layout::stable_name(cell, setup.config.seeds.front(), arm));
      seconds[name] = time > 0 ? Json(time) : Json();
    }
    cells.push_back({{"cell", cell.name},
                     {"scale", cell.scale},
                     {"experts", cell.experts},
                     {"sparsity", cell.sparsity[0]},
                     {"configs", configs},
                     {"budgets", budgets},
                     {"sparsity_own", own},
                     {"mismatch", budget::to_json(cell.match.best.mismatch)},
                     {"within_tolerance", cell.match.within_tolerance},
                     {"words", cell.match.words},
                     {"step_seconds", seconds}});
  }
  return cells;
}

/// The endpoints of both arms at one horizon, and that they read the same tokens.
Json branch_json(const Endpoint& baseline, const Endpoint& smelt) {
  if (baseline.data_fingerprint != smelt.data_fingerprint ||
      baseline.branch_fingerprint != smelt.branch_fingerprint) {
    throw Error("study",
                fmt::format("the arms of a pair did not read the same tokens: {} has {} and {}, "
                            "{} has {} and {}",
                            baseline.run, baseline.data_fingerprint, baseline.branch_fingerprint,
                            smelt.run, smelt.data_fingerprint, smelt.branch_fingerprint));
  }
  return {{"tokens", baseline.tokens},
          {"runs", {{"baseline", baseline.run}, {"smelt", smelt.run}}},
          {"fingerprint",
           {{"baseline", baseline.branch_fingerprint}, {"smelt", smelt.branch_fingerprint}}},
          {"loss", {{"baseline", baseline.loss()}, {"smelt", smelt.loss()}}}};
}

Json pairs_json(const StudySetup& setup, const std::vector<Endpoint>& endpoints) {
  Json pairs = Json::array();
  for (std::size_t c = 0; c < setup.plan.cells.size(); ++c) {
    const plan::Cell& cell = setup.plan.cells[c];
    for (const std::int64_t seed : setup.config.seeds) {
      Json branches = Json::array();
      for (const std::int64_t horizon : setup.config.horizons.steps) {
        branches.push_back(branch_json(find(endpoints, c, seed, Arm::kBaseline, horizon),
                                       find(endpoints, c, seed, Arm::kSmelt, horizon)));
      }
      const std::int64_t last = setup.config.horizons.steps.back();
      const Endpoint& baseline = find(endpoints, c, seed, Arm::kBaseline, last);
      const Endpoint& smelt = find(endpoints, c, seed, Arm::kSmelt, last);
      pairs.push_back(
          {{"cell", cell.name},
           {"seed", seed},
           {"fingerprint",
            {{"baseline", baseline.data_fingerprint}, {"smelt", smelt.data_fingerprint}}},
           {"loss", {{"baseline", baseline.loss()}, {"smelt", smelt.loss()}}},
           {"mismatch", budget::to_json(cell.match.best.mismatch)},
           {"runs",
            {{"baseline", Layout::stable_name(cell, seed, Arm::kBaseline)},
             {"smelt", Layout::stable_name(cell, seed, Arm::kSmelt)}}},
           {"branches", branches}});
    }
  }
  return pairs;
}

Json rates_json(const RateReport& rates) {
  Json trials = Json::array(), chosen = Json::array();
  for (const Trial& trial : rates.trials) trials.push_back(to_json(trial));
  for (const ChosenRate& rate : rates.choice.chosen) chosen.push_back(to_json(rate));
  return {{"how", rates.trials.empty() ? "fixed" : "tuned"},
          {"words", rates.choice.words},
          {"trials", trials},
          {"chosen", chosen}};
}

/// The last router summary of each stable run of the first seed.
Json router_json(const StudySetup& setup, const Layout& layout) {
  Json rows = Json::array();
  for (const plan::Cell& cell : setup.plan.cells) {
    for (const Arm arm : plan::kArms) {
      const std::int64_t seed = setup.config.seeds.front();
      std::ifstream in(layout.folder(Layout::stable_name(cell, seed, arm)) / "metrics.jsonl");
      Json last;
      for (std::string line; std::getline(in, line);) {
        if (line.find("\"router\"") == std::string::npos) continue;
        if (Json json = Json::parse(line, nullptr, false); json.is_object()) last = json["router"];
      }
      if (!last.is_array()) continue;
      for (std::size_t e = 0; e < last.size(); ++e) {
        Json row = {{"cell", cell.name}, {"seed", seed}, {"arch", enum_name(arm)}, {"executed", e}};
        row.update(last[e]);
        rows.push_back(row);
      }
    }
  }
  return rows;
}

Json probe_json(const StudySetup& setup, const Layout& layout) {
  const plan::Cell& cell = setup.plan.cells.back();
  const std::int64_t seed = setup.config.seeds.front();
  Json probe = {{"cell", cell.name}, {"seed", seed}};
  for (const Arm arm : plan::kArms) {
    const auto file =
        layout.folder(Layout::branch_name(cell, seed, arm, setup.config.horizons.steps.back())) /
        "probe" / "probe.json";
    if (!std::filesystem::exists(file)) return nullptr;
    probe[enum_name(arm)] = read_json(file);
  }
  probe["tokens"] = probe["smelt"].value("tokens", Json());
  return probe;
}

/// The largest law that the grid's own variation can carry: b needs cells of several sparsities.
const law::Form& choose_form(const std::string& wanted, const plan::Plan& plan) {
  if (wanted != "auto") return law::find_form(wanted);
  std::set<std::int64_t> experts;
  for (const plan::Cell& cell : plan.cells) experts.insert(cell.experts);
  return law::find_form(experts.size() > 1 ? "smelt" : "smelt-no-sparsity");
}

/// Why the laws cannot be told, each reason once.
Json law_words(const law::GainResult& gain) {
  Json words = Json::array();
  if (!gain.reference || !gain.target) return words;
  const std::string baseline = gain.reference->status_words, smelt = gain.target->status_words;
  if (baseline == smelt) {
    if (!baseline.empty()) words.push_back("both laws: " + baseline);
    return words;
  }
  if (!baseline.empty()) words.push_back("baseline's law: " + baseline);
  if (!smelt.empty()) words.push_back("SMELT's law: " + smelt);
  return words;
}

/// What to mind about the gain; where no law can be told, its reasons are the law's.
Json gain_words(const law::GainResult& gain) {
  if (gain.identifiable) return gain.warnings;
  return Json::array({"no compute saved is told: the grid does not determine both laws"});
}

std::string signed_interval(const law::Range& range, double scale, const char* unit) {
  return fmt::format("{:+.1f} to {:+.1f} {}", scale * range.min, scale * range.max, unit);
}

/// The study in one sentence: the CE Gain where the grid can tell it, else the loss gap at equal
/// compute.
std::string headline(const law::GainResult& gain, const law::LossGap& gap, double tokens,
                     std::size_t seeds) {
  for (const law::GainPoint& point : gain.points) {
    if (!gain.identifiable || !point.gain || !point.interval || point.extrapolated) continue;
    return fmt::format(
        "At {:.2g} FLOPs and sparsity {:.2f}, SMELT {} {:.1f} % of the compute (95 % interval "
        "{}){}",
        point.compute, point.sparsity, *point.gain >= 0 ? "saves" : "costs",
        std::abs(100 * *point.gain), signed_interval(*point.interval, 100, "%"),
        point.interval->contains(0) ? ": within noise" : "");
  }
  const std::string who = gap.mean >= 0 ? "lower" : "higher";
  std::string text = fmt::format(
      "At equal compute and {} tokens, SMELT's loss is {:.1f} millinats {} than its Baseline's",
      with_si(tokens), std::abs(1000 * gap.mean), who);
  if (gap.interval) {
    text += fmt::format(" (gap {:+.1f}, 95 % interval {}, {} seeds)", 1000 * gap.mean,
                        signed_interval(*gap.interval, 1000, "millinats"), seeds);
    text += gap.within_noise ? ": within noise" : "";
  } else {
    text += " (one seed: no interval, so nothing can be concluded)";
  }
  return text;
}

}  // namespace

std::vector<Endpoint> read_endpoints(const StudySetup& setup, const Layout& layout,
                                     const std::vector<ChosenRate>& rates) {
  std::vector<Endpoint> endpoints;
  for (std::size_t c = 0; c < setup.plan.cells.size(); ++c) {
    const plan::Cell& cell = setup.plan.cells[c];
    for (const std::int64_t seed : setup.config.seeds) {
      for (const Arm arm : plan::kArms) {
        const std::string stable = Layout::stable_name(cell, seed, arm);
        const double seconds =
            step_seconds_of(layout, Layout::stable_name(cell, setup.config.seeds.front(), arm));
        for (const std::int64_t horizon : setup.config.horizons.steps) {
          Endpoint e;
          e.cell = c;
          e.arm = arm;
          e.seed = seed;
          e.horizon = horizon;
          e.tokens = plan::endpoint_tokens(setup.config, horizon);
          e.lr = lr_of(rates, cell.name, arm);
          e.step_seconds = seconds;
          e.run = Layout::branch_name(cell, seed, arm, horizon);
          e.data_fingerprint = fingerprint_of(layout.folder(stable));
          e.branch_fingerprint = fingerprint_of(layout.folder(e.run));
          e.eval = read_json(layout.folder(e.run) / "eval" / "validation.json");
          endpoints.push_back(std::move(e));
        }
      }
    }
  }
  return endpoints;
}

Csv endpoints_csv(const StudySetup& setup, const std::vector<Endpoint>& endpoints) {
  Csv csv;
  csv.name = "endpoints.csv";
  csv.header = {"arch",         "scale",           "sparsity",    "sparsity_own", "cell",
                "seed",         "flops_per_token", "tokens",      "loss",         "lr",
                "step_seconds", "parameters",      "kv_elements", "run"};
  if (!endpoints.empty()) {
    for (const Json& domain : endpoints.front().eval.at("domains")) {
      csv.header.push_back("loss:" + domain.at("name").get<std::string>());
    }
  }
  for (const Endpoint& e : endpoints) {
    const plan::Cell& cell = setup.plan.cells[e.cell];
    const auto arm = static_cast<std::size_t>(e.arm);
    const budget::Budget& budget = cell.budget(e.arm);
    std::vector<std::string> row = {enum_name(e.arm),
                                    cell.scale,
                                    number_text(cell.sparsity[arm]),
                                    number_text(cell.sparsity_own[arm]),
                                    cell.name,
                                    std::to_string(e.seed),
                                    number_text(budget.flops_per_token),
                                    number_text(e.tokens),
                                    number_text(e.loss()),
                                    number_text(e.lr),
                                    e.step_seconds > 0 ? number_text(e.step_seconds) : "",
                                    number_text(budget.parameters_total),
                                    number_text(budget.kv_elements_per_token),
                                    e.run};
    for (const Json& domain : e.eval.at("domains")) {
      row.push_back(number_text(domain.at("loss").get<double>()));
    }
    csv.rows.push_back(std::move(row));
  }
  return csv;
}

Json study_json(const StudySetup& setup, const Layout& layout, const RateReport& rates,
                const std::vector<Endpoint>& endpoints,
                const std::function<void(double, double)>& bootstrap_progress) {
  const plan::StudyConfig& config = setup.config;
  const Csv csv = endpoints_csv(setup, endpoints);
  const auto baseline = points_of(csv, Arm::kBaseline), smelt = points_of(csv, Arm::kSmelt);
  const double last_tokens = plan::endpoint_tokens(config, config.horizons.steps.back());

  law::GainOptions options;
  options.compute = config.law.compute;
  options.bootstrap.draws = config.law.draws;
  options.progress = bootstrap_progress;
  const law::Form& form = choose_form(config.law.form, setup.plan);
  const law::GainResult gain = law::gain(baseline, smelt, form, options);
  const law::LossGap gap = pooled_gap(endpoints, setup, config.horizons.steps.back());

  Json words = setup.plan.words;
  for (const std::string& line : rates.choice.words) words.push_back(line);
  Json pooled = law::to_json(gap);
  pooled["gap"] = gap.mean;
  pooled.erase("words");  // the headline says it with the arms' names
  pooled["tokens"] = last_tokens;

  Json law_json = {
      {"form", form.name}, {"identifiable", gain.identifiable}, {"words", law_words(gain)}};
  law_json["baseline"] = gain.reference ? law::to_json(*gain.reference, true) : Json();
  law_json["smelt"] = gain.target ? law::to_json(*gain.target, true) : Json();
  Json gain_json = law::to_json(gain);
  gain_json["words"] = gain_words(gain);
  gain_json.erase("warnings");  // the same in the terms of the law's own page

  Json rows = Json::array();
  for (std::size_t r = 0; r < csv.rows.size(); ++r) {
    Json row = Json::object();
    for (std::size_t c = 0; c < csv.header.size(); ++c) {
      const std::string& name = csv.header[c];
      const bool text = name == "arch" || name == "scale" || name == "cell" || name == "run";
      row[name] = text                     ? Json(csv.rows[r][c])
                  : csv.rows[r][c].empty() ? Json()
                                           : Json(csv.number(r, c));
    }
    rows.push_back(row);
  }
  return {{"schema", "smelt.study/1"},
          {"name", config.name},
          {"complete", true},
          {"headline", headline(gain, gap, last_tokens, config.seeds.size())},
          {"words", words},
          {"cells", cells_json(setup, layout)},
          {"pairs", pairs_json(setup, endpoints)},
          {"endpoints", rows},
          {"rates", rates_json(rates)},
          {"gaps", gaps_json(endpoints, setup)},
          {"gap", pooled},
          {"domains", domains_json(endpoints, setup)},
          {"lengths", lengths_json(endpoints, setup)},
          {"law", law_json},
          {"gain", gain_json},
          {"probe", probe_json(setup, layout)},
          {"router", router_json(setup, layout)}};
}

}  // namespace smelt::study
