// The loss gap, Baseline minus SMELT: per cell and horizon, per domain, per document length.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

/// "600k tokens", the label of a horizon.
std::string horizon(std::optional<double> tokens) {
  return tokens ? si(tokens) + " tokens" : "unknown horizon";
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

struct GapTables {
  DataTable means{"gaps",
                  "Loss gap per cell and horizon",
                  {{"cell", "cell"},
                   {"horizon", "horizon"},
                   {"tokens", "tokens", true},
                   {"compute", "compute (FLOPs)", true},
                   {"gap", "gap (nats)", true},
                   {"standard_error", "standard error", true},
                   {"low", "interval, low", true},
                   {"high", "interval, high", true},
                   {"seeds", "seeds", true},
                   {"within_noise", "within noise"}},
                  {}};
  DataTable seeds{
      "gap-seeds",
      "Loss gap of each seed",
      {{"cell", "cell"}, {"horizon", "horizon"}, {"seed", "seed"}, {"gap", "gap (nats)", true}},
      {}};
  std::vector<std::string> horizons;
  Extent range;
  std::size_t better = 0, decided = 0, fewest_seeds = 0, most_seeds = 0;
  double level = 0.95;
  bool intervals = false;
};

GapTables gap_tables(const Json& gaps) {
  GapTables all;
  std::set<std::pair<double, std::string>> horizons;
  all.range.add(0.0);
  for (const Json& entry : gaps) {
    const std::string cell = text(get(entry, "cell"));
    const auto tokens = number(get(entry, "tokens"));
    const auto gap = number(get(entry, "gap"));
    const auto error = number(get(entry, "standard_error"));
    const auto range = interval(get(entry, "interval"));
    const auto compute = number(get(entry, "flops"));
    const Json& seeds = list(entry, {"per_seed"});
    const auto low = range ? std::optional(range->low) : std::nullopt;
    const auto high = range ? std::optional(range->high) : std::nullopt;
    const double count = static_cast<double>(seeds.size());
    const Json& noise = get(entry, "within_noise");
    all.means.add({text_cell(cell), text_cell(horizon(tokens)), number_cell(tokens, whole(tokens)),
                   number_cell(compute), number_cell(gap, with_sign(gap, 4)),
                   number_cell(error, fixed(error, 4)), number_cell(low, with_sign(low, 4)),
                   number_cell(high, with_sign(high, 4)), number_cell(count),
                   text_cell(noise.is_boolean() ? (truth(noise) ? "yes" : "no") : "")});
    horizons.insert({tokens.value_or(0), horizon(tokens)});
    for (const auto& value : {gap, low, high}) all.range.add(value);
    for (const Json& seed : seeds) {
      const auto value = number(get(seed, "gap"));
      all.seeds.add({text_cell(cell), text_cell(horizon(tokens)),
                     text_cell(text(get(seed, "seed"))), number_cell(value, with_sign(value, 4))});
      all.range.add(value);
    }
    all.better += gap && *gap > 0 ? 1 : 0;
    all.decided += noise.is_boolean() && !truth(noise) ? 1 : 0;
    all.intervals = all.intervals || range;
    all.level = number(get(entry, "level")).value_or(all.level);
    all.most_seeds = std::max(all.most_seeds, seeds.size());
    all.fewest_seeds =
        all.means.rows.size() == 1 ? seeds.size() : std::min(all.fewest_seeds, seeds.size());
  }
  for (const auto& [tokens, name] : horizons) add_new(all.horizons, name);
  return all;
}

std::string seeds_words(std::size_t fewest, std::size_t most) {
  return fewest == most ? "n = " + count_of(most, "seed")
                        : fmt::format("n = {} to {} seeds", fewest, most);
}

}  // namespace

