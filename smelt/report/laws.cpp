// Endpoints, and the fitted surfaces and frontiers of both arms where the grid identifies them
// (paper section 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "smelt/core/error.h"
#include "smelt/law/bootstrap.h"
#include "smelt/law/frontier.h"
#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/law_data.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

constexpr int kCurvePoints = 40;

DataTable endpoint_table(const Study& study, const std::vector<Endpoint>& points,
                         const Laws& laws) {
  DataTable table{"endpoints",
                  "Endpoints",
                  {{"arch", "arm"},
                   {"cell", "cell"},
                   {"seed", "seed"},
                   {"sparsity", "sparsity S", true},
                   {"flops_per_token", "F (FLOPs per token)", true},
                   {"tokens", "tokens", true},
                   {"compute", "compute (FLOPs)", true},
                   {"lr", "learning rate", true},
                   {"loss", "validation loss (nats)", true},
                   {"fitted", "loss of the fitted law (nats)", true}},
                  {}};
  const Json& rows = list(study.json, {"endpoints"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Endpoint& point = points[i];
    const auto compute =
        point.flops && point.tokens ? std::optional(*point.flops * *point.tokens) : std::nullopt;
    const auto law = fitted(laws, point, point.tokens.value_or(0));
    table.add({arm_cell(point.arm), text_cell(point.cell), text_cell(text(get(rows[i], "seed"))),
               number_cell(point.sparsity), number_cell(point.flops),
               number_cell(point.tokens, whole(point.tokens)), number_cell(compute),
               number_cell(number(get(rows[i], "lr"))),
               number_cell(point.loss, fixed(point.loss, 4)), number_cell(law, fixed(law, 4))});
  }
  return table;
}

DataTable surface_table(const std::vector<Endpoint>& points, const Laws& laws) {
  DataTable table{"surfaces",
                  "Fitted loss over tokens",
                  {{"arch", "arm"},
                   {"cell", "cell"},
                   {"tokens", "tokens", true},
                   {"loss", "fitted loss (nats)", true}},
                  {}};
  std::map<std::string, Extent> tokens;
  for (const Endpoint& point : points) tokens[point.cell].add(point.tokens);
  std::set<std::pair<std::string, std::string>> done;
  for (const Endpoint& point : points) {
    const Extent& range = tokens[point.cell];
    if (!range.low || *range.low <= 0 || !done.insert({point.arm, point.cell}).second) continue;
    for (int i = 0; i < kCurvePoints; ++i) {
      const double at = *range.low * std::pow(*range.high / *range.low, i / (kCurvePoints - 1.0));
      const auto loss = fitted(laws, point, at);
      if (loss)
        table.add({arm_cell(point.arm), text_cell(point.cell), number_cell(at, whole(at)),
                   number_cell(loss, fixed(loss, 4))});
    }
  }
  return table;
}

/// Between which the middle 95 % of the draws' frontiers lie.
std::optional<law::Range> frontier_band(const Laws& laws, const std::string& arm, double compute,
                                        double sparsity) {
  const auto drawn = laws.drawn.find(arm);
  if (drawn == laws.drawn.end()) return std::nullopt;
  std::vector<double> losses;
  for (const law::Law& law : drawn->second) {
    if (law::has_frontier(law, sparsity)) {
      losses.push_back(law::frontier(law, compute, sparsity).loss);
    }
  }
  return law::percentile_interval(std::move(losses), 0.95);
}

DataTable frontier_table(const std::vector<Endpoint>& points, const Laws& laws) {
  DataTable table{"frontier",
                  "Compute-optimal frontier",
                  {{"arch", "arm"},
                   {"sparsity", "sparsity"},
                   {"compute", "compute (FLOPs)", true},
                   {"loss", "best loss (nats)", true},
                   {"low", "95 % of the draws, low", true},
                   {"high", "95 % of the draws, high", true},
                   {"flops_per_token", "best F", true},
                   {"tokens", "best tokens", true},
                   {"tokens_per_parameter", "tokens per parameter", true}},
                  {}};
  std::map<std::string, std::pair<double, Extent>> by_sparsity;
  for (const Endpoint& point : points) {
    if (!point.flops || !point.tokens) continue;
    auto& [value, range] = by_sparsity[sparsity_name(point.sparsity.value_or(0))];
    value = point.sparsity.value_or(0);
    range.add(*point.flops * *point.tokens);
  }
  for (const auto& [name, entry] : by_sparsity) {
    for (const auto& [arm, law] : laws.by_arm) {
      if (!law::has_frontier(law, entry.first) || !entry.second.low || *entry.second.low <= 0)
        continue;
      for (int i = 0; i < kCurvePoints; ++i) {
        const double compute = *entry.second.low * std::pow(*entry.second.high / *entry.second.low,
                                                            i / (kCurvePoints - 1.0));
        const law::Frontier best = law::frontier(law, compute, entry.first);
        const auto band = frontier_band(laws, arm, compute, entry.first);
        const auto low = band ? std::optional(band->min) : std::nullopt,
                   high = band ? std::optional(band->max) : std::nullopt;
        table.add({arm_cell(arm), text_cell(name), number_cell(compute),
                   number_cell(best.loss, fixed(best.loss, 4)), number_cell(low, fixed(low, 4)),
                   number_cell(high, fixed(high, 4)), number_cell(best.flops_per_token),
                   number_cell(best.tokens), number_cell(best.tokens_per_parameter)});
      }
    }
  }
  return table;
}

DataTable coefficient_table(const Study& study, const Laws& laws) {
  DataTable table{"coefficients",
                  "Coefficients of the fitted laws",
                  {{"arch", "arm"},
                   {"coefficient", "coefficient"},
                   {"value", "value", true},
                   {"low", "interval, low", true},
                   {"high", "interval, high", true},
                   {"standard_error", "standard error", true}},
                  {}};
  for (const auto& [arm, law] : laws.by_arm) {
    const Json& fit = get(study.json, {"law", arm.c_str()});
    for (std::size_t i = 0; i < law.coefficients.size(); ++i) {
      const std::string& name = law.form->coefficients[i];
      const auto range = interval(get(fit, {"intervals", name.c_str()}));
      table.add({arm_cell(arm), text_cell(name), number_cell(law.coefficients[i]),
                 number_cell(range ? std::optional(range->low) : std::nullopt),
                 number_cell(range ? std::optional(range->high) : std::nullopt),
                 number_cell(number(get(fit, {"standard_errors", name.c_str()})))});
    }
  }
  return table;
}

/// Points of both arms, and the line of `curves` when there is one.
Json loss_spec(const std::string& x, const std::string& x_title, const Json& points,
               const Json& curves, const Json& tips) {
  Json spec = vega(R"({"height": 200, "encoding": {
      "x": {"type": "quantitative", "scale": {"type": "log", "nice": false, "padding": 12},
            "axis": {"tickCount": 4, "grid": false}},
      "y": {"field": "loss", "type": "quantitative", "title": "validation loss, nats",
            "scale": {"zero": false, "padding": 8}, "axis": {"tickCount": 5}}},
    "layer": [{"mark": {"type": "point", "size": 46, "opacity": 0.85}, "encoding": {
      "shape": {"field": "arch", "type": "nominal", "legend": null,
                "scale": {"domain": ["baseline", "smelt"], "range": ["circle", "diamond"]}}}}]})");
  spec["encoding"]["x"]["field"] = x;
  spec["encoding"]["x"]["title"] = x_title;
  spec["encoding"]["x"]["axis"]["format"] = x == "compute" ? ".0e" : "~s";
  spec["encoding"]["color"] = arm_colour();
  spec["layer"][0]["data"] = points;
  spec["layer"][0]["encoding"]["tooltip"] = tips;
  if (!curves.is_null()) {
    Json band = vega(R"({"mark": {"type": "area", "opacity": 0.18},
      "transform": [{"filter": {"field": "low", "valid": true}}],
      "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}})");
    band["data"] = curves;
    if (x == "compute") spec["layer"].push_back(std::move(band));
    Json line = vega(R"({"mark": {"type": "line", "strokeWidth": 1.6}})");
    line["data"] = curves;
    spec["layer"].push_back(std::move(line));
  }
  return spec;
}

