// Inside the models: router load per (layer, visit), attention sink and expert overlap of the
// second visit (paper section 8).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

struct Mean {
  double sum = 0;
  std::size_t n = 0;
  void add(std::optional<double> value) {
    if (!value) return;
    sum += *value;
    ++n;
  }
  std::optional<double> value() const {
    return n > 0 ? std::optional(sum / static_cast<double>(n)) : std::nullopt;
  }
};

int visit_of(const Json& entry) {
  return static_cast<int>(number(get(entry, "visit")).value_or(1));
}

/// "SMELT visit 1 0.31, SMELT visit 2 0.12 and Baseline 0.28"
std::string series_means(const std::map<std::string, Mean>& means, int digits) {
  std::vector<std::string> parts;
  for (const auto& [series, mean] : means)
    parts.push_back(series + " " + fixed(mean.value(), digits));
  return join_words(parts);
}

struct RouterTables {
  DataTable means{"router",
                  "Router load per layer and visit",
                  {{"cell", "cell"},
                   {"series", "arm and visit"},
                   {"layer", "layer", true},
                   {"max_load", "largest load", true},
                   {"entropy", "entropy of the loads", true},
                   {"unused", "unused experts", true},
                   {"seeds", "seeds", true}},
                  {}};
  DataTable seeds{"router-seeds",
                  "Router load per seed",
                  {{"cell", "cell"},
                   {"series", "arm and visit"},
                   {"layer", "layer", true},
                   {"seed", "seed"},
                   {"max_load", "largest load", true},
                   {"entropy", "entropy of the loads", true},
                   {"unused", "unused experts", true}},
                  {}};
  std::map<std::string, Mean> by_series;
  Extent unused;
};

RouterTables router_tables(const Json& entries) {
  struct Group {
    Mean load, entropy, unused;
  };
  RouterTables all;
  std::map<std::tuple<std::string, std::string, double>, Group> groups;
  for (const Json& entry : entries) {
    const std::string cell = text(get(entry, "cell"));
    const std::string series = series_name(text(get(entry, "arch")), visit_of(entry));
    const auto layer = number(get(entry, "layer"));
    const auto load = number(get(entry, "max_load")), entropy = number(get(entry, "entropy"));
    const auto unused = number(get(entry, "unused"));
    if (!layer) continue;
    all.seeds.add({text_cell(cell), text_cell(series), number_cell(layer),
                   text_cell(text(get(entry, "seed"))), number_cell(load, fixed(load, 3)),
                   number_cell(entropy, fixed(entropy, 4)), number_cell(unused)});
    Group& group = groups[{cell, series, *layer}];
    group.load.add(load);
    group.entropy.add(entropy);
    group.unused.add(unused);
    all.by_series[series].add(load);
    all.unused.add(unused);
  }
  for (const auto& [key, group] : groups) {
    const auto& [cell, series, layer] = key;
    all.means.add({text_cell(cell), text_cell(series), number_cell(layer),
                   number_cell(group.load.value(), fixed(group.load.value(), 3)),
                   number_cell(group.entropy.value(), fixed(group.entropy.value(), 4)),
                   number_cell(group.unused.value()),
                   number_cell(static_cast<double>(group.load.n))});
  }
  return all;
}

// ---- probes

struct SinkTables {
  DataTable means{"sink",
                  "Attention sink per executed layer",
                  {{"series", "arm and visit"},
                   {"layer", "layer", true},
                   {"executed", "place in execution order", true},
                   {"mass", "mean over heads", true},
                   {"standard_error", "standard error", true}},
                  {}};
  DataTable heads{"sink-heads",
                  "Attention sink per head",
                  {{"series", "arm and visit"},
                   {"layer", "layer", true},
                   {"head", "head"},
                   {"mass", "mass on the first token", true}},
                  {}};
  std::map<std::string, Mean> by_series;
};

