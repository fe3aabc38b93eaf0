// Training losses of every pair, their running difference on the shared tokens, and the learning
// rates that were tried.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

constexpr std::size_t kPointsPerRun = 400;
constexpr std::size_t kPointsInAll = 16000;  // keeps the page small, however many runs

struct Run {
  std::string cell, seed, arm, name;
  bool branch = false;
};

/// Stable runs and their branches, once each.
std::vector<Run> runs_of(const Study& study) {
  std::vector<Run> runs;
  std::set<std::string> seen;
  const auto add = [&](const Json& pair, const Json& names, bool branch) {
    for (const char* arm : kArms) {
      const std::string name = text(get(names, arm));
      // A name is one folder under runs/, nothing that leads elsewhere.
      if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.')) continue;
      if (!seen.insert(name).second) continue;
      runs.push_back({text(get(pair, "cell")), text(get(pair, "seed")), arm, name, branch});
    }
  };
  for (const Json& pair : list(study.json, {"pairs"})) {
    add(pair, get(pair, "runs"), false);
    for (const Json& branch : list(pair, {"branches"})) add(pair, get(branch, "runs"), true);
  }
  return runs;
}

struct Curves {
  DataTable curves{"curves",
                   "Training loss over tokens",
                   {{"cell", "cell"},
                    {"seed", "seed"},
                    {"arch", "arm"},
                    {"run", "run"},
                    {"stage", "stage"},
                    {"tokens", "tokens", true},
                    {"loss", "loss of the step (nats)", true},
                    {"smoothed", "running mean (nats)", true}},
                   {}};
  DataTable gaps{"curve-gaps",
                 "Running difference of the training losses",
                 {{"cell", "cell"},
                  {"seed", "seed"},
                  {"tokens", "tokens", true},
                  {"gap", "Baseline minus SMELT (nats)", true}},
                 {}};
  std::map<std::string, Extent> ranges;  // per cell: losses worth showing
  std::map<std::string, Extent> tokens;
  Extent gap_range;
  std::size_t runs = 0, window = 1, broken_lines = 0, shared = 0;
  std::vector<std::string> without;  // runs whose curve is not there
};

void add_run(const Run& run, const Curve& curve, Curves& all) {
  const double last = curve.points.back().tokens;
  Extent& range = all.ranges[run.cell];
  for (const Curve::Point& point : curve.points) {
    all.curves.add({text_cell(run.cell), text_cell(run.seed), arm_cell(run.arm),
                    text_cell(run.name), text_cell(run.branch ? "decay branch" : "stable"),
                    number_cell(point.tokens, whole(point.tokens)),
                    number_cell(std::round(point.loss * 1e4) / 1e4, fixed(point.loss, 4)),
                    number_cell(std::round(point.smoothed * 1e4) / 1e4, fixed(point.smoothed, 4))});
    all.tokens[run.cell].add(point.tokens);
    if (run.branch || point.tokens >= 0.12 * last) range.add(point.smoothed);
  }
}

/// The difference at equal tokens; the arms of a pair are thinned alike.
void add_gap(const Run& run, const Curve& baseline, const Curve& smelt, Curves& all) {
  std::map<double, double> by_tokens;
  for (const Curve::Point& point : baseline.points) by_tokens[point.tokens] = point.smoothed;
  bool any = false;
  for (const Curve::Point& point : smelt.points) {
    const auto found = by_tokens.find(point.tokens);
    if (found == by_tokens.end() || !point.full) continue;
    const double gap = found->second - point.smoothed;
    all.gaps.add({text_cell(run.cell), text_cell(run.seed),
                  number_cell(point.tokens, whole(point.tokens)),
                  number_cell(std::round(gap * 1e5) / 1e5, with_sign(gap, 4))});
    if (point.tokens >= 0.05 * smelt.points.back().tokens) all.gap_range.add(gap);
    any = true;
  }
  all.shared += any ? 1 : 0;
}