std::vector<KeyEntry> loss_key(const std::string& line) {
  std::vector<KeyEntry> key = {{Mark::kDot, "baseline", "Baseline"},
                               {Mark::kDiamond, "smelt", "SMELT"}};
  if (!line.empty()) key.push_back({Mark::kLine, "muted", line});
  return key;
}

void add_law_figures(const Study& study, const std::vector<Endpoint>& points, const Laws& laws,
                     Page& page) {
  const Json& first = get(study.json, {"law", "baseline"});
  page.paragraph(fmt::format("Both arms are fitted apart with {} (form {}).",
                             text(get(first, "equation")), text(get(first, "form"))));
  page.table(coefficient_table(study, laws), true);
  DataTable frontier = frontier_table(points, laws);
  if (frontier.rows.empty()) return;
  std::set<std::string> names;
  for (const auto& row : frontier.rows) names.insert(row[1].csv);
  std::vector<Panel> panels;
  for (const std::string& name : names) {
    panels.push_back({name, loss_spec("compute", "compute, FLOPs",
                                      rows_of("frontier-points", {{"sparsity", name}}),
                                      rows_of("frontier", {{"sparsity", name}}), Json::array())});
  }
  DataTable dots{"frontier-points",
                 "Endpoints by compute",
                 {{"arch", "arm"},
                  {"cell", "cell"},
                  {"sparsity", "sparsity"},
                  {"compute", "compute (FLOPs)", true},
                  {"loss", "validation loss (nats)", true}},
                 {}};
  for (const Endpoint& point : points) {
    if (!point.flops || !point.tokens) continue;
    dots.add({arm_cell(point.arm), text_cell(point.cell),
              text_cell(sparsity_name(point.sparsity.value_or(0))),
              number_cell(*point.flops * *point.tokens),
              number_cell(point.loss, fixed(point.loss, 4))});
  }
  std::string caption =
      "The lowest loss each arm's law reaches at a given compute, over the range of the endpoints "
      "(points: what was trained, each at its own F and tokens, so mostly above the frontier).";
  std::vector<KeyEntry> key = loss_key("frontier of the fitted law");
  if (!laws.drawn.empty()) {
    key.push_back({Mark::kBand, "muted", "95 % of the draws"});
    caption += " Bands: 95 % of the bootstrap's draws.";
  }
  page.figure({"frontier",
               "Loss against compute with each arm's compute-optimal frontier",
               std::move(key),
               std::move(panels),
               caption,
               {std::move(frontier), std::move(dots)}});
}

