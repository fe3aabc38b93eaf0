#include "smelt/law/solver.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "smelt/law/projection.h"

namespace smelt::law {
namespace {

constexpr double kSmallestTerm = 1e-9;  // nats at the data centre
constexpr double kMeeting = 1e-9;       // scaled gradient at which starts are compared
constexpr int kFewSteps = 12;           // that Newton may take to get there
constexpr double kSamePlace = 1e-7;     // root mean square of residuals' differences

using Vector = Objective::Vector;

Vector to_vector(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

double total_weight(const Problem& problem) {
  return std::accumulate(problem.weight.begin(), problem.weight.end(), 0.0);
}

}  // namespace

Bounds<Vector> bounds_of(const Problem& problem) {
  const Form& form = *problem.form;
  const auto p = static_cast<Eigen::Index>(form.unknowns());
  Bounds<Vector> bounds{Vector::Zero(p), Vector::Zero(p)};
  bounds.high[0] = form.floor ? 1e6 : 0;
  for (std::size_t u = 1; u < form.unknowns(); ++u) {
    const auto at = static_cast<Eigen::Index>(u);
    const bool amplitude = u <= form.amplitudes;
    bounds.low[at] = amplitude ? std::log(kSmallestTerm) : form.shape[u - 1 - form.amplitudes].low;
    bounds.high[at] = amplitude ? 100 : form.shape[u - 1 - form.amplitudes].high;
  }
  for (std::size_t u = 0; u < form.unknowns(); ++u) {
    if (!problem.held[u]) continue;
    const bool amplitude = u >= 1 && u <= form.amplitudes;
    // A term that is not there needs no logarithm.
    const double value = !amplitude             ? *problem.held[u]
                         : *problem.held[u] > 0 ? std::log(*problem.held[u])
                                                : 0;
    bounds.low[static_cast<Eigen::Index>(u)] = bounds.high[static_cast<Eigen::Index>(u)] = value;
  }
  return bounds;
}

Vector longest_steps(const Problem& problem) {
  Vector steps = Vector::Ones(static_cast<Eigen::Index>(problem.form->unknowns()));
  steps[0] = 2;
  return steps;
}

std::vector<double> coefficients_of(const Problem& problem, const std::vector<double>& unknowns) {
  const Form& form = *problem.form;
  std::vector<double> coefficients(form.coefficients.size());
  if (form.to_coefficients) {
    form.to_coefficients(unknowns.data(), problem.centre, coefficients.data());
    return coefficients;
  }
  coefficients = unknowns;
  const auto offsets = centre_offsets(problem, unknowns.data() + 1 + form.amplitudes);
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    const auto& held = problem.held[1 + k];
    coefficients[1 + k] = held ? *held : std::exp(unknowns[1 + k] - offsets[k]);
  }
  return coefficients;
}

Solution solution_at(const Problem& problem, Objective& objective, const Vector& u) {
  const Form& form = *problem.form;
  const Bounds<Vector> bounds = bounds_of(problem);
  const auto end = objective.expand(u, problem.delta);
  Solution solution;
  solution.objective = end.value;
  solution.scaled_gradient = scaled_gradient(end, free_unknowns(bounds, u, end.gradient));
  solution.unknowns.assign(u.data(), u.data() + u.size());
  solution.coefficients = coefficients_of(problem, solution.unknowns);
  for (Eigen::Index j = 0; j < u.size(); ++j) {
    const bool held = bounds.low[j] == bounds.high[j];
    const bool amplitude = j >= 1 && j <= static_cast<Eigen::Index>(form.amplitudes);
    // A term that vanishes at the centre only because it is steep is not at a bound.
    const double slack = amplitude ? 2.0 : 1e-9;
    solution.at_bound.push_back(!held &&
                                (u[j] <= bounds.low[j] + slack || u[j] >= bounds.high[j] - slack));
  }
  return solution;
}

Solution refine(const Problem& problem, Objective& objective, const std::vector<double>& unknowns) {
  const Bounds<Vector> bounds = bounds_of(problem);
  Vector u = to_vector(unknowns).cwiseMax(bounds.low).cwiseMin(bounds.high);
  minimise(objective, bounds, longest_steps(problem), total_weight(problem),
           static_cast<double>(objective.size()),
           problem.squares ? problem.delta : objective.median_residual(u), problem.delta, u);
  return solution_at(problem, objective, u);
}

namespace {

/// Whether two places give every residual nearly the same: the unknowns' differences, each by what
/// it moves the residuals.
bool same_place(const Vector& a, const Vector& b, const Vector& column_square, double weight) {
  return ((a - b).array().square() * column_square.array()).sum() <
         kSamePlace * kSamePlace * weight;
}

/// From a minimum at the common, larger delta down to one at the delta asked for.
struct Path {
  Vector at;
  Solution end;
};

}  // namespace

SearchResult search(const Problem& problem, const StartGrid& grid, std::size_t starts,
                    const std::vector<double>* warm) {
  auto unknowns = grid.best(problem, starts);
  if (warm) unknowns.push_back(*warm);
  Objective objective(problem);
  const Bounds<Vector> bounds = bounds_of(problem);
  const Vector longest = longest_steps(problem);
  const double weight = total_weight(problem), rows = static_cast<double>(objective.size());
  SearchResult result;
  std::vector<double> objectives;
  std::vector<Path> paths;
  // All starts first go to a minimum at one larger delta, by variable projection.  Those that meet
  // there share the way from there on, which depends on nothing else.
  double from = problem.delta;
  if (!problem.squares && !unknowns.empty()) {
    from =
        std::max(from, objective.median_residual(
                           to_vector(unknowns.front()).cwiseMax(bounds.low).cwiseMin(bounds.high)));
  }
  Projection projection(problem);
  for (const auto& start : unknowns) {
    const Vector begin = to_vector(start).cwiseMax(bounds.low).cwiseMin(bounds.high);
    Vector u = begin;
    projection.minimise(from, u);
    u = u.cwiseMax(bounds.low).cwiseMin(bounds.high);
    newton(objective, bounds, longest, weight, rows, from, kMeeting, kFewSteps, u);
    const auto there = objective.expand(u, from);
    const bool arrived =
        scaled_gradient(there, free_unknowns(bounds, u, there.gradient)) < kMeeting;
    const auto met = std::find_if(paths.begin(), paths.end(), [&](const Path& path) {
      return arrived && same_place(path.at, u, there.column_square, weight);
    });
    ++result.tried;
    if (met != paths.end()) {
      objectives.push_back(met->end.objective);
      continue;
    }
    if (!arrived) u = begin;  // a flat valley: its own way
    const Vector at = u;
    minimise(objective, bounds, longest, weight, rows,
             arrived ? 0.25 * from : objective.median_residual(u), problem.delta, u);
    paths.push_back({at, solution_at(problem, objective, u)});
    objectives.push_back(paths.back().end.objective);
    if (result.tried == 1 || paths.back().end.objective < result.best.objective) {
      result.best = paths.back().end;
    }
  }
  const double rounding = weight * std::pow(1e-10 / problem.delta, 2);
  for (const double value : objectives) {
    if (value <= result.best.objective * (1 + 1e-9) + rounding) ++result.agreeing;
  }
  return result;
}

std::vector<Eigen::Index> interior_unknowns(const Problem& problem, const Solution& solution) {
  const Bounds<Vector> bounds = bounds_of(problem);
  std::vector<Eigen::Index> interior;
  for (Eigen::Index j = 0; j < bounds.low.size(); ++j) {
    if (bounds.low[j] != bounds.high[j] && !solution.at_bound[static_cast<std::size_t>(j)]) {
      interior.push_back(j);
    }
  }
  return interior;
}

bool acts(const Form& form, std::size_t term, std::size_t shape) {
  std::vector<double> places, values(form.amplitudes), slopes(form.amplitudes * form.shape.size());
  for (const Shape& one : form.shape) places.push_back(one.grid[one.grid.size() / 2]);
  form.log_terms({1, 1, 1, 1, 1, 2}, places.data(), values.data(), slopes.data(), nullptr);
  return slopes[term * form.shape.size() + shape] != 0;
}

}  // namespace smelt::law
