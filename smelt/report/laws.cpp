// Endpoints, the fitted surfaces and frontiers of both arms where the grid identifies them, and the
// compute SMELT saves (paper section 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "smelt/core/error.h"
#include "smelt/law/frontier.h"
#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

constexpr int kCurvePoints = 40;

struct Laws {
  std::map<std::string, law::Law> by_arm;
  std::vector<std::string> words;  // why there are none
};

/// Both laws when the study says they are identifiable and they can be read.
Laws read_laws(const Study& study) {
  Laws laws;
  const Json& json = get(study.json, "law");
  laws.words = words(get(json, "words"));
  if (!truth(get(json, "identifiable"))) return laws;
  try {
    for (const char* arm : kArms) {
      laws.by_arm[arm] =
          law::law_from_json(get(json, arm), std::string("study.json, law of ") + arm);
    }
  } catch (const std::exception& problem) {
    laws.by_arm.clear();
    laws.words.push_back(std::string("The fitted laws could not be read: ") + problem.what());
  }
  return laws;
}

struct Endpoint {
  std::string arm, cell;
  std::optional<double> flops, sparsity, tokens, loss, parameters;
};

std::vector<Endpoint> endpoints_of(const Study& study) {
  std::map<std::pair<std::string, std::string>, std::optional<double>> parameters;
  for (const Json& cell : list(study.json, {"cells"})) {
    for (const char* arm : kArms) {
      parameters[{text(get(cell, "cell")), arm}] =
          number(get(cell, {"budgets", arm, "parameters", "total"}));
    }
  }
  std::vector<Endpoint> all;
  for (const Json& row : list(study.json, {"endpoints"})) {
    Endpoint point{text(get(row, "arch")),
                   text(get(row, "cell")),
                   number(get(row, "flops_per_token")),
                   number(get(row, "sparsity")),
                   number(get(row, "tokens")),
                   number(get(row, "loss")),
                   {}};
    point.parameters = parameters[{point.cell, point.arm}];
    all.push_back(std::move(point));
  }
  return all;
}