/// By how much each arm's law misses every endpoint.
void add_residuals(const std::vector<Endpoint>& points, const Laws& laws, Page& page) {
  DataTable table{"residuals",
                  "Residuals of the fitted laws",
                  {{"arch", "arm"},
                   {"cell", "cell"},
                   {"compute", "compute (FLOPs)", true},
                   {"tokens_per_flop", "tokens per FLOP of one", true},
                   {"residual", "law over loss − 1 (%)", true}},
                  {}};
  for (const Endpoint& point : points) {
    const auto law = fitted(laws, point, point.tokens.value_or(0));
    if (!law || !point.loss || !point.compute()) continue;
    const double residual = 100 * (*law / *point.loss - 1);
    table.add({arm_cell(point.arm), text_cell(point.cell), number_cell(point.compute()),
               number_cell(*point.tokens / *point.flops),
               number_cell(residual, with_sign(residual, 2))});
  }
  if (table.rows.empty()) return;
  std::vector<Panel> panels;
  for (const auto& [key, title] : {std::pair{"compute", "compute, FLOPs"},
                                   std::pair{"tokens_per_flop", "D / F, tokens per FLOP of one"}}) {
    Json spec = vega(R"({"height": 180, "encoding": {
        "x": {"type": "quantitative", "scale": {"type": "log", "nice": false, "padding": 12},
              "axis": {"format": ".0e", "tickCount": 4, "grid": false}},
        "y": {"field": "residual", "type": "quantitative", "title": "law over loss − 1, %", "axis": {"tickCount": 5}}},
      "layer": [
        {"mark": {"type": "rule", "color": "@muted"}, "encoding": {"y": {"datum": 0, "type": "quantitative"}, "x": {"value": 0}, "x2": {"value": "width"}}},
        {"mark": {"type": "point", "size": 46, "opacity": 0.85}, "encoding": {
          "shape": {"field": "arch", "type": "nominal", "legend": null,
                    "scale": {"domain": ["baseline", "smelt"], "range": ["circle", "diamond"]}}}}]})");
    spec["encoding"]["x"]["field"] = key;
    spec["encoding"]["x"]["title"] = title;
    spec["layer"][1]["encoding"]["color"] = arm_colour();
    spec["layer"][1]["encoding"]["tooltip"] = tooltip(table, {"arch", "cell", "residual"});
    spec["data"] = rows_of("residuals");
    panels.push_back({std::string("over ") + (std::string(key) == "compute" ? "compute" : "D / F"),
                      std::move(spec)});
  }
  page.figure({"residuals",
               "By how much each law misses its endpoints",
               loss_key(""),
               std::move(panels),
               "A law that bends away from its points shows here as a trend.",
               {std::move(table)}});
}