SinkTables sink_tables(const Json& probe) {
  SinkTables all;
  for (const char* arm : kArms) {
    const Json& one = get(probe, arm);
    const Json& executed = list(one, {"executed"});
    const Json& sink = list(one, {"sink"});
    const Json& errors = list(one, {"standard_errors", "sink"});
    for (std::size_t e = 0; e < std::min(executed.size(), sink.size()); ++e) {
      const auto layer = number(get(executed[e], "layer"));
      if (!layer) continue;
      const std::string series = series_name(arm, visit_of(executed[e]));
      Mean mean;
      std::size_t head = 0;
      for (const Json& mass : sink[e]) {
        const auto value = number(mass);
        mean.add(value);
        all.heads.add({text_cell(series), number_cell(layer), text_cell(std::to_string(++head)),
                       number_cell(value, fixed(value, 4))});
      }
      const auto error = e < errors.size() ? number(errors[e]) : std::nullopt;
      all.means.add({text_cell(series), number_cell(layer), number_cell(static_cast<double>(e + 1)),
                     number_cell(mean.value(), fixed(mean.value(), 4)), number_cell(error)});
      all.by_series[series].add(mean.value());
    }
  }
  return all;
}

std::string probe_words(const Json& probe) {
  std::string out = "cell " + text(get(probe, "cell")) + ", seed " + text(get(probe, "seed"));
  if (const auto tokens = number(get(probe, "tokens")))
    out += ", " + whole(tokens) + " held-out tokens";
  return out;
}

}  // namespace

void add_router(const Study& study, Page& page) {
  page.section("router", "Router load");
  const Json& entries = list(study.json, {"router"});
  if (entries.empty()) return page.absent("Left out: the study has no router statistics.");
  RouterTables all = router_tables(entries);
  std::vector<Panel> panels;
  for (const std::string& cell : study.cells()) {
    const bool there = std::any_of(all.means.rows.begin(), all.means.rows.end(),
                                   [&](const auto& row) { return row[0].csv == cell; });
    if (!there) continue;
    panels.push_back(
        {cell, layer_spec({.means = "router",
                           .points = "router-seeds",
                           .y = "max_load",
                           .y_title = "largest load (1 = balanced)",
                           .where = {{"cell", cell}},
                           .rule = 1.0,
                           .tooltip = tooltip(
                               all.means, {"series", "layer", "max_load", "entropy", "unused"})})});
  }
  std::string caption =
      "Tokens sent to the busiest expert over the mean, at the end of training, per layer and "
      "visit; the dotted line is perfect "
      "balance. Mean over layers, cells and seeds: " +
      series_means(all.by_series, 2) + ".";
  if (all.unused.high) {
    caption += *all.unused.high == 0
                   ? " No expert is unused."
                   : " Up to " + count_of(static_cast<std::size_t>(*all.unused.high), "expert") +
                         " of a layer unused.";
  }
  page.figure({"router",
               "Largest expert load per layer and visit",
               series_key("one seed each"),
               std::move(panels),
               caption,
               {std::move(all.means), std::move(all.seeds)}});
}

void add_sink(const Study& study, Page& page) {
  page.section("sink", "Attention sink");
  const Json& probe = get(study.json, "probe");
  SinkTables all = sink_tables(probe);
  if (all.means.rows.empty()) return page.absent("Left out: the study has no attention probe.");
  const Json tips = tooltip(all.means, {"series", "layer", "mass", "standard_error"});
  Json spec = layer_spec({.means = "sink",
                          .points = "sink-heads",
                          .y = "mass",
                          .y_title = "attention on the first token",
                          .where = {},
                          .rule = {},
                          .tooltip = tips});
  const std::string caption = fmt::format(
      "Mean share of attention that goes to a document's first token, per layer ({}); small dots "
      "are heads, no error bars. Baseline "
      "at the same physical depth. Mean over layers: {}.",
      probe_words(probe), series_means(all.by_series, 3));
  page.figure({"sink",
               "Attention sink per layer: Baseline, SMELT visit 1, SMELT visit 2",
               series_key("single heads"),
               {{"", spec}},
               caption,
               {std::move(all.means), std::move(all.heads)},
               Layout::kOne});
}

