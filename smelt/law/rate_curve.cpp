#include "smelt/law/rate_curve.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "smelt/core/error.h"
#include "smelt/law/loss_gap.h"

namespace smelt::law {
namespace {

constexpr double kConfidence = 0.95;
/// Rates further from the best than this (and than its neighbours) say little about a minimum that
/// is not a parabola far out.
constexpr double kReach = 2.5;

using LossesByRate = std::map<double, std::vector<RateLoss>>;

double mean_loss(const std::vector<RateLoss>& runs) {
  double sum = 0;
  for (const RateLoss& run : runs) sum += *run.loss;
  return sum / static_cast<double>(runs.size());
}

/// The runs of every rate that went through with all its seeds.
LossesByRate converged(const std::vector<RateLoss>& tried) {
  LossesByRate rates;
  for (const RateLoss& run : tried) rates[run.lr].push_back(run);
  std::erase_if(rates, [](const auto& rate) {
    for (const RateLoss& run : rate.second) {
      if (!run.loss || !std::isfinite(*run.loss)) return true;
    }
    return false;
  });
  return rates;
}

double three_digits(double value) {
  return std::stod(fmt::format("{:.3g}", value));
}

/// loss = level of the seed + b u + c u², u = ln(lr / best).
struct Parabola {
  double b = 0, c = 0, mean_level = 0;
  double variance_b = 0, covariance = 0, variance_c = 0;  // per unit of residual variance
  double residual_variance = 0;
  int degrees_of_freedom = 0;

  double minimum() const { return -b / (2 * c); }
};

Parabola fit_parabola(const std::vector<RateLoss>& runs, double best) {
  std::map<std::int64_t, Eigen::Index> level;
  for (const RateLoss& run : runs)
    level.try_emplace(run.seed, static_cast<Eigen::Index>(level.size()));
  const auto seeds = static_cast<Eigen::Index>(level.size());
  const auto n = static_cast<Eigen::Index>(runs.size());
  Eigen::MatrixXd design = Eigen::MatrixXd::Zero(n, seeds + 2);
  Eigen::VectorXd losses(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const RateLoss& run = runs[static_cast<std::size_t>(i)];
    const double u = std::log(run.lr / best);
    design(i, level.at(run.seed)) = 1;
    design(i, seeds) = u;
    design(i, seeds + 1) = u * u;
    losses(i) = *run.loss;
  }
  const Eigen::VectorXd solution = design.colPivHouseholderQr().solve(losses);
  const Eigen::MatrixXd inverse = (design.transpose() * design).inverse();
  Parabola fit;
  fit.b = solution(seeds);
  fit.c = solution(seeds + 1);
  fit.mean_level = solution.head(seeds).mean();
  fit.variance_b = inverse(seeds, seeds);
  fit.covariance = inverse(seeds, seeds + 1);
  fit.variance_c = inverse(seeds + 1, seeds + 1);
  fit.degrees_of_freedom = static_cast<int>(n - seeds - 2);
  if (fit.degrees_of_freedom > 0) {
    fit.residual_variance =
        (losses - design * solution).squaredNorm() / static_cast<double>(fit.degrees_of_freedom);
  }
  return fit;
}

/// Every u at which the slope b + 2 c u cannot be told from 0 (Fieller 1954); nothing when those
/// are not one finite interval.
std::optional<RateInterval> minimum_interval(const Parabola& fit) {
  const double t = student_t(fit.degrees_of_freedom, kConfidence);
  const double scale = t * t * fit.residual_variance;
  const double square = 4 * (fit.c * fit.c - scale * fit.variance_c);
  const double linear = 4 * (fit.b * fit.c - scale * fit.covariance);
  const double constant = fit.b * fit.b - scale * fit.variance_b;
  if (square <= 0) return std::nullopt;
  const double root = std::sqrt(std::max(0.0, linear * linear - 4 * square * constant));
  return RateInterval{(-linear - root) / (2 * square), (-linear + root) / (2 * square)};
}

}  // namespace

RateCurve fit_rate_curve(const std::vector<RateLoss>& tried) {
  if (tried.empty()) throw Error("sweep", "no learning rate was tried");
  std::set<double> all;
  for (const RateLoss& run : tried) all.insert(run.lr);
  const LossesByRate rates = converged(tried);
  RateCurve curve;
  if (rates.empty()) {
    curve.diverged = true;
    curve.words = "every learning rate diverged: try lower ones";
    return curve;
  }
  auto best = rates.begin();
  for (auto rate = rates.begin(); rate != rates.end(); ++rate) {
    if (mean_loss(rate->second) < mean_loss(best->second)) best = rate;
  }
  curve.lr = best->first;
  curve.loss = mean_loss(best->second);
  curve.at_edge = curve.lr == *all.begin() || curve.lr == *all.rbegin();
  if (curve.at_edge) {
    curve.words = fmt::format(
        "the best rate, {:.4g}, is at the edge of what was tried: the minimum may lie beyond; try "
        "further ones",
        curve.lr);
    return curve;
  }
  // A diverged rate right above the best leaves no parabola; the best tried it is.
  if (best == rates.begin() || std::next(best) == rates.end()) {
    curve.words = fmt::format(
        "the best rate is {:.4g}; the one next to it diverged, so that no minimum is fitted",
        curve.lr);
    return curve;
  }
  const double low = std::min(std::prev(best)->first, curve.lr / kReach);
  const double high = std::max(std::next(best)->first, curve.lr * kReach);
  std::vector<RateLoss> near;
  for (const auto& [lr, runs] : rates) {
    if (lr >= low && lr <= high) near.insert(near.end(), runs.begin(), runs.end());
  }
  const Parabola fit = fit_parabola(near, curve.lr);
  const double u = fit.minimum();
  const double left = std::log(std::prev(best)->first / curve.lr);
  const double right = std::log(std::next(best)->first / curve.lr);
  if (!(fit.c > 0) || u < left || u > right) {
    curve.words =
        fmt::format("the best rate is {:.4g}; the losses around it are no parabola", curve.lr);
    return curve;
  }
  const double center = curve.lr;
  curve.fitted = true;
  curve.lr = three_digits(center * std::exp(u));
  curve.loss = fit.mean_level + fit.b * u + fit.c * u * u;
  if (fit.degrees_of_freedom == 0) {
    curve.words = fmt::format(
        "minimum at {:.3g}; its spread is not known: three rates and one seed leave none over",
        curve.lr);
    return curve;
  }
  curve.spread = std::sqrt(fit.residual_variance);
  if (const auto interval = minimum_interval(fit)) {
    curve.interval = {center * std::exp(interval->low), center * std::exp(interval->high)};
    curve.words = fmt::format("minimum at {:.3g}, 95 % interval {:.3g} … {:.3g}", curve.lr,
                              curve.interval->low, curve.interval->high);
  } else {
    curve.words = fmt::format(
        "minimum at {:.3g}, but within noise: the rates around it are not told apart", curve.lr);
  }
  return curve;
}

Json to_json(const RateCurve& curve) {
  Json json = {{"lr", curve.diverged ? Json() : Json(curve.lr)},
               {"loss", curve.diverged ? Json() : Json(curve.loss)},
               {"fitted", curve.fitted},
               {"at_edge", curve.at_edge},
               {"interval", nullptr},
               {"spread", curve.spread ? Json(*curve.spread) : Json()},
               {"words", curve.words}};
  if (curve.interval) json["interval"] = {curve.interval->low, curve.interval->high};
  return json;
}

}  // namespace smelt::law
