#include "smelt/law/diagnostics.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>

namespace smelt::law {
namespace {

constexpr std::size_t kThirds = 3;
constexpr std::size_t kLargest = 3;
constexpr double kDecides = 0.9;  // leverage of a row that a coefficient hangs on
constexpr double kTrend = 3;      // standard errors of a group's mean residual

ResidualGroup group_of(const std::vector<std::pair<double, double>>& rows) {
  ResidualGroup group;
  group.range = {rows.front().first, rows.front().first};
  double squares = 0;
  for (const auto& [at, residual] : rows) {
    group.range.min = std::min(group.range.min, at);
    group.range.max = std::max(group.range.max, at);
    group.mean += residual / static_cast<double>(rows.size());
    squares += residual * residual;
  }
  group.points = rows.size();
  group.rms = std::sqrt(squares / static_cast<double>(rows.size()));
  return group;
}

/// Rows in thirds by D over size (by size, where tokens do not enter), equal ones together.
std::vector<ResidualGroup> by_ratio(const std::vector<Point>& points,
                                    const std::vector<double>& residuals, bool tokens) {
  std::vector<std::pair<double, double>> rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    rows.emplace_back(tokens ? points[i].tokens / points[i].size : points[i].size, residuals[i]);
  }
  std::sort(rows.begin(), rows.end());
  std::vector<ResidualGroup> groups;
  std::size_t begin = 0;
  for (std::size_t third = 1; third <= kThirds; ++third) {
    std::size_t end = third * rows.size() / kThirds;
    while (end > begin && end < rows.size() && rows[end].first == rows[end - 1].first) ++end;
    if (end <= begin) continue;
    groups.push_back(group_of({rows.begin() + static_cast<std::ptrdiff_t>(begin),
                               rows.begin() + static_cast<std::ptrdiff_t>(end)}));
    begin = end;
  }
  return groups;
}

std::vector<ResidualGroup> by_sparsity(const std::vector<Point>& points,
                                       const std::vector<double>& residuals) {
  std::map<std::string, std::vector<std::pair<double, double>>, std::greater<>> groups;
  for (std::size_t i = 0; i < points.size(); ++i) {
    // Matched arms of one nominal sparsity differ a little.
    groups[fmt::format("{:.1e}", 1 - points[i].sparsity)].emplace_back(points[i].sparsity,
                                                                       residuals[i]);
  }
  std::vector<ResidualGroup> all;
  for (const auto& [name, rows] : groups) all.push_back(group_of(rows));
  std::sort(all.begin(), all.end(), [](const ResidualGroup& a, const ResidualGroup& b) {
    return a.range.min < b.range.min;
  });
  return all;
}

/// Diagonal of the hat matrix of ln loss at the optimum, weighted.
std::vector<double> hat_values(const Law& law, const std::vector<Point>& points) {
  const auto p = static_cast<Eigen::Index>(law.coefficients.size());
  Eigen::MatrixXd jacobian(static_cast<Eigen::Index>(points.size()), p);
  std::vector<double> gradient(law.coefficients.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double loss = evaluate(law, points[i].inputs(), gradient);
    for (Eigen::Index j = 0; j < p; ++j) {
      jacobian(static_cast<Eigen::Index>(i), j) =
          std::sqrt(points[i].weight) * gradient[static_cast<std::size_t>(j)] / loss;
    }
  }
  for (Eigen::Index j = 0; j < p; ++j) {
    const double norm = jacobian.col(j).norm();
    if (norm > 0) jacobian.col(j) /= norm;
  }
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(jacobian);
  const Eigen::Index rank = qr.rank();
  const Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(jacobian.rows(), rank);
  std::vector<double> values;
  for (Eigen::Index i = 0; i < q.rows(); ++i) values.push_back(q.row(i).squaredNorm());
  return values;
}

void say_trends(const std::vector<ResidualGroup>& groups, const char* what,
                std::vector<std::string>& words) {
  for (const ResidualGroup& group : groups) {
    if (group.points < 4) continue;
    const double spread = std::sqrt(std::max(0.0, group.rms * group.rms - group.mean * group.mean) /
                                    static_cast<double>(group.points - 1));
    if (spread == 0 || std::abs(group.mean) < kTrend * spread) continue;
    words.push_back(fmt::format(
        "for {} from {:.3g} to {:.3g} the law {} the loss by {:.2f} % on "
        "average ({} rows), more than their scatter",
        what, group.range.min, group.range.max, group.mean > 0 ? "overstates" : "understates",
        100 * std::abs(group.mean), group.points));
  }
}

Json to_json(const std::vector<ResidualGroup>& groups) {
  Json json = Json::array();
  for (const ResidualGroup& group : groups) {
    json.push_back({{"range", {group.range.min, group.range.max}},
                    {"points", group.points},
                    {"mean", group.mean},
                    {"rms", group.rms}});
  }
  return json;
}

}  // namespace

Diagnostics diagnose(const Law& law, const std::vector<Point>& points) {
  std::vector<Point> rows;
  for (const Point& point : points) {
    if (point.weight > 0) rows.push_back(point);
  }
  Diagnostics result;
  if (rows.empty()) return result;
  std::vector<double> residuals;
  for (const Point& point : rows) {
    residuals.push_back(std::log(evaluate(law, point.inputs())) - std::log(point.loss));
    if (!std::isfinite(residuals.back())) throw Error("law", "the law has no value at a row");
  }
  result.residuals_by_ratio = by_ratio(rows, residuals, law.form->tokens);
  result.residuals_by_sparsity = by_sparsity(rows, residuals);
  const std::vector<double> values = hat_values(law, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.leverage.push_back({rows[i].where.empty() ? rows[i].cell : rows[i].where, values[i]});
  }
  std::stable_sort(result.leverage.begin(), result.leverage.end(),
                   [](const Leverage& a, const Leverage& b) { return a.value > b.value; });
  if (result.leverage.size() > kLargest) result.leverage.resize(kLargest);
  say_trends(result.residuals_by_ratio,
             fmt::format("{}{}", law.form->tokens ? "D/" : "", law.form->size_symbol()).c_str(),
             result.words);
  if (result.residuals_by_sparsity.size() > 1) {
    say_trends(result.residuals_by_sparsity, "S", result.words);
  }
  if (result.leverage.front().value > kDecides) {
    result.words.push_back(
        fmt::format("the fit passes through {} whatever its loss: leverage {:.2f}",
                    result.leverage.front().where, result.leverage.front().value));
  }
  return result;
}

Json to_json(const Diagnostics& diagnostics) {
  Json leverage = Json::array();
  for (const Leverage& entry : diagnostics.leverage) {
    leverage.push_back({{"row", entry.where}, {"leverage", entry.value}});
  }
  return {{"residuals_by_ratio", to_json(diagnostics.residuals_by_ratio)},
          {"residuals_by_sparsity", to_json(diagnostics.residuals_by_sparsity)},
          {"leverage", leverage},
          {"words", diagnostics.words}};
}

}  // namespace smelt::law
