#include "smelt/law/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "smelt/core/error.h"

namespace smelt::law {
namespace {

/// One cell as a number; adds a problem that names row and column when it is none.
std::optional<double> number(const Csv& csv, std::size_t row, std::size_t column,
                             Problems& problems) {
  try {
    return csv.number(row, column);
  } catch (const Error&) {
    const std::string& cell = csv.rows[row][column];
    problems.add(cell.empty() ? fmt::format("column \"{}\": the cell is empty", csv.header[column])
                              : fmt::format("column \"{}\": expected a finite number, got \"{}\"",
                                            csv.header[column], cell),
                 csv.where(row));
    return std::nullopt;
  }
}

void check(const Csv& csv, std::size_t row, const std::string& column, bool fine, double value,
           const char* expected, Problems& problems) {
  if (fine) return;
  problems.add(
      fmt::format("column \"{}\": expected {}, got {}", column, expected, number_text(value)),
      csv.where(row));
}

}  // namespace

Columns parse_columns(const std::vector<std::string>& assignments, Columns base) {
  Problems problems("law");
  const std::pair<const char*, std::string*> keys[] = {
      {"F", &base.size},      {"N", &base.size},        {"S", &base.sparsity}, {"D", &base.tokens},
      {"loss", &base.loss},   {"weight", &base.weight}, {"cell", &base.cell},  {"seed", &base.seed},
      {"group", &base.group}, {"arch", &base.group}};
  for (const std::string& text : assignments) {
    const auto equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const auto found = std::find_if(std::begin(keys), std::end(keys),
                                    [&](const auto& entry) { return key == entry.first; });
    if (equals == std::string::npos || equals + 1 == text.size() || found == std::end(keys)) {
      problems.add(
          "columns: expected KEY=COLUMN with KEY one of F, N, S, D, loss, weight, cell, seed or "
          "group, got \"" +
          text + "\"");
      continue;
    }
    *found->second = text.substr(equals + 1);
  }
  problems.throw_if_any();
  return base;
}

std::vector<std::string> Endpoints::groups() const {
  std::vector<std::string> names;
  for (const Point& row : rows) {
    if (std::find(names.begin(), names.end(), row.group) == names.end()) names.push_back(row.group);
  }
  return names;
}

std::vector<Point> Endpoints::points(std::string_view group) const {
  std::vector<Point> found;
  for (const Point& row : rows) {
    if (row.group == group) found.push_back(row);
  }
  if (found.empty()) {
    throw Error("law",
                "no rows of \"" + std::string(group) + "\"; there are " + join_choices(groups()),
                csv.name);
  }
  return found;
}

Endpoints endpoints_from(Csv csv, const Columns& columns) {
  Problems problems("law", csv.name);
  const auto needed = [&](const std::string& name) {
    const auto at = csv.find(name);
    if (!at) problems.add("no column \"" + name + "\"; there are " + join_choices(csv.header));
    return at;
  };
  const auto size = needed(columns.size), tokens = needed(columns.tokens),
             loss = needed(columns.loss);
  problems.throw_if_any();
  if (csv.rows.empty()) throw Error("law", "no rows below the header", csv.name);
  const auto sparsity = csv.find(columns.sparsity), weight = csv.find(columns.weight),
             cell = csv.find(columns.cell), seed = csv.find(columns.seed),
             group = csv.find(columns.group), scale = csv.find("scale");
  Endpoints table;
  for (std::size_t row = 0; row < csv.rows.size(); ++row) {
    Point point;
    point.where = csv.where(row);
    const auto positive = [&](std::size_t column, double& target) {
      if (const auto value = number(csv, row, column, problems)) {
        check(csv, row, csv.header[column], *value > 0, *value, "a number above 0", problems);
        target = *value;
      }
    };
    positive(*size, point.size);
    positive(*tokens, point.tokens);
    positive(*loss, point.loss);
    if (sparsity) {
      if (const auto value = number(csv, row, *sparsity, problems)) {
        check(csv, row, columns.sparsity, *value >= 0 && *value < 1, *value,
              "at least 0 and below 1", problems);
        point.sparsity = *value;
      }
    }
    if (weight) {
      if (const auto value = number(csv, row, *weight, problems)) {
        check(csv, row, columns.weight, *value >= 0, *value, "at least 0", problems);
        point.weight = *value;
      }
    }
    if (seed && !csv.rows[row][*seed].empty()) {
      const std::string& text = csv.rows[row][*seed];
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), point.seed);
      if (code != std::errc{} || end != text.data() + text.size()) {
        problems.add(
            fmt::format("column \"{}\": expected a whole number, got \"{}\"", columns.seed, text),
            csv.where(row));
      }
    }
    if (group) point.group = csv.rows[row][*group];
    point.cell = cell    ? csv.rows[row][*cell]
                 : scale ? csv.rows[row][*scale] + "/" + number_text(point.sparsity)
                         : number_text(point.size) + "/" + number_text(point.sparsity);
    table.rows.push_back(std::move(point));
  }
  problems.throw_if_any();
  table.csv = std::move(csv);
  return table;
}

Endpoints read_endpoints(const std::filesystem::path& file, const Columns& columns) {
  return endpoints_from(read_csv(file), columns);
}

}  // namespace smelt::law
