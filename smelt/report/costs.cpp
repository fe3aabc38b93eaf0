// The pair at a glance: geometry and budgets of both arms, side by side per cell.
#include <fmt/format.h>

#include <cmath>

#include "smelt/report/charts.h"
#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {
namespace {

std::string geometry(const Json& config, std::string_view what) {
  const auto value = [&config](const char* key) { return text(get(config, key)); };
  if (!config.is_object()) return "";
  if (what == "layers") {
    const Json& loop = get(config, "loop");
    if (!loop.is_object()) return value("num_hidden_layers");
    return fmt::format("{} ({}–{} × {})", value("num_hidden_layers"), text(get(loop, "first")),
                       text(get(loop, "last")), text(get(loop, "visits")));
  }
  if (what == "heads") return value("num_attention_heads") + " × " + value("head_dim");
  return value("num_experts") + ", top " + value("num_experts_per_tok");
}

struct Rows {
  DataTable& table;
  std::string cell;
  const Json& entry;

  void words(const char* name, const std::string& baseline, const std::string& smelt) {
    if (baseline.empty() && smelt.empty()) return;
    table.add({text_cell(cell), text_cell(name), text_cell(baseline), text_cell(smelt), {"", ""}});
  }
  void count(const char* name, std::initializer_list<const char*> path,
             std::optional<double> mismatch = {}) {
    compare(name, number(get(get(entry, {"budgets", "baseline"}), path)),
            number(get(get(entry, {"budgets", "smelt"}), path)), mismatch, true);
  }
  void compare(const char* name, std::optional<double> baseline, std::optional<double> smelt,
               std::optional<double> mismatch, bool integer) {
    if (!baseline && !smelt) return;
    if (!mismatch && baseline && smelt && *baseline != 0) mismatch = *smelt / *baseline - 1;
    const auto shown = [integer](std::optional<double> value) {
      if (!integer) return compact(value);
      return value && std::abs(*value) >= 1e9 ? compact(value) : whole(value);
    };
    table.add({text_cell(cell), text_cell(name), number_cell(baseline, shown(baseline)),
               number_cell(smelt, shown(smelt)), number_cell(mismatch, percent(mismatch))});
  }
};

DataTable budget_table(const Study& study) {
  DataTable table{"budgets", "Geometry and budgets", {}, {}, true};
  table.columns = {{"cell", "cell"},
                   {"quantity", "quantity"},
                   {"baseline", "Baseline", true},
                   {"smelt", "SMELT", true},
                   {"difference", "difference", true}};
  for (const Json& entry : list(study.json, {"cells"})) {
    Rows rows{table, text(get(entry, "cell")), entry};
    const Json& a = get(entry, {"configs", "baseline"});
    const Json& b = get(entry, {"configs", "smelt"});
    const Json& off = get(entry, "mismatch");
    rows.count("training FLOPs per token (F)", {"flops_per_token", "training"},
               number(get(off, "flops")));
    rows.count("parameters without embedding (N)", {"parameters", "total"},
               number(get(off, "parameters")));
    rows.count("KV-cache elements per token", {"kv_cache", "elements_per_token"},
               number(get(off, "kv_cache")));
    rows.count("parameters active per traversal", {"parameters", "active"});
    rows.count("weights executed per token", {"parameters", "executed"});
    rows.count("executed layers", {"executed_layers"});
    rows.words("physical layers (looped × visits)", geometry(a, "layers"), geometry(b, "layers"));
    rows.words("hidden size", text(get(a, "hidden_size")), text(get(b, "hidden_size")));
    rows.words("heads × head_dim", geometry(a, "heads"), geometry(b, "heads"));
    rows.words("KV heads", text(get(a, "num_key_value_heads")),
               text(get(b, "num_key_value_heads")));
    rows.words("experts per layer", geometry(a, "experts"), geometry(b, "experts"));
    rows.words("expert width", text(get(a, "moe_intermediate_size")),
               text(get(b, "moe_intermediate_size")));
    rows.compare("sparsity S, own control", number(get(entry, {"sparsity_own", "baseline"})),
                 number(get(entry, {"sparsity_own", "smelt"})), {}, false);
    rows.compare("seconds per step, alone", number(get(entry, {"step_seconds", "baseline"})),
                 number(get(entry, {"step_seconds", "smelt"})), {}, false);
  }
  return table;
}

struct Mismatches {
  DataTable table{
      "mismatch",
      "Mismatch of the three budgets",
      {{"cell", "cell"}, {"budget", "budget"}, {"percent", "SMELT against Baseline (%)", true}},
      {}};
  double largest = 0;
  std::vector<std::string> outside;
};

Mismatches mismatches(const Study& study) {
  static constexpr std::pair<const char*, const char*> kBudgets[] = {
      {"flops", "FLOPs per token"}, {"parameters", "parameters"}, {"kv_cache", "KV cache"}};
  Mismatches all;
  for (const Json& entry : list(study.json, {"cells"})) {
    const std::string cell = text(get(entry, "cell"));
    for (const auto& [key, name] : kBudgets) {
      const auto value = number(get(entry, {"mismatch", key}));
      if (!value) continue;
      all.largest = std::max(all.largest, std::abs(*value));
      all.table.add(
          {text_cell(cell), text_cell(name), number_cell(100 * *value, percent(value, 3))});
    }
    const Json& within = get(entry, "within_tolerance");
    if (within.is_boolean() && !within.get<bool>()) all.outside.push_back(cell);
  }
  return all;
}

}  // namespace

void add_budgets(const Study& study, Page& page) {
  page.section("budgets", "The pair at a glance");
  DataTable budgets = budget_table(study);
  if (budgets.rows.empty()) {
    return page.absent("Left out: the study holds no budgets.");
  }
  page.paragraph(
      "Each cell pairs a Baseline with a looped model of the same training FLOPs per token, the "
      "same "
      "parameters and the same KV cache.");
  page.table(std::move(budgets), true);

  Mismatches all = mismatches(study);
  if (all.table.rows.empty()) return;
  for (const std::string& cell : all.outside) {
    page.warning("The pair of cell " + cell + " misses the tolerance of at least one budget.");
  }
  Json spec = vega(R"({"mark": {"type": "point", "size": 60, "opacity": 0.9, "color": "@ink"},
    "encoding": {
      "x": {"field": "percent", "type": "quantitative", "title": "SMELT against Baseline, %",
            "axis": {"tickCount": 5}},
      "y": {"field": "cell", "type": "nominal", "title": null, "sort": null, "axis": {"labelLimit": 130}},
      "shape": {"field": "budget", "type": "nominal", "legend": {"title": null, "orient": "top"},
        "scale": {"domain": ["FLOPs per token", "parameters", "KV cache"],
                  "range": ["circle", "square", "diamond"]}}}})");
  spec["data"] = rows_of("mismatch");
  spec["encoding"]["tooltip"] = tooltip(all.table, {"cell", "budget", "percent"});
  const std::size_t cells = study.cells().size();
  spec["height"] = 24 * cells;
  const std::string caption = fmt::format(
      "How far each SMELT model is from its Baseline on the three budgets, in {}; the largest "
      "difference is {} %.",
      count_of(cells, "cell"), fixed(100 * all.largest, 3));
  page.figure({"mismatch",
               "Mismatch of FLOPs, parameters and KV cache per cell",
               {},
               {{"", spec}},
               caption,
               {std::move(all.table)},
               Layout::kOne});
}

}  // namespace smelt::report
