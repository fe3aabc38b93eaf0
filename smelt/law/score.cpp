#include "smelt/law/score.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "smelt/core/error.h"
#include "smelt/law/loss_gap.h"

namespace smelt::law {
namespace {

constexpr std::size_t kFewestPoints = 5;
constexpr int kGrid = 40;
constexpr int kIterations = 200;

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Unknowns b, a, ln α, τ.
using Unknowns = Eigen::Vector4d;

struct Sums {
  double squares = 0;
  Eigen::Matrix4d gram = Eigen::Matrix4d::Zero();
  Eigen::Vector4d right = Eigen::Vector4d::Zero();
};

Sums sums_at(const Unknowns& u, const std::vector<double>& x, const std::vector<double>& y,
             double d) {
  Sums sums;
  const double alpha = std::exp(u[2]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double z = d * alpha * (x[i] - u[3]), s = logistic(z), slope = u[1] * s * (1 - s);
    const double r = u[0] + u[1] * s - y[i];
    const Eigen::Vector4d row(1, s, slope * z, -slope * d * alpha);
    sums.squares += r * r;
    sums.gram += row * row.transpose();
    sums.right += r * row;
  }
  return sums;
}

/// The best b and a >= 0 at given α and τ.
Unknowns linear_part(double log_alpha, double tau, const std::vector<double>& x,
                     const std::vector<double>& y, double d) {
  double n = 0, s_mean = 0, y_mean = 0, ss = 0, sy = 0;
  for (const double value : y) n += 1, y_mean += value;
  y_mean /= n;
  std::vector<double> s;
  for (const double value : x) {
    s.push_back(logistic(d * std::exp(log_alpha) * (value - tau)));
    s_mean += s.back() / n;
  }
  for (std::size_t i = 0; i < s.size(); ++i) {
    ss += (s[i] - s_mean) * (s[i] - s_mean);
    sy += (s[i] - s_mean) * (y[i] - y_mean);
  }
  const double a = ss > 0 ? std::max(0.0, sy / ss) : 0;
  return {y_mean - a * s_mean, a, log_alpha, tau};
}

/// Levenberg-Marquardt from a start.
double polish(Unknowns& u, const std::vector<double>& x, const std::vector<double>& y, double d) {
  Sums here = sums_at(u, x, y, d);
  double damping = 1e-3;
  for (int i = 0; i < kIterations && damping < 1e12; ++i) {
    Eigen::Matrix4d damped = here.gram;
    for (Eigen::Index j = 0; j < 4; ++j) damped(j, j) *= 1 + damping;
    damped += 1e-300 * Eigen::Matrix4d::Identity();
    Unknowns next = u - damped.ldlt().solve(here.right);
    next[1] = std::max(next[1], 0.0);
    const Sums there = next.allFinite() ? sums_at(next, x, y, d) : Sums{INFINITY, {}, {}};
    if (there.squares < here.squares) {
      const bool done = here.squares - there.squares < 1e-15 * here.squares;
      u = next;
      here = there;
      damping = std::max(1e-12, damping / 10);
      if (done) break;
    } else {
      damping *= 10;
    }
  }
  return here.squares;
}

void check(const std::vector<double>& losses, const std::vector<double>& scores) {
  Problems problems("law");
  if (losses.size() != scores.size()) problems.add("as many losses as scores are needed");
  if (losses.size() < kFewestPoints) {
    problems.add(
        fmt::format("a score in the loss needs {} points, got {}", kFewestPoints, losses.size()));
  }
  for (const auto* values : {&losses, &scores}) {
    const char* name = values == &losses ? "loss" : "score";
    for (const double value : *values) {
      if (std::isfinite(value)) continue;
      problems.add(std::string(name) + ": expected finite numbers, got " + number_text(value));
      break;
    }
    if (values->size() > 1 && *std::min_element(values->begin(), values->end()) ==
                                  *std::max_element(values->begin(), values->end())) {
      problems.add(std::string("every ") + name + " is the same");
    }
  }
  problems.throw_if_any();
}

}  // namespace

double ScoreFit::predict(double loss) const {
  return b + a * logistic((kind == ScoreKind::kLoss ? 1 : -1) * alpha * (loss - tau));
}

ScoreFit fit_score(const std::vector<double>& losses, const std::vector<double>& scores,
                   ScoreKind kind) {
  check(losses, scores);
  const double d = kind == ScoreKind::kLoss ? 1 : -1;
  const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
  const double width = *high - *low;
  // Slopes from nearly straight to a step between two points; the middle inside the losses or near.
  std::vector<std::pair<double, Unknowns>> starts;
  for (int i = 0; i < kGrid; ++i) {
    for (int j = 0; j < kGrid; ++j) {
      const double log_alpha = std::log(0.3 / width) + std::log(300.0) * i / (kGrid - 1);
      const double tau = *low + width * (2.0 * j / (kGrid - 1) - 0.5);
      const Unknowns u = linear_part(log_alpha, tau, losses, scores, d);
      starts.emplace_back(sums_at(u, losses, scores, d).squares, u);
    }
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  double best = INFINITY;
  Unknowns u = starts.front().second;
  for (std::size_t i = 0; i < starts.size(); i += starts.size() / 16) {
    Unknowns one = starts[i].second;
    const double squares = polish(one, losses, scores, d);
    if (squares < best) best = squares, u = one;
  }
  ScoreFit fit;
  fit.kind = kind;
  fit.b = u[0];
  fit.a = u[1];
  fit.alpha = std::exp(u[2]);
  fit.tau = u[3];
  fit.points = losses.size();
  fit.range = {*low, *high};
  double mean = 0, total = 0;
  for (const double y : scores) mean += y / static_cast<double>(scores.size());
  for (const double y : scores) total += (y - mean) * (y - mean);
  fit.r2 = 1 - best / total;
  fit.rmse = std::sqrt(best / static_cast<double>(scores.size() - 4));
  if (fit.a == 0) {
    fit.words.push_back(kind == ScoreKind::kLoss ? "the scores do not rise with the loss"
                                                 : "the scores do not fall with the loss");
  } else if (fit.tau < *low - 0.5 * width || fit.tau > *high + 0.5 * width) {
    fit.words.push_back(
        "the points lie on one flank of the curve: its far level is extrapolated, and a, b and "
        "tau move together");
  }
  return fit;
}

Beyond beyond(const ScoreFit& fit, const std::vector<double>& losses,
              const std::vector<double>& scores) {
  Beyond other;
  const double better = fit.kind == ScoreKind::kLoss ? -1 : 1;
  const auto n = static_cast<double>(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    other.residuals.push_back(better * (scores[i] - fit.predict(losses[i])));
    other.mean += other.residuals.back() / n;
    if (!fit.range.contains(losses[i])) ++other.extrapolated;
  }
  if (losses.size() < 2) return other;
  double squares = 0;
  for (const double r : other.residuals) squares += (r - other.mean) * (r - other.mean);
  other.standard_error = std::sqrt(squares / (n - 1) / n);
  const double reach = student_t(static_cast<int>(losses.size()) - 1, 0.95) * *other.standard_error;
  other.interval = Range{other.mean - reach, other.mean + reach};
  return other;
}

Json to_json(const ScoreFit& fit) {
  return {{"equation", "y = b + a / (1 + exp(-d alpha (loss - tau)))"},
          {"kind", enum_name(fit.kind)},
          {"points", fit.points},
          {"coefficients", {{"a", fit.a}, {"b", fit.b}, {"alpha", fit.alpha}, {"tau", fit.tau}}},
          {"r2", fit.r2},
          {"rmse", fit.rmse},
          {"losses", {fit.range.min, fit.range.max}},
          {"words", fit.words}};
}

Json to_json(const Beyond& other) {
  return {{"points", other.residuals.size()},
          {"mean", other.mean},
          {"standard_error", other.standard_error ? Json(*other.standard_error) : Json()},
          {"interval",
           other.interval ? Json::array({other.interval->min, other.interval->max}) : Json()},
          {"extrapolated", other.extrapolated},
          {"residuals", other.residuals}};
}

}  // namespace smelt::law