Curves read_curves(const Study& study) {
  Curves all;
  const std::vector<Run> runs = runs_of(study);
  const std::size_t most = std::clamp<std::size_t>(
      kPointsInAll / std::max<std::size_t>(runs.size(), 1), 50, kPointsPerRun);
  std::map<std::pair<std::string, std::string>, Curve> baselines;
  for (const Run& run : runs) {
    // A branch is short: it is smoothed as the stable run before it.
    const Curve curve = read_curve(study.folder / "runs" / run.name / "metrics.jsonl", most,
                                   run.branch ? all.window : 0);
    all.broken_lines += curve.broken_lines;
    if (curve.points.empty()) {
      all.without.push_back(run.name);
      continue;
    }
    ++all.runs;
    all.window = std::max(all.window, curve.window);
    add_run(run, curve, all);
    if (run.branch) continue;
    const auto pair = std::pair(run.cell, run.seed);
    if (run.arm == "baseline") {
      baselines[pair] = curve;
    } else if (baselines.count(pair)) {
      add_gap(run, baselines[pair], curve, all);
    }
  }
  return all;
}

Json curve_spec(const Curves& all, const std::string& cell) {
  Json spec = vega(R"({"height": 230, "encoding": {
      "x": {"field": "tokens", "type": "quantitative", "title": "tokens", "scale": {"type": "log", "nice": false},
            "axis": {"format": "~s", "tickCount": 5, "grid": false}},
      "detail": {"field": "run"}},
    "layer": [
      {"mark": {"type": "line", "strokeWidth": 0.6, "opacity": 0.28, "clip": true},
       "encoding": {"y": {"field": "loss", "type": "quantitative"}}},
      {"mark": {"type": "line", "strokeWidth": 1.6, "clip": true},
       "encoding": {"y": {"field": "smoothed", "type": "quantitative", "title": "training loss, nats",
                          "axis": {"tickCount": 5}}}}]})");
  spec["data"] = rows_of("curves", {{"cell", cell}});
  spec["encoding"]["color"] = arm_colour();
  const Json domain = all.ranges.at(cell).domain(0.08);
  for (Json& layer : spec["layer"]) {
    layer["encoding"]["y"]["scale"] = {{"zero", false}, {"nice", false}, {"domain", domain}};
  }
  const Extent& tokens = all.tokens.at(cell);
  spec["encoding"]["x"]["scale"]["domain"] =
      Json::array({std::max(*tokens.low, *tokens.high * 0.05), *tokens.high});
  return spec;
}

Json gap_spec(const Curves& all, const std::string& cell) {
  Json spec = vega(R"({"height": 150, "layer": [
      {"mark": {"type": "rule", "color": "@muted", "strokeWidth": 1}, "data": {"values": [{"zero": 0}]},
       "encoding": {"y": {"field": "zero", "type": "quantitative"}}},
      {"mark": {"type": "line", "strokeWidth": 1.2, "color": "@smelt", "opacity": 0.75, "clip": true}, "encoding": {
        "x": {"field": "tokens", "type": "quantitative", "title": "tokens",
              "scale": {"type": "log", "nice": false}, "axis": {"format": "~s", "tickCount": 5, "grid": false}},
        "y": {"field": "gap", "type": "quantitative", "title": "running gap, nats",
              "axis": {"tickCount": 4}, "scale": {"nice": false}},
        "detail": {"field": "seed"}}}]})");
  spec["layer"][1]["data"] = rows_of("curve-gaps", {{"cell", cell}});
  const Extent& tokens = all.tokens.at(cell);
  spec["layer"][1]["encoding"]["x"]["scale"]["domain"] =
      Json::array({std::max(*tokens.low, *tokens.high * 0.05), *tokens.high});
  Extent range = all.gap_range;
  range.add(0.0);
  spec["layer"][1]["encoding"]["y"]["scale"]["domain"] = range.domain();
  return spec;
}

/// Share of the plotted differences that are above zero in the second half of the tokens.
std::string gap_words(const DataTable& gaps) {
  double last = 0;
  for (const auto& row : gaps.rows) last = std::max(last, std::stod(row[2].csv));
  std::size_t n = 0, above = 0;
  for (const auto& row : gaps.rows) {
    if (std::stod(row[2].csv) < last / 2) continue;
    ++n;
    above += std::stod(row[3].csv) > 0 ? 1 : 0;
  }
  if (n == 0) return "";
  return fmt::format(
      " In the second half of the tokens SMELT is the lower one at {:.0f} % of the points drawn.",
      100.0 * static_cast<double>(above) / static_cast<double>(n));
}