std::optional<double> fitted(const Laws& laws, const Endpoint& at, double tokens) {
  const auto law = laws.by_arm.find(at.arm);
  if (law == laws.by_arm.end()) return std::nullopt;
  const auto size = law->second.form->size == law::SizeKind::kParameters ? at.parameters : at.flops;
  if (!size || *size <= 0 || tokens <= 0) return std::nullopt;
  const double loss = law::evaluate(law->second, {*size, at.sparsity.value_or(0), tokens});
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

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

std::string sparsity_name(double sparsity) {
  return fmt::format("S = {:.3g}", sparsity);
}

DataTable frontier_table(const std::vector<Endpoint>& points, const Laws& laws) {
  DataTable table{"frontier",
                  "Compute-optimal frontier",
                  {{"arch", "arm"},
                   {"sparsity", "sparsity"},
                   {"compute", "compute (FLOPs)", true},
                   {"loss", "best loss (nats)", true},
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
        table.add({arm_cell(arm), text_cell(name), number_cell(compute),
                   number_cell(best.loss, fixed(best.loss, 4)), number_cell(best.flops_per_token),
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
  page.figure({"frontier",
               "Loss against compute with each arm's compute-optimal frontier",
               loss_key("frontier of the fitted law"),
               std::move(panels),
               "The lowest loss each arm's law reaches at a given compute, over the range of the "
               "endpoints (points: what was "
               "trained, each at its own F and tokens, so mostly above the frontier).",
               {std::move(frontier), std::move(dots)}});
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
  }
}

void add_gain(const Study& study, Page& page) {
  page.section("gain", "Compute saved (CE Gain)");
  const Json& gain = get(study.json, "gain");
  const Json& points =
      list(gain, {"points"}).empty() ? list(gain, {"gain", "points"}) : list(gain, {"points"});
  DataTable table{"gain",
                  "CE Gain",
                  {{"compute", "compute (FLOPs)", true},
                   {"sparsity", "sparsity"},
                   {"gain", "gain (%)", true},
                   {"low", "interval, low (%)", true},
                   {"high", "interval, high (%)", true},
                   {"loss_gap", "frontier loss gap (nats)", true},
                   {"tpp_reference", "tokens per parameter, Baseline", true},
                   {"tpp_target", "tokens per parameter, SMELT", true},
                   {"extrapolated", "extrapolated"},
                   {"words", "words"}},
                  {}};
  std::set<std::string> names;
  Extent seen;
  bool band = false, beyond = false;
  for (const Json& point : points) {
    const auto share = number(get(point, "gain"));
    const auto range = interval(get(point, "interval"));
    const auto in_percent = [](std::optional<double> x) { return x ? std::optional(100 * *x) : x; };
    const auto value = in_percent(share);
    const auto low = in_percent(range ? std::optional(range->low) : std::nullopt);
    const auto high = in_percent(range ? std::optional(range->high) : std::nullopt);
    const std::string name = sparsity_name(number(get(point, "sparsity")).value_or(0));
    const auto loss_gap = number(get(point, "loss_gap"));
    const bool outside = truth(get(point, "extrapolated"));
    table.add({number_cell(number(get(point, "compute"))), text_cell(name),
               number_cell(value, with_sign(value, 1)), number_cell(low, with_sign(low, 1)),
               number_cell(high, with_sign(high, 1)), number_cell(loss_gap, with_sign(loss_gap, 4)),
               number_cell(number(get(point, "tpp_reference"))),
               number_cell(number(get(point, "tpp_target"))), text_cell(outside ? "yes" : "no"),
               text_cell(text(get(point, "words")))});
    if (!value) continue;
    names.insert(name);
    seen.add(value);
    band = band || range;
    beyond = beyond || outside;
  }
  std::vector<std::string> reasons = words(get(gain, "words"));
  for (const std::string& line : words(get(gain, "warnings"))) {
    if (std::find(reasons.begin(), reasons.end(), line) == reasons.end()) reasons.push_back(line);
  }
  if (names.empty()) {
    if (reasons.empty()) {
      page.paragraph(
          "No gain is stated: it needs a law of both arms that the endpoints determine.");
    }
    for (const std::string& line : reasons) page.paragraph(line);
    if (!table.rows.empty()) page.table(std::move(table), false);
    return;
  }
  std::vector<Panel> panels;
  for (const std::string& name : names) {
    Json spec = vega(R"({"height": 210, "encoding": {
        "x": {"field": "compute", "type": "quantitative", "title": "compute, FLOPs",
              "scale": {"type": "log", "nice": false, "padding": 12}, "axis": {"format": ".0e", "tickCount": 4, "grid": false}}},
      "transform": [{"filter": {"field": "gain", "valid": true}}],
      "layer": [
        {"mark": {"type": "rule", "color": "@muted"}, "encoding": {"y": {"datum": 0, "type": "quantitative"}, "x": {"value": 0}, "x2": {"value": "width"}}},
        {"mark": {"type": "area", "color": "@smelt", "opacity": 0.22}, "transform": [{"filter": {"field": "low", "valid": true}}],
         "encoding": {"y": {"field": "low", "type": "quantitative", "title": "CE Gain, %", "axis": {"tickCount": 5}}, "y2": {"field": "high"}}},
        {"mark": {"type": "line", "color": "@smelt"}, "encoding": {"y": {"field": "gain", "type": "quantitative"}}},
        {"mark": {"type": "point", "size": 60, "stroke": "@smelt", "strokeWidth": 2, "opacity": 1}, "encoding": {
          "y": {"field": "gain", "type": "quantitative"},
          "fill": {"field": "extrapolated", "type": "nominal", "legend": null,
                   "scale": {"domain": ["no", "yes"], "range": ["@smelt", "@paper"]}}}}]})");
    spec["data"] = rows_of("gain", {{"sparsity", name}});
    spec["layer"][3]["encoding"]["tooltip"] =
        tooltip(table, {"compute", "gain", "low", "high", "loss_gap"});
    panels.push_back({name, std::move(spec)});
  }
  const auto draws = number(get(gain, "draws")), used = number(get(gain, "draws_used"));
  std::string caption =
      "The share of compute SMELT's frontier saves against the Baseline's at equal loss: " +
      with_sign(seen.low, 1) + " to " + with_sign(seen.high, 1) + " %.";
  if (band) {
    caption += " The band is a percentile interval over resampled cells, both arms together";
    if (draws) caption += fmt::format(" ({} draws, {} of them usable)", whole(draws), whole(used));
    caption += '.';
  } else {
    caption += " There is no interval.";
  }
  if (beyond) caption += " Open circles lie outside the compute of the endpoints.";
  std::vector<KeyEntry> key = {{Mark::kDot, "smelt", "CE Gain"}};
  if (band) key.push_back({Mark::kBand, "smelt", "interval"});
  for (const std::string& line : reasons) page.paragraph(line);
  page.figure({"gain",
               "CE Gain against compute with its interval",
               key,
               std::move(panels),
               caption,
               {std::move(table)}});
}

}  // namespace smelt::report