void add_gaps(const Study& study, Page& page) {
  page.section("gap", "The loss gap");
  const Json& gaps = list(study.json, {"gaps"});
  if (gaps.empty()) return page.absent("Left out: no pair has an endpoint on both arms yet.");
  GapTables all = gap_tables(gaps);
  std::vector<Panel> panels;
  for (const std::string& cell : study.cells()) {
    std::vector<std::string> order;
    for (const auto& row : all.means.rows) {
      if (row[0].csv == cell) add_new(order, row[1].csv);
    }
    if (order.empty()) continue;
    panels.push_back(
        {cell, forest_spec({.means = "gaps",
                            .seeds = "gap-seeds",
                            .y = "horizon",
                            .y_title = "",
                            .order = all.horizons,
                            .where = {{"cell", cell}},
                            .interval = all.intervals,
                            .domain = all.range.domain(),
                            .tooltip = tooltip(all.means, {"horizon", "gap", "standard_error",
                                                           "low", "high", "seeds"})})});
  }
  const std::string bars =
      all.intervals ? fmt::format("lines are {:.0f} % intervals of the mean (Student t over seeds)",
                                  100 * all.level)
                    : std::string("one seed gives no interval");
  page.figure({"gap",
               "Loss gap per cell and horizon with seeds and intervals",
               forest_key(all.intervals),
               std::move(panels),
               fmt::format("Validation loss of the Baseline minus SMELT's. SMELT is better in {} "
                           "of {} (cell, horizon), beyond the noise of "
                           "the seeds in {}. {}; {}.",
                           all.better, all.means.rows.size(), all.decided,
                           seeds_words(all.fewest_seeds, all.most_seeds), bars),
               {std::move(all.means), std::move(all.seeds)}});
}

void add_domains(const Study& study, Page& page) {
  page.section("domains", "The gap per domain");
  const Json& entries = list(study.json, {"domains"});
  if (entries.empty()) return page.absent("Left out: the study has no losses per domain.");
  DataTable means{"domains",
                  "Loss per domain",
                  {{"cell", "cell"},
                   {"horizon", "horizon"},
                   {"domain", "domain"},
                   {"baseline", "Baseline (nats)", true},
                   {"smelt", "SMELT (nats)", true},
                   {"gap", "gap (nats)", true},
                   {"drawn", "drawn"}},
                  {}};
  DataTable seeds{"domain-seeds",
                  "Gap per domain and seed",
                  {{"cell", "cell"},
                   {"domain", "domain"},
                   {"seed", "seed"},
                   {"gap", "gap (nats)", true},
                   {"drawn", "drawn"}},
                  {}};
  std::vector<std::string> domains, cells;
  Extent range, best;
  range.add(0.0);
  std::string best_words;
  std::size_t better = 0, drawn = 0;
  for (const Json& entry : entries) {
    const std::string cell = text(get(entry, "cell")), domain = text(get(entry, "domain"));
    const auto tokens = number(get(entry, "tokens"));
    const auto gap = number(get(entry, "gap"));
    const bool longest = tokens == study.longest("domains", cell);
    const std::string shown = longest ? "yes" : "no";
    const auto baseline = number(get(entry, "baseline")), smelt = number(get(entry, "smelt"));
    means.add({text_cell(cell), text_cell(horizon(tokens)), text_cell(domain),
               number_cell(baseline, fixed(baseline, 4)), number_cell(smelt, fixed(smelt, 4)),
               number_cell(gap, with_sign(gap, 4)), text_cell(shown)});
    for (const Json& seed : list(entry, {"per_seed"})) {
      const auto value = number(get(seed, "gap"));
      seeds.add({text_cell(cell), text_cell(domain), text_cell(text(get(seed, "seed"))),
                 number_cell(value, with_sign(value, 4)), text_cell(shown)});
      if (longest) range.add(value);
    }
    add_new(domains, domain);
    add_new(cells, cell);
    if (!longest || !gap) continue;
    range.add(gap);
    ++drawn;
    better += *gap > 0 ? 1 : 0;
    if (!best.high || *gap > *best.high)
      best_words = fmt::format("{} in cell {} ({})", domain, cell, with_sign(gap, 4));
    best.add(gap);
  }
  std::vector<Panel> panels;
  for (const std::string& cell : cells) {
    panels.push_back(
        {cell, forest_spec({.means = "domains",
                            .seeds = seeds.rows.empty() ? "" : "domain-seeds",
                            .y = "domain",
                            .y_title = "",
                            .order = domains,
                            .where = {{"cell", cell}, {"drawn", "yes"}},
                            .interval = false,
                            .domain = range.domain(),
                            .tooltip = tooltip(means, {"domain", "baseline", "smelt", "gap"})})});
  }
  std::string caption = fmt::format(
      "Gap per domain at each cell's longest horizon, mean of {}; SMELT is better in {} of {} "
      "(cell, domain).",
      count_of(study.seeds().size(), "seed"), better, drawn);
  if (!best_words.empty()) caption += " It is largest for " + best_words + ".";
  caption += " Open circles are the seeds; there are no error bars.";
  std::vector<DataTable> tables;
  tables.push_back(std::move(means));
  if (!seeds.rows.empty()) tables.push_back(std::move(seeds));
  page.figure({"domains", "Loss gap per domain with seeds", forest_key(false), std::move(panels),
               caption, std::move(tables)});
}