void add_overlap(const Study& study, Page& page) {
  page.section("overlap", "Expert overlap between visits");
  const Json& probe = get(study.json, "probe");
  const Json& smelt = get(probe, "smelt");
  const auto chance = number(get(smelt, "expert_chance"));
  DataTable table{"overlap",
                  "Experts that both visits use",
                  {{"visits", "visits"},
                   {"layer", "layer", true},
                   {"overlap", "experts in common", true},
                   {"low", "minus one standard error", true},
                   {"high", "plus one standard error", true},
                   {"chance", "chance", true}},
                  {}};
  const Json& pairs = get(smelt, "pairs");
  Extent seen;
  bool errors = false;
  std::set<std::string> names;
  if (pairs.is_object()) {
    for (const auto& [name, pair] : pairs.items()) {
      const Json& standard = list(smelt, {"standard_errors", "pairs", name.c_str(), "layers"});
      std::size_t i = 0;
      for (const Json& layer : list(pair, {"layers"})) {
        const auto overlap = number(get(layer, "expert_overlap"));
        const auto error =
            i < standard.size() ? number(get(standard[i], "expert_overlap")) : std::nullopt;
        ++i;
        if (!overlap) continue;
        const auto low = error ? std::optional(*overlap - *error) : std::nullopt;
        const auto high = error ? std::optional(*overlap + *error) : std::nullopt;
        table.add({text_cell(name), number_cell(number(get(layer, "layer"))),
                   number_cell(overlap, fixed(overlap, 3)), number_cell(low, fixed(low, 3)),
                   number_cell(high, fixed(high, 3)), number_cell(chance, fixed(chance, 3))});
        seen.add(overlap);
        errors = errors || error;
        names.insert(name);
      }
    }
  }
  if (table.rows.empty()) {
    return page.absent("Left out: the study has no expert overlap between visits.");
  }
  Json spec = vega(R"({"height": 200, "encoding": {
      "x": {"field": "layer", "type": "ordinal", "title": "physical layer", "axis": {"labelAngle": 0, "grid": false}},
      "y": {"type": "quantitative", "title": "experts in common", "scale": {"zero": true}, "axis": {"tickCount": 5}}},
    "layer": [
      {"mark": {"type": "rule", "color": "@smelt", "strokeWidth": 1.6}, "transform": [{"filter": {"field": "low", "valid": true}}],
       "encoding": {"y": {"field": "low"}, "y2": {"field": "high"}}},
      {"mark": {"type": "point", "color": "@smelt", "size": 80, "opacity": 1}, "encoding": {"y": {"field": "overlap"},
        "shape": {"field": "visits", "type": "nominal", "legend": null}}}]})");
  spec["data"] = rows_of("overlap");
  spec["layer"][1]["encoding"]["tooltip"] =
      tooltip(table, {"visits", "layer", "overlap", "chance"});
  if (chance) {
    Json rule =
        vega(R"({"mark": {"type": "rule", "color": "@muted", "strokeDash": [4, 3]}, "encoding": {
      "x": {"value": 0}, "x2": {"value": "width"}, "y": {"field": "chance"}}})");
    rule["data"]["values"] = Json::array({{{"chance", *chance}}});
    spec["layer"].push_back(std::move(rule));
  }
  std::optional<double> top_k;
  for (const Json& cell : list(study.json, {"cells"})) {
    if (text(get(cell, "cell")) == text(get(probe, "cell")))
      top_k = number(get(cell, {"configs", "smelt", "num_experts_per_tok"}));
  }
  std::string caption =
      fmt::format("How many of a token's {} are the same on both visits of a layer ({}): {} to {}",
                  top_k ? compact(top_k) + " experts" : "experts", probe_words(probe),
                  fixed(seen.low, 2), fixed(seen.high, 2));
  if (chance) caption += ", where chance gives " + fixed(chance, 2);
  caption += errors ? ". Error bars: one standard error over documents." : ". No error bars.";
  std::vector<KeyEntry> key = {
      {Mark::kDot, "smelt", names.size() == 1 ? "visits " + *names.begin() : "visits, by shape"}};
  if (chance) key.push_back({Mark::kDashed, "muted", "chance"});
  page.figure({"overlap",
               "Expert overlap between visits per layer, against chance",
               key,
               {{"", spec}},
               caption,
               {std::move(table)},
               Layout::kOne});
}

}  // namespace smelt::report
