#include "smelt/law/isoflop.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

#include "smelt/core/error.h"

namespace smelt::law {
namespace {

constexpr double kSameCompute = 0.1;  // largest step in ln compute inside a bin
constexpr double kWidestBin = 0.3;    // largest ratio, as a logarithm, of a bin's ends
constexpr std::size_t kFewestSizes = 3;

struct Row {
  double log_compute, log_size, loss, weight;
};

std::vector<std::vector<Row>> bins_of(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.log_compute < b.log_compute; });
  std::vector<std::vector<Row>> bins;
  for (const Row& row : rows) {
    const bool new_bin = bins.empty() ||
                         row.log_compute - bins.back().back().log_compute > kSameCompute ||
                         row.log_compute - bins.back().front().log_compute > kWidestBin;
    if (new_bin) bins.emplace_back();
    bins.back().push_back(row);
  }
  return bins;
}

/// Weighted least squares of the loss on 1, x, x² with x = ln size − mean.
IsoflopBin minimum_of(const std::vector<Row>& rows, const Form& form) {
  IsoflopBin bin;
  bin.points = rows.size();
  double log_compute = 0, mean = 0;
  std::set<double> sizes;
  for (const Row& row : rows) {
    log_compute += row.log_compute / static_cast<double>(rows.size());
    mean += row.log_size / static_cast<double>(rows.size());
    sizes.insert(std::round(1e6 * row.log_size) / 1e6);
  }
  bin.compute = std::exp(log_compute);
  bin.sizes = {std::exp(*sizes.begin()), std::exp(*sizes.rbegin())};
  if (sizes.size() < kFewestSizes) {
    bin.words = fmt::format("{} sizes: a parabola needs {}", sizes.size(), kFewestSizes);
    return bin;
  }
  Eigen::Matrix3d gram = Eigen::Matrix3d::Zero();
  Eigen::Vector3d right = Eigen::Vector3d::Zero();
  for (const Row& row : rows) {
    const double x = row.log_size - mean;
    const Eigen::Vector3d basis(1, x, x * x);
    gram += row.weight * basis * basis.transpose();
    right += row.weight * row.loss * basis;
  }
  const Eigen::Vector3d k = gram.ldlt().solve(right);
  if (!(k[2] > 0)) {
    bin.words = "the losses do not curve upwards: no minimum";
    return bin;
  }
  const double best = mean - k[1] / (2 * k[2]);
  if (best <= *sizes.begin() || best >= *sizes.rbegin()) {
    bin.words =
        fmt::format("the minimum lies at an edge of the sizes or beyond ({:.3g})", std::exp(best));
    return bin;
  }
  bin.size = std::exp(best);
  bin.tokens = bin.compute / *bin.size / (form.size == SizeKind::kParameters ? 6 : 1);
  bin.loss = k[0] - k[1] * k[1] / (4 * k[2]);
  if (sizes.size() == kFewestSizes) bin.words = "three sizes: the parabola passes through all";
  return bin;
}

/// Slope of ln size on ln compute over the minima.
void add_exponents(Isoflop& result) {
  std::vector<std::pair<double, double>> minima;
  for (const IsoflopBin& bin : result.bins) {
    if (bin.size) minima.emplace_back(std::log(bin.compute), std::log(*bin.size));
  }
  if (minima.size() < 2) {
    result.words.push_back(
        fmt::format("minima found: {}; their growth with compute needs two", minima.size()));
    return;
  }
  const auto n = static_cast<double>(minima.size());
  double x_mean = 0, y_mean = 0, xx = 0, xy = 0, yy = 0;
  for (const auto& [x, y] : minima) x_mean += x / n, y_mean += y / n;
  for (const auto& [x, y] : minima) {
    xx += (x - x_mean) * (x - x_mean);
    xy += (x - x_mean) * (y - y_mean);
    yy += (y - y_mean) * (y - y_mean);
  }
  result.size_exponent = xy / xx;
  result.tokens_exponent = 1 - xy / xx;
  if (minima.size() > 2) {
    const double scatter = std::max(0.0, yy - xy * xy / xx) / (n - 2);
    result.exponent_error = std::sqrt(scatter / xx);
  }
  const std::size_t refused = result.bins.size() - minima.size();
  if (refused > 0) {
    result.words.push_back(
        fmt::format("{} of {} computes have no minimum inside their sizes and are left out",
                    refused, result.bins.size()));
  }
}

}  // namespace

Isoflop isoflop(const std::vector<Point>& points, const Form& form) {
  if (!form.tokens) throw Error("law", "isoFLOP: form " + form.name + " has no tokens");
  std::vector<Row> rows;
  for (const Point& point : points) {
    if (point.weight == 0) continue;
    rows.push_back({std::log(compute_of(form, point.inputs())), std::log(point.size), point.loss,
                    point.weight});
  }
  Isoflop result;
  for (const auto& bin : bins_of(std::move(rows))) result.bins.push_back(minimum_of(bin, form));
  add_exponents(result);
  return result;
}

Json to_json(const Isoflop& result) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json bins = Json::array();
  for (const IsoflopBin& bin : result.bins) {
    bins.push_back({{"compute", bin.compute},
                    {"points", bin.points},
                    {"sizes", {bin.sizes.min, bin.sizes.max}},
                    {"size", optional(bin.size)},
                    {"tokens", optional(bin.tokens)},
                    {"loss", optional(bin.loss)},
                    {"words", bin.words}});
  }
  return {{"bins", bins},
          {"size_exponent", optional(result.size_exponent)},
          {"tokens_exponent", optional(result.tokens_exponent)},
          {"exponent_error", optional(result.exponent_error)},
          {"words", result.words}};
}

}  // namespace smelt::law