void add_curve_figures(const Study& study, Curves all, Page& page) {
  std::vector<Panel> losses, differences;
  for (const std::string& cell : study.cells()) {
    if (!all.ranges.count(cell)) continue;
    losses.push_back({cell, curve_spec(all, cell)});
    const bool paired = std::any_of(all.gaps.rows.begin(), all.gaps.rows.end(),
                                    [&](const auto& row) { return row[0].csv == cell; });
    if (paired) differences.push_back({cell, gap_spec(all, cell)});
  }
  const std::size_t seeds = study.seeds().size();
  page.figure({"curves",
               "Training loss of Baseline and SMELT over tokens",
               {{Mark::kLine, "baseline", "Baseline"},
                {Mark::kLine, "smelt", "SMELT"},
                {Mark::kFaint, "muted", "single steps"}},
               std::move(losses),
               fmt::format("Training loss of {} ({}; one line per seed and arm, decay branches "
                           "included): running mean over "
                           "{} (a fortieth of a stable run), single steps faint. The start of "
                           "training lies above the panels.",
                           count_of(all.runs, "run"), count_of(seeds, "seed"),
                           count_of(all.window, "step")),
               {std::move(all.curves)}});
  if (differences.empty()) return;
  const std::string said = gap_words(all.gaps);
  page.figure(
      {"curve-gaps",
       "Running difference of the training losses of each pair",
       {{Mark::kLine, "smelt", "Baseline minus SMELT, one line per seed"}},
       std::move(differences),
       fmt::format(
           "The running means of {} subtracted at equal tokens, where both windows are whole; arms "
           "that read the same "
           "tokens share much of their noise, and it cancels. Above zero SMELT is better.{}",
           count_of(all.shared, "pair"), said),
       {std::move(all.gaps)}});
}

// ---- learning rates

DataTable trial_table(const Json& trials) {
  DataTable table{"rates",
                  "Learning rates tried",
                  {{"cell", "cell"},
                   {"arch", "arm"},
                   {"lr", "learning rate", true},
                   {"seed", "seed"},
                   {"tokens", "tokens", true},
                   {"loss", "validation loss (nats)", true}},
                  {}};
  for (const Json& trial : trials) {
    const auto loss = number(get(trial, "loss"));
    const auto tokens = number(get(trial, "tokens"));
    table.add({text_cell(text(get(trial, "cell"))), arm_cell(text(get(trial, "arch"))),
               number_cell(number(get(trial, "lr"))), text_cell(text(get(trial, "seed"))),
               number_cell(tokens, whole(tokens)), number_cell(loss, fixed(loss, 4))});
  }
  return table;
}

DataTable chosen_table(const Json& chosen) {
  DataTable table{"rates-chosen",
                  "Learning rate of each arm",
                  {{"cell", "cell"},
                   {"arch", "arm"},
                   {"lr", "learning rate", true},
                   {"how", "how"},
                   {"at_edge", "at the edge of what was tried"}},
                  {}};
  for (const Json& choice : chosen) {
    table.add({text_cell(text(get(choice, "cell"))), arm_cell(text(get(choice, "arch"))),
               number_cell(number(get(choice, "lr"))), text_cell(text(get(choice, "how"))),
               text_cell(truth(get(choice, "at_edge")) ? "yes" : "no")});
  }
  return table;
}