void add_lengths(const Study& study, Page& page) {
  page.section("lengths", "The gap per document length");
  const Json& entries = list(study.json, {"lengths"});
  if (entries.empty()) return page.absent("Left out: the study has no losses per document length.");
  DataTable table{"lengths",
                  "Loss per document length",
                  {{"cell", "cell"},
                   {"horizon", "horizon"},
                   {"bucket", "document length (tokens)"},
                   {"cut", "cut to the window"},
                   {"documents", "documents", true},
                   {"scored_tokens", "scored tokens", true},
                   {"baseline", "Baseline (nats)", true},
                   {"smelt", "SMELT (nats)", true},
                   {"gap", "gap (nats)", true},
                   {"drawn", "drawn"}},
                  {}};
  std::set<std::pair<double, std::string>> buckets;
  std::vector<std::string> cells;
  Extent range;
  range.add(0.0);
  bool any_cut = false;
  for (const Json& entry : entries) {
    const std::string cell = text(get(entry, "cell")), bucket = text(get(entry, "bucket"));
    const auto tokens = number(get(entry, "tokens"));
    const auto gap = number(get(entry, "gap"));
    const bool longest = tokens == study.longest("lengths", cell);
    const auto documents = number(get(entry, "documents")),
               scored = number(get(entry, "scored_tokens"));
    const auto baseline = number(get(entry, "baseline")), smelt = number(get(entry, "smelt"));
    table.add({text_cell(cell), text_cell(horizon(tokens)), text_cell(bucket),
               text_cell(truth(get(entry, "cut")) ? "cut" : "whole"),
               number_cell(documents, whole(documents)), number_cell(scored, whole(scored)),
               number_cell(baseline, fixed(baseline, 4)), number_cell(smelt, fixed(smelt, 4)),
               number_cell(gap, with_sign(gap, 4)), text_cell(longest ? "yes" : "no")});
    // A bucket without an upper end comes last.
    buckets.insert({number(get(entry, "max_tokens")).value_or(1e18), bucket});
    add_new(cells, cell);
    if (!longest) continue;
    range.add(gap);
    any_cut = any_cut || truth(get(entry, "cut"));
  }
  std::vector<std::string> order;
  for (const auto& [size, name] : buckets) add_new(order, name);
  std::vector<Panel> panels;
  for (const std::string& cell : cells) {
    Json spec = vega(R"({"height": 190, "encoding": {
        "x": {"field": "bucket", "type": "nominal", "title": "document length, tokens",
              "axis": {"labelAngle": -40, "labelOverlap": false, "grid": false}},
        "y": {"field": "gap", "type": "quantitative", "title": "gap, nats", "axis": {"tickCount": 5}}},
      "layer": [
        {"mark": {"type": "rule", "color": "@muted"}, "data": {"values": [{"gap": 0}]},
         "encoding": {"x": {"value": 0}, "x2": {"value": "width"}}},
        {"mark": {"type": "line", "color": "@smelt", "strokeWidth": 1.4}},
        {"mark": {"type": "point", "size": 70, "stroke": "@smelt", "strokeWidth": 2, "opacity": 1}, "encoding": {
          "fill": {"field": "cut", "type": "nominal", "legend": null,
                   "scale": {"domain": ["whole", "cut"], "range": ["@smelt", "@paper"]}}}}]})");
    spec["data"] = rows_of("lengths", {{"cell", cell}, {"drawn", "yes"}});
    spec["encoding"]["x"]["sort"] = order;
    spec["encoding"]["y"]["scale"] = {{"domain", range.domain()}, {"nice", false}};
    spec["layer"][2]["encoding"]["tooltip"] =
        tooltip(table, {"bucket", "cut", "documents", "scored_tokens", "baseline", "smelt", "gap"});
    panels.push_back({cell, std::move(spec)});
  }
  std::string caption = fmt::format(
      "Gap by length of the validation document at each cell's longest horizon, mean of {}; "
      "token-weighted within a "
      "length, no error bars.",
      count_of(study.seeds().size(), "seed"));
  if (any_cut)
    caption += " Open circles: documents longer than the training window, scored in pieces of it.";
  std::vector<KeyEntry> key = {{Mark::kDot, "smelt", "whole documents"}};
  if (any_cut) key.push_back({Mark::kRing, "smelt", "cut to the window"});
  page.figure({"lengths",
               "Loss gap per document length",
               key,
               std::move(panels),
               caption,
               {std::move(table)}});
}

}  // namespace smelt::report
