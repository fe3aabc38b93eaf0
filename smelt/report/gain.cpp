// The compute SMELT saves (paper section 6).
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/law_data.h"
#include "smelt/report/sections.h"

namespace smelt::report {

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
    caption += " The band is a 95 % interval over resampled cells, both arms together";
    if (draws) caption += fmt::format(" ({} draws, {} of them usable)", whole(draws), whole(used));
    caption += '.';
  } else {
    caption += " There is no interval.";
  }
  if (beyond) caption += " Open circles lie outside the compute of the endpoints.";
  if (const auto ratio = number(get(gain, "time_ratio"))) {
    caption += fmt::format(
        " A FLOP of SMELT took {} times as long as one of the Baseline here: in wall-clock time "
        "the "
        "share saved is 1 − {} · (1 − gain).",
        fixed(ratio, 2), fixed(ratio, 2));
  }
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
