// Trust-region Newton within bounds, for one law's objective or for several that share unknowns.
// Internal to the folder.
#pragma once

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

namespace smelt::law {

/// Where unknowns may go; low = high holds one.
template <class Vector>
struct Bounds {
  Vector low, high;
};

/// Unknowns that may move: not held, and not pushed out of their range.
template <class Vector>
std::vector<Eigen::Index> free_unknowns(const Bounds<Vector>& bounds, const Vector& u,
                                        const Vector& gradient) {
  std::vector<Eigen::Index> free;
  for (Eigen::Index j = 0; j < u.size(); ++j) {
    if (bounds.low[j] == bounds.high[j]) continue;
    if (u[j] <= bounds.low[j] && gradient[j] > 0) continue;
    if (u[j] >= bounds.high[j] && gradient[j] < 0) continue;
    free.push_back(j);
  }
  return free;
}

/// Largest |sum of terms| / sum of |terms| over the free components of the gradient.
template <class Expansion>
double scaled_gradient(const Expansion& at, const std::vector<Eigen::Index>& free) {
  double worst = 0;
  for (const auto j : free) {
    if (at.absolute[j] > 0) worst = std::max(worst, std::abs(at.gradient[j]) / at.absolute[j]);
  }
  return worst;
}

/// Minimiser of the quadratic model within `radius`, negative curvature taken by its size.
template <class Vector, class Matrix>
Vector trust_step(const Matrix& hessian, const Vector& gradient, double radius) {
  const Eigen::LLT<Matrix> cholesky(hessian);  // near the minimum this is all it takes
  if (cholesky.info() == Eigen::Success) {
    const Vector step = -cholesky.solve(gradient);
    if (step.allFinite() && step.norm() <= radius) return step;
  }
  const Eigen::SelfAdjointEigenSolver<Matrix> eigen(hessian);
  const double largest = eigen.eigenvalues().cwiseAbs().maxCoeff();
  const Vector curvature = eigen.eigenvalues().cwiseAbs().cwiseMax(1e-14 * largest + 1e-300);
  const Vector projected = eigen.eigenvectors().transpose() * gradient;
  const auto length = [&](double mu) {
    return (projected.array() / (curvature.array() + mu)).matrix().norm();
  };
  double mu = 0;
  if (length(0) > radius) {
    double low = 0, high = projected.norm() / radius;
    for (int i = 0; i < 40; ++i) {
      mu = low > 0 ? std::sqrt(low * high) : high * 1e-6;
      if (length(mu) > radius) {
        low = mu;
      } else {
        high = mu;
      }
      if (low > 0 && high / low < 1.1) break;
      if (low == 0 && mu < 1e-12 * largest) break;
    }
    mu = high;
  }
  return -(eigen.eigenvectors() * (projected.array() / (curvature.array() + mu)).matrix());
}

/// Moves `u` to a minimum of `objective` at one delta, to a scaled gradient of `precision`.
/// `longest` limits the step of each unknown, since a flat direction must not carry one away;
/// `weight` is the sum of the rows' weights, `rows` their number.
template <class Objective>
void newton(Objective& objective, const Bounds<typename Objective::Vector>& bounds,
            const typename Objective::Vector& longest, double weight, double rows, double delta,
            double precision, int iterations, typename Objective::Vector& u) {
  using Vector = typename Objective::Vector;
  using Matrix = typename Objective::Matrix;
  const double size = std::sqrt(weight);
  double radius = 0.3 * size;
  int stalled = 0;
  auto here = objective.expand(u, delta);
  for (int iteration = 0; iteration < iterations && stalled < 3; ++iteration) {
    const auto free = free_unknowns(bounds, u, here.gradient);
    if (free.empty() || scaled_gradient(here, free) < precision) return;
    const auto p = static_cast<Eigen::Index>(free.size());
    Vector scale(p), gradient(p);
    Matrix hessian(p, p);
    for (Eigen::Index a = 0; a < p; ++a) {
      scale[a] =
          std::max(std::sqrt(here.column_square[free[static_cast<std::size_t>(a)]]), 1e-12 * size);
    }
    for (Eigen::Index a = 0; a < p; ++a) {
      const auto ja = free[static_cast<std::size_t>(a)];
      gradient[a] = here.gradient[ja] / scale[a];
      for (Eigen::Index b = 0; b < p; ++b) {
        hessian(a, b) = here.hessian(ja, free[static_cast<std::size_t>(b)]) / (scale[a] * scale[b]);
      }
    }
    if (!hessian.allFinite() || !gradient.allFinite()) return;
    const Vector step = trust_step<Vector, Matrix>(hessian, gradient, radius);
    double shrink = 1;
    for (Eigen::Index a = 0; a < p; ++a) {
      const double limit = longest[free[static_cast<std::size_t>(a)]];
      shrink = std::min(shrink, limit / std::max(std::abs(step[a] / scale[a]), 1e-300));
    }
    Vector next = u;
    for (Eigen::Index a = 0; a < p; ++a) {
      const auto j = free[static_cast<std::size_t>(a)];
      next[j] = std::clamp(u[j] + shrink * step[a] / scale[a], bounds.low[j], bounds.high[j]);
    }
    const Vector y = shrink * step;
    const double predicted = -(gradient.dot(y) + 0.5 * y.dot(hessian * y));
    auto there = objective.expand(next, delta);
    const double rounding = 4e-16 * std::abs(here.value) * rows;
    if (std::isfinite(there.value) && there.value < here.value - rounding) {
      const double ratio = (here.value - there.value) / std::max(predicted, 1e-300);
      if (ratio > 0.5) radius = std::max(radius, 2 * y.norm());
      if (ratio < 0.1) radius = std::max(0.5 * y.norm(), 1e-300);
      u = next;
      here = std::move(there);
      stalled = 0;
    } else if (std::isfinite(there.value) && there.value <= here.value + rounding &&
               scaled_gradient(there, free) < scaled_gradient(here, free)) {
      u = next;  // equal to rounding: the gradient decides
      here = std::move(there);
      ++stalled;
    } else {
      if (y.norm() < 1e-15 * size) return;
      radius = 0.2 * y.norm();
    }
  }
}

inline constexpr double kExact = 1e-14;  // of a scaled gradient

/// From a larger delta, at which more points count as inside, down to the one asked for: few pieces
/// to cross at a time.
template <class Objective>
void minimise(Objective& objective, const Bounds<typename Objective::Vector>& bounds,
              const typename Objective::Vector& longest, double weight, double rows, double from,
              double delta, typename Objective::Vector& u) {
  constexpr int kIterations = 400;
  for (double d = from; d > 2 * delta; d *= 0.25) {
    newton(objective, bounds, longest, weight, rows, d, kExact, 12, u);
  }
  newton(objective, bounds, longest, weight, rows, delta, kExact, kIterations, u);
}

}  // namespace smelt::law
