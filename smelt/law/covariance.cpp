#include "smelt/law/covariance.h"

#include <algorithm>
#include <cmath>

namespace smelt::law {
namespace {

Objective::Vector to_vector(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

/// d coefficient / d unknown by central differences: the map is smooth and in closed form.
Eigen::MatrixXd coefficient_jacobian(const Problem& problem, const std::vector<double>& unknowns,
                                     const std::vector<Eigen::Index>& used) {
  const auto p = static_cast<Eigen::Index>(problem.form->coefficients.size());
  Eigen::MatrixXd jacobian(p, static_cast<Eigen::Index>(used.size()));
  for (std::size_t a = 0; a < used.size(); ++a) {
    const auto j = static_cast<std::size_t>(used[a]);
    const double h = 1e-6 * std::max(1.0, std::abs(unknowns[j]));
    std::vector<double> up = unknowns, down = unknowns;
    up[j] += h;
    down[j] -= h;
    const auto high = coefficients_of(problem, up), low = coefficients_of(problem, down);
    for (Eigen::Index c = 0; c < p; ++c) {
      jacobian(c, static_cast<Eigen::Index>(a)) =
          (high[static_cast<std::size_t>(c)] - low[static_cast<std::size_t>(c)]) / (2 * h);
    }
  }
  return jacobian;
}

}  // namespace

JacobianShape jacobian_shape(const Problem& problem, const Solution& solution) {
  const Form& form = *problem.form;
  const std::vector<Eigen::Index> used = interior_unknowns(problem, solution);
  if (used.empty()) return {1, "", std::vector<double>(form.unknowns(), 0.0)};
  Objective objective(problem);
  const Eigen::MatrixXd all = objective.jacobian(to_vector(solution.unknowns));
  Eigen::MatrixXd jacobian(all.rows(), static_cast<Eigen::Index>(used.size()));
  for (std::size_t a = 0; a < used.size(); ++a) {
    jacobian.col(static_cast<Eigen::Index>(a)) =
        all.col(used[a]).cwiseProduct(objective.weights().sqrt().matrix());
  }
  const Eigen::VectorXd norms = jacobian.colwise().norm();
  for (Eigen::Index a = 0; a < jacobian.cols(); ++a) {
    if (norms[a] > 0) jacobian.col(a) /= norms[a];
  }
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(jacobian, Eigen::ComputeFullV);
  JacobianShape shape;
  const auto last = jacobian.cols() - 1;
  shape.smallest_singular_value =
      jacobian.rows() < jacobian.cols() ? 0 : svd.singularValues()[last];
  Eigen::VectorXd direction = svd.matrixV().col(last);
  Eigen::Index largest = 0;
  direction.cwiseAbs().maxCoeff(&largest);
  if (direction[largest] < 0) direction = -direction;
  shape.move.assign(form.unknowns(), 0.0);
  for (std::size_t a = 0; a < used.size(); ++a) {
    const double share = direction[static_cast<Eigen::Index>(a)];
    const auto unknown = static_cast<std::size_t>(used[a]);
    shape.move[unknown] =
        std::abs(share) /
        std::max(shape.smallest_singular_value * norms[static_cast<Eigen::Index>(a)], 1e-300);
    if (std::abs(share) < 0.2) continue;
    if (!shape.direction.empty()) shape.direction += " with ";
    shape.direction += form.unknown_name(unknown) + (share > 0 ? " up" : " down");
  }
  return shape;
}

std::vector<double> sandwich_errors(const Problem& problem, const Solution& solution,
                                    const std::vector<std::size_t>& cluster) {
  const std::size_t p = problem.form->coefficients.size();
  const std::vector<Eigen::Index> used = interior_unknowns(problem, solution);
  const auto free = static_cast<Eigen::Index>(used.size());
  std::vector<double> errors(p, 0.0);
  if (free == 0) return errors;
  Objective objective(problem);
  const auto u = to_vector(solution.unknowns);
  const Eigen::MatrixXd jacobian = objective.jacobian(u);
  const auto end = objective.expand(u, problem.delta);

  const std::size_t clusters =
      cluster.empty() ? 0 : 1 + *std::max_element(cluster.begin(), cluster.end());
  Eigen::MatrixXd scores = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(clusters), free);
  for (std::size_t row = 0; row < objective.size(); ++row) {
    const auto i = static_cast<Eigen::Index>(row);
    const double r = objective.residuals()[i], z = r / problem.delta;
    const double side = problem.quantile == 0.5 ? 1
                        : r > 0                 ? 2 * (1 - problem.quantile)
                                                : 2 * problem.quantile;
    const double pull = side * objective.weights()[i] *
                        (problem.squares ? z : std::clamp(z, -1.0, 1.0)) / problem.delta;
    for (Eigen::Index a = 0; a < free; ++a) {
      scores(static_cast<Eigen::Index>(cluster[objective.rows()[row]]), a) +=
          pull * jacobian(i, used[static_cast<std::size_t>(a)]);
    }
  }
  Eigen::MatrixXd hessian(free, free);
  Eigen::VectorXd scale(free);
  for (Eigen::Index a = 0; a < free; ++a) {
    scale[a] = std::sqrt(std::max(end.column_square[used[static_cast<std::size_t>(a)]], 1e-300));
  }
  for (Eigen::Index a = 0; a < free; ++a) {
    for (Eigen::Index b = 0; b < free; ++b) {
      hessian(a, b) =
          end.hessian(used[static_cast<std::size_t>(a)], used[static_cast<std::size_t>(b)]) /
          (scale[a] * scale[b]);
    }
    scores.col(a) /= scale[a];
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(hessian);
  const double largest = eigen.eigenvalues().cwiseAbs().maxCoeff();
  if (!(eigen.eigenvalues().minCoeff() > 1e-12 * largest) || clusters < 2) {
    return std::vector<double>(p, std::nan(""));
  }
  const double correction = static_cast<double>(clusters) / static_cast<double>(clusters - 1);
  const Eigen::MatrixXd inverse = hessian.inverse();
  const Eigen::MatrixXd middle = correction * scores.transpose() * scores;
  const Eigen::MatrixXd covariance = inverse * middle * inverse;
  Eigen::MatrixXd to_coefficients = coefficient_jacobian(problem, solution.unknowns, used);
  for (Eigen::Index a = 0; a < free; ++a) to_coefficients.col(a) /= scale[a];
  for (std::size_t c = 0; c < p; ++c) {
    const Eigen::VectorXd direction = to_coefficients.row(static_cast<Eigen::Index>(c));
    errors[c] = std::sqrt(std::max(0.0, direction.dot(covariance * direction)));
  }
  return errors;
}

}  // namespace smelt::law
