#include "smelt/law/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
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

Columns columns_of(const Form& form) {
  Columns columns;
  if (form.size == SizeKind::kParameters) columns.size = "params";
  if (form.size == SizeKind::kCompute) columns.size = "compute";
  columns.needs_tokens = form.tokens;
  columns.needs_visits = form.visits;
  columns.needs_experts = form.experts;
  return columns;
}

Columns parse_columns(const std::vector<std::string>& assignments, Columns base) {
  Problems problems("law");
  const std::pair<const char*, std::string*> keys[] = {
      {"F", &base.size},        {"N", &base.size},    {"C", &base.size},
      {"S", &base.sparsity},    {"D", &base.tokens},  {"N_rec", &base.recurrent},
      {"r", &base.visits},      {"X", &base.experts}, {"loss", &base.loss},
      {"weight", &base.weight}, {"cell", &base.cell}, {"seed", &base.seed},
      {"group", &base.group},   {"arch", &base.group}};
  std::vector<const std::string*> given;
  for (const std::string& text : assignments) {
    const auto equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const auto found = std::find_if(std::begin(keys), std::end(keys),
                                    [&](const auto& entry) { return key == entry.first; });
    if (equals == std::string::npos || equals + 1 == text.size() || found == std::end(keys)) {
      problems.add(
          "columns: expected KEY=COLUMN with KEY one of F, N, C, S, D, N_rec, r, X, loss, weight, "
          "cell, seed or group, got \"" +
          clipped(text) + "\"");
      continue;
    }
    if (std::find(given.begin(), given.end(), found->second) != given.end()) {
      problems.add("columns: two for " + key);
    }
    given.push_back(found->second);
    *found->second = text.substr(equals + 1);
    base.named.push_back(*found->second);
  }
  problems.throw_if_any();
  return base;
}

namespace {

bool is_named(const Columns& columns, const std::string& name) {
  return std::find(columns.named.begin(), columns.named.end(), name) != columns.named.end();
}

}  // namespace

Columns guess_columns(const Csv& csv, Columns columns, const Form& form,
                      std::vector<std::string>& messages) {
  // Names that public tables use, all lower case.
  static const std::vector<std::string> kFlops = {"f", "flops_per_token", "flops_token"};
  static const std::vector<std::string> kParameters = {"n",
                                                       "params",
                                                       "parameters",
                                                       "n_params",
                                                       "num_params",
                                                       "model_size",
                                                       "model size",
                                                       "non_embedding_params",
                                                       "params_active",
                                                       "active_params",
                                                       "params_active_precise",
                                                       "num_parameters",
                                                       "size"};
  static const std::vector<std::string> kCompute = {
      "c", "compute", "flops", "training_flops", "total_flops", "training flop"};
  static const std::vector<std::string> kTokens = {"d",
                                                   "tokens",
                                                   "n_tokens",
                                                   "num_tokens",
                                                   "train_tokens",
                                                   "training_tokens",
                                                   "training tokens",
                                                   "dataset_size"};
  static const std::vector<std::string> kLoss = {
      "loss",      "final_loss", "val_loss", "valid_loss", "validation_loss",
      "eval_loss", "test_loss",  "l",        "ce_loss"};
  static const std::vector<std::string> kSparsity = {"s", "sparsity"};
  Problems problems("law", csv.name);
  const auto guess = [&](const char* what, std::string& name,
                         const std::vector<std::string>& others) {
    if (csv.find(name) || is_named(columns, name)) return;
    std::vector<std::string> found;
    for (const std::string& column : csv.header) {
      std::string lower = column;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (std::find(others.begin(), others.end(), lower) != others.end()) found.push_back(column);
    }
    if (found.size() > 1) {
      problems.add(
          fmt::format("{} may be column {}: say which by --columns", what, join_choices(found)));
    } else if (found.size() == 1) {
      messages.push_back(fmt::format("column \"{}\" is read as {}", found.front(), what));
      name = found.front();
    }
  };
  const bool parameters = form.size == SizeKind::kParameters;
  guess(parameters                        ? "N, parameters"
        : form.size == SizeKind::kCompute ? "C, training FLOPs"
                                          : "F, FLOPs per token",
        columns.size,
        parameters                        ? kParameters
        : form.size == SizeKind::kCompute ? kCompute
                                          : kFlops);
  if (form.tokens) guess("D, tokens", columns.tokens, kTokens);
  guess("the loss", columns.loss, kLoss);
  if (form.uses_sparsity()) guess("S, sparsity", columns.sparsity, kSparsity);
  problems.throw_if_any();
  return columns;
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
    const std::vector<std::string> names = groups();
    const bool unnamed = names == std::vector<std::string>{""};
    throw Error("law",
                "no rows of \"" + std::string(group) + "\"; " +
                    (unnamed ? "no column tells arms apart" : "there are " + join_choices(names)),
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
  const auto size = needed(columns.size), loss = needed(columns.loss);
  const auto tokens = columns.needs_tokens ? needed(columns.tokens) : std::nullopt;
  const auto recurrent = columns.needs_visits ? needed(columns.recurrent) : std::nullopt,
             visits = columns.needs_visits ? needed(columns.visits) : std::nullopt,
             experts = columns.needs_experts ? needed(columns.experts) : std::nullopt;
  for (const std::string* optional :
       {&columns.sparsity, &columns.weight, &columns.cell, &columns.seed, &columns.group}) {
    if (is_named(columns, *optional)) needed(*optional);
  }
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
    if (tokens) {
      positive(*tokens, point.tokens);
    } else {
      point.tokens = 1;
    }
    positive(*loss, point.loss);
    const auto at_least = [&](const std::optional<std::size_t>& column, double low,
                              double& target) {
      if (!column) return;
      if (const auto value = number(csv, row, *column, problems)) {
        check(csv, row, csv.header[*column], *value >= low, *value,
              low > 0 ? "at least 1" : "at least 0", problems);
        target = *value;
      }
    };
    at_least(recurrent, 0, point.recurrent);
    at_least(visits, 1, point.visits);
    at_least(experts, 1, point.experts);
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