Json rate_spec(const std::string& cell, const Json& trials) {
  Json spec = vega(R"({"height": 190, "layer": [
      {"mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 1.4},
       "encoding": {"x": {"field": "lr", "type": "quantitative"}}},
      {"mark": {"type": "line", "strokeWidth": 1.6}, "encoding": {"y": {"field": "loss", "aggregate": "mean",
        "type": "quantitative", "title": "validation loss, nats", "scale": {"zero": false}, "axis": {"tickCount": 5}}}},
      {"mark": {"type": "point", "opacity": 1}, "encoding": {
        "y": {"field": "loss", "type": "quantitative"}, "shape": {"field": "arch", "type": "nominal", "legend": null,
          "scale": {"domain": ["baseline", "smelt"], "range": ["circle", "diamond"]}}}}],
    "encoding": {"x": {"field": "lr", "type": "quantitative", "title": "learning rate",
      "scale": {"type": "log", "nice": false, "padding": 14}, "axis": {"format": "~g", "tickCount": 5, "grid": false}}}})");
  spec["data"] = rows_of("rates", {{"cell", cell}});
  std::set<double> tried;
  for (const Json& trial : trials) {
    const auto rate = number(get(trial, "lr"));
    if (rate && text(get(trial, "cell")) == cell) tried.insert(*rate);
  }
  spec["encoding"]["x"]["axis"]["values"] = tried;
  spec["encoding"]["color"] = arm_colour();
  spec["layer"][0]["data"] = rows_of("rates-chosen", {{"cell", cell}});
  return spec;
}

std::string seed_words(const Study& study, const std::set<std::string>& trial_seeds) {
  const std::vector<std::string> endpoint_seeds = study.seeds();
  const bool shared =
      std::any_of(endpoint_seeds.begin(), endpoint_seeds.end(),
                  [&](const std::string& seed) { return trial_seeds.count(seed) > 0; });
  return shared ? "The trials share a seed with the endpoints, which favours the rate taken."
                : "No trial has a seed that the endpoints use.";
}

}  // namespace

void add_curves(const Study& study, Page& page) {
  page.section("curves", "Loss curves");
  Curves all = read_curves(study);
  if (all.runs == 0) {
    return page.absent("Left out: no run of this study has a readable metrics.jsonl.");
  }
  const std::size_t broken = all.broken_lines;
  const std::vector<std::string> without = all.without;
  add_curve_figures(study, std::move(all), page);
  if (broken > 0) {
    page.warning(fmt::format("{} of metrics.jsonl could not be read and {} not drawn.",
                             count_of(broken, "line"), broken == 1 ? "is" : "are"));
  }
  if (!without.empty()) page.absent("Without a curve: " + join_words(without) + ".");
}

void add_rates(const Study& study, Page& page) {
  page.section("rates", "Learning rates tried");
  const Json& rates = get(study.json, "rates");
  const Json& trials = list(rates, {"trials"});
  const Json& chosen = list(rates, {"chosen"});
  if (trials.empty() && chosen.empty()) {
    return page.absent("Left out: the study does not say which rates were tried or taken.");
  }
  for (const std::string& line : words(get(rates, "words"))) page.warning(line);
  if (trials.empty()) {
    page.absent("No trial runs: the rates were " +
                (text(get(rates, "how")).empty() ? "given" : text(get(rates, "how"))) + ".");
    return page.table(chosen_table(chosen), true);
  }
  DataTable table = trial_table(trials);
  std::vector<std::string> cells;
  std::set<std::string> seeds, different;
  Extent tokens;
  for (const Json& trial : trials) {
    const std::string cell = text(get(trial, "cell"));
    if (std::find(cells.begin(), cells.end(), cell) == cells.end()) cells.push_back(cell);
    seeds.insert(text(get(trial, "seed")));
    tokens.add(number(get(trial, "tokens")));
    different.insert(get(trial, "lr").dump());
  }
  std::vector<Panel> panels;
  for (const std::string& cell : cells) panels.push_back({cell, rate_spec(cell, trials)});
  std::vector<DataTable> tables;
  tables.push_back(std::move(table));
  tables.push_back(chosen_table(chosen));
  page.figure(
      {"rates",
       "Validation loss against learning rate, per arm",
       {{Mark::kDot, "baseline", "Baseline"},
        {Mark::kDiamond, "smelt", "SMELT"},
        {Mark::kDashed, "muted", "rate taken, in the arm's colour"}},
       std::move(panels),
       fmt::format("Validation loss of {} over {}, {} each ({}); lines go through the mean of each "
                   "rate. {}",
                   count_of(trials.size(), "trial"), count_of(different.size(), "rate"),
                   tokens.high ? si(tokens.high) + " tokens" : "an unknown number of tokens",
                   count_of(seeds.size(), "seed"), seed_words(study, seeds)),
       std::move(tables)});
}

}  // namespace smelt::report
