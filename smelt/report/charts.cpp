#include "smelt/report/charts.h"

#include <algorithm>
#include <cmath>

namespace smelt::report {

Json vega(std::string_view json) {
  return Json::parse(json);
}

Json rows_of(const std::string& table, const std::vector<std::pair<std::string, Json>>& where) {
  Json data{{"table", table}};
  for (const auto& [key, value] : where) data["where"][key] = value;
  return data;
}

Json arm_colour() {
  return vega(R"({"field": "arch", "type": "nominal", "legend": null,
    "scale": {"domain": ["baseline", "smelt"], "range": ["@baseline", "@smelt"]}})");
}

Json tooltip(const DataTable& table, const std::vector<std::string>& keys) {
  Json tips = Json::array();
  for (const Column& column : table.columns) {
    if (std::find(keys.begin(), keys.end(), column.key) == keys.end()) continue;
    Json tip{{"field", column.key},
             {"type", column.number ? "quantitative" : "nominal"},
             {"title", column.label}};
    if (column.number) tip["format"] = ".4~g";
    tips.push_back(std::move(tip));
  }
  return tips;
}

void Extent::add(std::optional<double> value) {
  if (!value) return;
  low = low ? std::min(*low, *value) : *value;
  high = high ? std::max(*high, *value) : *value;
}

Json Extent::domain(double pad) const {
  if (!low) return nullptr;
  const double width = *high > *low ? *high - *low : std::max(std::abs(*low) * 0.1, 1e-3);
  return Json::array({*low - pad * width, *high + pad * width});
}

Json forest_spec(const Forest& forest) {
  Json spec = vega(R"({"encoding": {
      "y": {"type": "nominal", "axis": {"grid": false, "labelLimit": 110}},
      "x": {"type": "quantitative", "title": "gap, nats per token; above 0 SMELT is better",
            "axis": {"tickCount": 5}, "scale": {"nice": false}}},
    "layer": [{"mark": {"type": "rule", "color": "@muted", "strokeWidth": 1.2},
               "data": {"values": [{"zero": 0}]},
               "encoding": {"x": {"field": "zero"}, "y": {"value": 0}, "y2": {"value": "height"}}}]})");
  spec["data"] = rows_of(forest.means, forest.where);
  spec["encoding"]["y"]["field"] = forest.y;
  spec["encoding"]["y"]["title"] = forest.y_title.empty() ? Json() : Json(forest.y_title);
  spec["encoding"]["y"]["scale"]["domain"] = forest.order;
  spec["height"] = 26 * std::max<std::size_t>(forest.order.size(), 1);
  if (!forest.domain.is_null()) spec["encoding"]["x"]["scale"]["domain"] = forest.domain;
  if (forest.interval) {
    spec["layer"].push_back(vega(R"({"mark": {"type": "rule", "color": "@smelt", "strokeWidth": 2},
      "transform": [{"filter": {"field": "low", "valid": true}}],
      "encoding": {"x": {"field": "low"}, "x2": {"field": "high"}}})"));
  }
  Json mean = vega(R"({"mark": {"type": "point", "size": 85, "color": "@smelt", "opacity": 1},
                       "encoding": {"x": {"field": "gap"}}})");
  mean["encoding"]["tooltip"] = forest.tooltip;
  spec["layer"].push_back(std::move(mean));
  if (!forest.seeds.empty()) {
    Json seeds =
        vega(R"({"mark": {"type": "point", "size": 26, "fill": "@paper", "stroke": "@smelt",
                                   "strokeWidth": 1.3, "opacity": 1},
                          "encoding": {"x": {"field": "gap"}}})");
    seeds["data"] = rows_of(forest.seeds, forest.where);
    spec["layer"].push_back(std::move(seeds));
  }
  return spec;
}

std::vector<KeyEntry> forest_key(bool interval) {
  std::vector<KeyEntry> key = {{Mark::kDot, "smelt", "mean over seeds"},
                               {Mark::kSmallRing, "smelt", "one seed"}};
  if (interval) key.push_back({Mark::kLine, "smelt", "interval"});
  return key;
}

Json layer_spec(const LayerPlot& plot) {
  static constexpr const char* kColour =
      R"({"field": "series", "type": "nominal", "legend": null, "scale": {
    "domain": ["Baseline", "SMELT visit 1", "SMELT visit 2", "SMELT visit 3", "SMELT visit 4"],
    "range": ["@baseline", "@smelt", "@smelt", "@smelt", "@smelt"]}})";
  Json spec = vega(R"({"height": 200, "encoding": {
      "x": {"field": "layer", "type": "ordinal", "title": "physical layer",
            "axis": {"labelAngle": 0, "grid": false}},
      "y": {"type": "quantitative", "scale": {"zero": false}, "axis": {"tickCount": 5}}},
    "layer": [
      {"mark": {"type": "point", "size": 14, "opacity": 0.4}, "encoding": {}},
      {"mark": {"type": "line"}, "encoding": {}},
      {"mark": {"type": "point", "size": 70, "filled": true, "opacity": 1, "strokeWidth": 2}, "encoding": {}}]})");
  for (const std::size_t layer : {0, 1}) spec["layer"][layer]["encoding"]["color"] = vega(kColour);
  Json dash = vega(kColour), fill = vega(kColour);
  dash["scale"]["range"] = vega("[[1, 0], [1, 0], [5, 4], [2, 3], [8, 2]]");
  fill["scale"]["range"] = vega(R"(["@baseline", "@smelt", "@paper", "@paper", "@paper"])");
  spec["layer"][1]["encoding"]["strokeDash"] = dash;
  spec["layer"][2]["encoding"]["fill"] = fill;
  spec["layer"][2]["encoding"]["stroke"] = vega(kColour);
  spec["data"] = rows_of(plot.means, plot.where);
  spec["encoding"]["y"]["field"] = plot.y;
  spec["encoding"]["y"]["title"] = plot.y_title;
  spec["layer"][0]["data"] = rows_of(plot.points, plot.where);
  spec["layer"][2]["encoding"]["tooltip"] = plot.tooltip;
  if (plot.rule) {
    Json rule = vega(R"({"mark": {"type": "rule", "color": "@muted", "strokeDash": [2, 3]},
      "encoding": {"x": {"value": 0}, "x2": {"value": "width"}}})");
    rule["data"]["values"] = Json::array({{{"rule", *plot.rule}}});
    rule["encoding"]["y"] = {{"field", "rule"}, {"type", "quantitative"}};
    spec["layer"].push_back(std::move(rule));
  }
  return spec;
}

std::string series_name(std::string_view arch, int visit) {
  return arch == "smelt" ? "SMELT visit " + std::to_string(visit) : "Baseline";
}

std::vector<KeyEntry> series_key(std::string_view small_dots) {
  std::vector<KeyEntry> key = {{Mark::kDot, "baseline", "Baseline"},
                               {Mark::kDot, "smelt", "SMELT, visit 1"},
                               {Mark::kRing, "smelt", "SMELT, visit 2"}};
  if (!small_dots.empty()) key.push_back({Mark::kSmallDot, "muted", std::string(small_dots)});
  return key;
}

}  // namespace smelt::report
