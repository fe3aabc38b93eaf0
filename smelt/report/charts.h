// Pieces of Vega-Lite that several plots share.  Colours are names of page.css behind an "@"; a
// plot's data is a table of the page and which rows of it: both are put in by page.js.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/report/page.h"

namespace smelt::report {

/// A spec written as JSON text; a fault in it throws (it is ours).
Json vega(std::string_view json);

/// {"table": …, "where": {…}}
Json rows_of(const std::string& table, const std::vector<std::pair<std::string, Json>>& where = {});

/// Colour by arm, by field "arch".
Json arm_colour();

/// What a point says when it is pointed at: columns of `table` with their labels.
Json tooltip(const DataTable& table, const std::vector<std::string>& keys);

/// Smallest and largest of what it has seen.
struct Extent {
  std::optional<double> low, high;
  void add(std::optional<double> value);
  /// [low, high] widened by a share on both sides, for a scale's domain; null when nothing was
  /// seen.
  Json domain(double pad = 0.06) const;
};

/// Rows of dots against a zero line: seeds faint, the mean large, its interval as a rule.  `y` is a
/// text column of both tables, `order` its values from the top; `interval` wants columns low and
/// high.
struct Forest {
  std::string means, seeds;  // table names; seeds may be ""
  std::string y, y_title;
  std::vector<std::string> order;
  std::vector<std::pair<std::string, Json>> where;
  bool interval = false;
  Json domain;
  Json tooltip;
};
Json forest_spec(const Forest& forest);
std::vector<KeyEntry> forest_key(bool interval);

/// Layers along x, one line per series (Baseline, SMELT visit 1, SMELT visit 2): see `series_name`.
struct LayerPlot {
  std::string means, points;  // table names; columns series, layer and `y`
  std::string y, y_title;
  std::vector<std::pair<std::string, Json>> where;
  std::optional<double> rule;  // a horizontal reference
  Json tooltip;
};
Json layer_spec(const LayerPlot& plot);
/// "Baseline", "SMELT visit 1", "SMELT visit 2" (any later visit counts as it is named).
std::string series_name(std::string_view arch, int visit);
std::vector<KeyEntry> series_key(std::string_view small_dots);

}  // namespace smelt::report