/// The exponents that the bootstrap drew, one pair of them against each other.
void add_draws(const Laws& laws, Page& page) {
  constexpr std::size_t kMostDraws = 300;
  const law::Form& form = *laws.by_arm.begin()->second.form;
  const std::size_t first = 1 + form.amplitudes, last = form.coefficients.size() - 1;
  if (first >= last) return;
  const std::string x = form.coefficients[first], y = form.coefficients[last];
  DataTable table{"draws",
                  "Exponents in the bootstrap's draws",
                  {{"arch", "arm"}, {"x", "exponent " + x, true}, {"y", "exponent " + y, true}},
                  {}};
  for (const auto& [arm, drawn] : laws.drawn) {
    for (std::size_t i = 0; i < std::min(kMostDraws, drawn.size()); ++i) {
      const double a = drawn[i].coefficients[first], c = drawn[i].coefficients[last];
      table.add({arm_cell(arm), number_cell(a, fixed(a, 4)), number_cell(c, fixed(c, 4))});
    }
  }
  if (table.rows.empty()) return;
  Json spec = vega(
      R"({"height": 230, "mark": {"type": "point", "size": 14, "opacity": 0.45, "filled": true},
    "encoding": {
      "x": {"field": "x", "type": "quantitative", "scale": {"zero": false, "padding": 8}, "axis": {"tickCount": 5}},
      "y": {"field": "y", "type": "quantitative", "scale": {"zero": false, "padding": 8}, "axis": {"tickCount": 5}},
      "shape": {"field": "arch", "type": "nominal", "legend": null,
                "scale": {"domain": ["baseline", "smelt"], "range": ["circle", "diamond"]}}}})");
  spec["encoding"]["x"]["title"] = "exponent " + x;
  spec["encoding"]["y"]["title"] = "exponent " + y;
  spec["encoding"]["color"] = arm_colour();
  spec["data"] = rows_of("draws");
  page.figure({"draws",
               "What the bootstrap drew: exponents of both laws",
               loss_key(""),
               {{"", std::move(spec)}},
               "Each point is one draw of cells with both laws searched anew. A long cloud means "
               "that the grid hardly tells the two exponents apart; overlapping clouds, that it "
               "hardly tells the arms' exponents apart.",
               {std::move(table)}});
}

}  // namespace

void add_endpoints(const Study& study, Page& page) {
  page.section("laws", "Endpoints and scaling laws");
  const std::vector<Endpoint> points = endpoints_of(study);
  if (points.empty()) return page.absent("Left out: no run has reached an endpoint yet.");
  const Laws laws = read_laws(study);
  const bool drawn = !laws.by_arm.empty();
  if (!drawn) {
    page.paragraph("No law is drawn: this study's endpoints do not determine one for both arms.");
    for (const std::string& line : laws.words) page.paragraph(line);
  }
  DataTable table = endpoint_table(study, points, laws);
  const Json tips = tooltip(table, {"arch", "seed", "tokens", "lr", "loss", "fitted"});
  std::vector<Panel> panels;
  for (const std::string& cell : study.cells()) {
    if (std::none_of(points.begin(), points.end(),
                     [&](const Endpoint& p) { return p.cell == cell; }))
      continue;
    panels.push_back(
        {cell, loss_spec("tokens", "tokens", rows_of("endpoints", {{"cell", cell}}),
                         drawn ? rows_of("surfaces", {{"cell", cell}}) : Json(), tips)});
  }
  std::vector<DataTable> tables;
  double squares = 0;
  std::size_t n = 0;
  for (const Endpoint& point : points) {
    const auto law = fitted(laws, point, point.tokens.value_or(0));
    if (!law || !point.loss) continue;
    squares += (*law - *point.loss) * (*law - *point.loss);
    ++n;
  }
  tables.push_back(std::move(table));
  if (drawn) tables.push_back(surface_table(points, laws));
  std::string caption =
      fmt::format("Validation loss of {} at the end of training (each seed a point).",
                  count_of(points.size(), "endpoint"));
  if (n > 0) {
    caption += fmt::format(
        " Lines: each arm's fitted law at the cell's F and S; it misses the endpoints by {} nats "
        "(root mean square).",
        fixed(std::sqrt(squares / static_cast<double>(n)), 4));
  }
  page.figure({"endpoints", "Validation loss of every endpoint over tokens",
               loss_key(drawn ? "fitted law" : ""), std::move(panels), caption, std::move(tables)});
  if (drawn) {
    for (const std::string& line : laws.words) page.paragraph(line);
    add_law_figures(study, points, laws, page);
    add_residuals(points, laws, page);
    add_draws(laws, page);
  }
}

}  // namespace smelt::report
