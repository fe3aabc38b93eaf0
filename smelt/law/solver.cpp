#include "smelt/law/solver.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace smelt::law {
namespace {

constexpr int kMax = static_cast<int>(kMaxUnknowns);
using Vector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMax, 1>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMax, kMax>;

constexpr double kSmallestTerm = 1e-9;  // nats at the data centre
constexpr double kNegligible = 1e-9;    // nats: residuals below are rounding
constexpr int kIterations = 400;

struct Bounds {
  Vector low, high;
};

Bounds bounds_of(const Problem& problem) {
  const Form& form = *problem.form;
  const auto p = static_cast<Eigen::Index>(form.coefficients.size());
  Bounds bounds{Vector::Zero(p), Vector::Constant(p, kMaxExponent)};
  bounds.high[0] = 1e6;
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    bounds.low[1 + static_cast<Eigen::Index>(k)] = std::log(kSmallestTerm);
    bounds.high[1 + static_cast<Eigen::Index>(k)] = 100;
  }
  // Exponents of F and D are not negative; that of 1 - S may be.
  if (form.sparsity_exponent) {
    bounds.low[static_cast<Eigen::Index>(1 + form.amplitudes + *form.sparsity_exponent)] =
        -kMaxExponent;
  }
  return bounds;
}

/// Value, gradient, Hessian and absolute sums of the objective at one place.
struct Expansion {
  double value = 0;
  Vector gradient, absolute, column_square;
  Matrix hessian;
};

class Objective {
 public:
  explicit Objective(const Problem& problem) : problem_(problem), form_(*problem.form) {
    terms_ = form_.amplitudes;
    exponents_ = form_.exponents();
    size_ = static_cast<Eigen::Index>(form_.coefficients.size());
    for (std::size_t k = 0; k < terms_; ++k) present_.push_back(!problem.held[1 + k].has_value());
  }

  /// The law at every point, as `m` and its first derivatives.
  template <class Visit>
  void each(const Vector& u, Visit&& visit) const {
    double centre[kMax], centre_slope[kMax * kMax], terms[kMax], slope[kMax * kMax], t[kMax];
    const double* exponents = u.data() + 1 + terms_;
    form_.log_terms(problem_.centre, exponents, centre, centre_slope);
    for (std::size_t i = 0; i < problem_.x.size(); ++i) {
      if (problem_.weight[i] == 0) continue;
      form_.log_terms(problem_.x[i], exponents, terms, slope);
      double m = u[0];
      for (std::size_t k = 0; k < terms_; ++k) {
        t[k] =
            present_[k] ? std::exp(u[static_cast<Eigen::Index>(1 + k)] + terms[k] - centre[k]) : 0;
        m += t[k];
        for (std::size_t j = 0; j < exponents_; ++j) {
          slope[k * exponents_ + j] -= centre_slope[k * exponents_ + j];
        }
      }
      visit(i, m, t, slope);
    }
  }

  /// d ln m / d unknown.
  void row(double m, const double* t, const double* slope, double* first) const {
    first[0] = 1 / m;
    for (std::size_t j = 0; j < exponents_; ++j) first[1 + terms_ + j] = 0;
    for (std::size_t k = 0; k < terms_; ++k) {
      const double share = t[k] / m;
      first[1 + k] = share;
      for (std::size_t j = 0; j < exponents_; ++j) {
        first[1 + terms_ + j] += share * slope[k * exponents_ + j];
      }
    }
  }

  Expansion full(const Vector& u, double delta) const {
    const std::size_t p = form_.coefficients.size();
    double gradient[kMax] = {}, absolute[kMax] = {}, square[kMax] = {}, hessian[kMax][kMax] = {};
    double first[kMax], value = 0;
    each(u, [&](std::size_t i, double m, const double* t, const double* slope) {
      const double w = problem_.weight[i];
      const double z = (std::log(m) - problem_.log_loss[i]) / delta;
      const bool inside = std::abs(z) <= 1;
      const double psi = inside ? z : (z > 0 ? 1.0 : -1.0);
      value += w * (inside ? 0.5 * z * z : std::abs(z) - 0.5);
      row(m, t, slope, first);
      const double pull = w * psi / delta;
      const double curve = w * (inside ? 1.0 : 0.0) / (delta * delta) - pull;
      const double size = w * std::max(std::abs(psi), kNegligible / delta) / delta;
      for (std::size_t a = 0; a < p; ++a) {
        gradient[a] += pull * first[a];
        absolute[a] += size * std::abs(first[a]);
        square[a] += w * first[a] * first[a];
        const double scaled = curve * first[a];
        for (std::size_t b = 0; b <= a; ++b) hessian[a][b] += scaled * first[b];
      }
      // Second derivatives of the law: each term is the exponential of something linear in its
      // unknowns.
      for (std::size_t k = 0; k < terms_; ++k) {
        const double share = pull * t[k] / m;
        const double* s = slope + k * exponents_;
        hessian[1 + k][1 + k] += share;
        for (std::size_t j = 0; j < exponents_; ++j) {
          const std::size_t a = 1 + terms_ + j;
          hessian[a][1 + k] += share * s[j];
          for (std::size_t l = 0; l <= j; ++l) hessian[a][1 + terms_ + l] += share * s[j] * s[l];
        }
      }
    });
    Expansion out;
    out.value = value;
    out.gradient = Eigen::Map<Eigen::VectorXd>(gradient, size_);
    out.absolute = Eigen::Map<Eigen::VectorXd>(absolute, size_);
    out.column_square = Eigen::Map<Eigen::VectorXd>(square, size_);
    out.hessian.resize(size_, size_);
    for (Eigen::Index a = 0; a < size_; ++a) {
      for (Eigen::Index b = 0; b <= a; ++b) out.hessian(a, b) = out.hessian(b, a) = hessian[a][b];
    }
    return out;
  }

 private:
  const Problem& problem_;
  const Form& form_;
  std::size_t terms_ = 0, exponents_ = 0;
  Eigen::Index size_ = 0;
  std::vector<bool> present_;
};

/// Unknowns that may move: not held, and not pushed out of their range.
std::vector<Eigen::Index> free_unknowns(const Problem& problem, const Bounds& bounds,
                                        const Vector& u, const Vector& gradient) {
  std::vector<Eigen::Index> free;
  for (Eigen::Index j = 0; j < u.size(); ++j) {
    if (problem.held[static_cast<std::size_t>(j)]) continue;
    if (u[j] <= bounds.low[j] && gradient[j] > 0) continue;
    if (u[j] >= bounds.high[j] && gradient[j] < 0) continue;
    free.push_back(j);
  }
  return free;
}

double scaled_gradient(const Expansion& at, const std::vector<Eigen::Index>& free) {
  double worst = 0;
  for (const auto j : free) {
    if (at.absolute[j] > 0) worst = std::max(worst, std::abs(at.gradient[j]) / at.absolute[j]);
  }
  return worst;
}

/// Minimiser of the quadratic model within `radius`, negative curvature taken by its size.
Vector trust_step(const Matrix& hessian, const Vector& gradient, double radius) {
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

/// Trust-region Newton at one delta, within bounds.
void newton(const Problem& problem, const Objective& objective, const Bounds& bounds, double delta,
            int iterations, Vector& u) {
  const double size = std::sqrt(std::accumulate(problem.weight.begin(), problem.weight.end(), 0.0));
  double radius = 0.3 * size;
  int stalled = 0;
  Expansion here = objective.full(u, delta);
  for (int iteration = 0; iteration < iterations && stalled < 3; ++iteration) {
    const auto free = free_unknowns(problem, bounds, u, here.gradient);
    if (free.empty() || scaled_gradient(here, free) < 1e-15) return;
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
    const Vector step = trust_step(hessian, gradient, radius);
    // A flat direction must not carry an unknown away in one step.
    double shrink = 1;
    for (Eigen::Index a = 0; a < p; ++a) {
      const double limit = free[static_cast<std::size_t>(a)] == 0 ? 2.0 : 1.0;
      shrink = std::min(shrink, limit / std::max(std::abs(step[a] / scale[a]), 1e-300));
    }
    Vector next = u;
    for (Eigen::Index a = 0; a < p; ++a) {
      const auto j = free[static_cast<std::size_t>(a)];
      next[j] = std::clamp(u[j] + shrink * step[a] / scale[a], bounds.low[j], bounds.high[j]);
    }
    const Vector y = shrink * step;
    const double predicted = -(gradient.dot(y) + 0.5 * y.dot(hessian * y));
    Expansion there = objective.full(next, delta);
    const double rounding = 4e-16 * std::abs(here.value) * static_cast<double>(problem.x.size());
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

double median_residual(const Problem& problem, const Objective& objective, const Vector& u) {
  std::vector<double> sizes;
  objective.each(u, [&](std::size_t i, double m, const double*, const double*) {
    sizes.push_back(std::abs(std::log(m) - problem.log_loss[i]));
  });
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return *middle;
}

/// Unknowns that are neither held nor at a bound in a solution.
std::vector<Eigen::Index> interior_unknowns(const Problem& problem, const Solution& solution) {
  std::vector<Eigen::Index> interior;
  for (std::size_t j = 0; j < solution.unknowns.size(); ++j) {
    if (!problem.held[j] && !solution.at_bound[j]) interior.push_back(static_cast<Eigen::Index>(j));
  }
  return interior;
}

Vector to_vector(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

}  // namespace

bool acts(const Form& form, std::size_t term, std::size_t exponent) {
  std::vector<double> exponents(form.exponents(), 0.5), terms(form.amplitudes),
      slopes(form.amplitudes * form.exponents());
  form.log_terms({1, 1, 1}, exponents.data(), terms.data(), slopes.data());
  return slopes[term * form.exponents() + exponent] != 0;
}

Solution refine(const Problem& problem, std::vector<double> unknowns) {
  const Form& form = *problem.form;
  const Objective objective(problem);
  const Bounds bounds = bounds_of(problem);
  Vector u = to_vector(unknowns).cwiseMax(bounds.low).cwiseMin(bounds.high);
  // From a delta at which most points count as inside down to the one asked for: few pieces to
  // cross at a time.
  for (double delta = median_residual(problem, objective, u); delta > 2 * problem.delta;
       delta *= 0.25) {
    newton(problem, objective, bounds, delta, 12, u);
  }
  newton(problem, objective, bounds, problem.delta, kIterations, u);

  Solution solution;
  const Expansion end = objective.full(u, problem.delta);
  solution.objective = end.value;
  solution.scaled_gradient = scaled_gradient(end, free_unknowns(problem, bounds, u, end.gradient));
  solution.unknowns.assign(u.data(), u.data() + u.size());
  solution.coefficients = solution.unknowns;
  std::vector<double> centre(form.amplitudes), slopes(form.amplitudes * form.exponents());
  form.log_terms(problem.centre, u.data() + 1 + form.amplitudes, centre.data(), slopes.data());
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    const auto j = static_cast<Eigen::Index>(1 + k);
    solution.coefficients[1 + k] = problem.held[1 + k] ? 0.0 : std::exp(u[j] - centre[k]);
  }
  for (Eigen::Index j = 0; j < u.size(); ++j) {
    const bool held = problem.held[static_cast<std::size_t>(j)].has_value();
    const bool amplitude = j >= 1 && j <= static_cast<Eigen::Index>(form.amplitudes);
    // A term that vanishes at the centre only because it is steep is not at a bound.
    const double slack = amplitude ? 2.0 : 1e-9;
    solution.at_bound.push_back(!held &&
                                (u[j] <= bounds.low[j] + slack || u[j] >= bounds.high[j] - slack));
  }
  return solution;
}

SearchResult search(const Problem& problem, const StartGrid& grid, std::size_t starts,
                    const std::vector<double>* warm) {
  auto unknowns = grid.best(problem, starts);
  if (warm) unknowns.push_back(*warm);
  SearchResult result;
  std::vector<double> objectives;
  for (auto& start : unknowns) {
    Solution solution = refine(problem, std::move(start));
    objectives.push_back(solution.objective);
    if (result.tried++ == 0 || solution.objective < result.best.objective) {
      result.best = std::move(solution);
    }
  }
  const double weight = std::accumulate(problem.weight.begin(), problem.weight.end(), 0.0);
  const double rounding = weight * std::pow(1e-10 / problem.delta, 2);
  for (const double value : objectives) {
    if (value <= result.best.objective * (1 + 1e-9) + rounding) ++result.agreeing;
  }
  return result;
}

JacobianShape jacobian_shape(const Problem& problem, const Solution& solution) {
  const Form& form = *problem.form;
  const Objective objective(problem);
  const Vector u = to_vector(solution.unknowns);
  const std::vector<Eigen::Index> used = interior_unknowns(problem, solution);
  if (used.empty()) return {1, "", std::vector<double>(form.coefficients.size(), 0.0)};
  Eigen::MatrixXd jacobian = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(problem.x.size()),
                                                   static_cast<Eigen::Index>(used.size()));
  double first[kMax];
  objective.each(u, [&](std::size_t i, double m, const double* t, const double* slope) {
    objective.row(m, t, slope, first);
    for (std::size_t a = 0; a < used.size(); ++a) {
      jacobian(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(a)) =
          std::sqrt(problem.weight[i]) * first[used[a]];
    }
  });
  Eigen::VectorXd norms = jacobian.colwise().norm();
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
  shape.move.assign(form.coefficients.size(), 0.0);
  for (std::size_t a = 0; a < used.size(); ++a) {
    const double share = direction[static_cast<Eigen::Index>(a)];
    shape.move[static_cast<std::size_t>(used[a])] =
        std::abs(share) /
        std::max(shape.smallest_singular_value * norms[static_cast<Eigen::Index>(a)], 1e-300);
    if (std::abs(share) < 0.2) continue;
    if (!shape.direction.empty()) shape.direction += " with ";
    shape.direction +=
        form.coefficients[static_cast<std::size_t>(used[a])] + (share > 0 ? " up" : " down");
  }
  return shape;
}

std::vector<double> sandwich_errors(const Problem& problem, const Solution& solution,
                                    const std::vector<std::size_t>& cluster) {
  const Form& form = *problem.form;
  const std::size_t p = form.coefficients.size(), terms = form.amplitudes;
  const Objective objective(problem);
  const Vector u = to_vector(solution.unknowns);
  const std::vector<Eigen::Index> used = interior_unknowns(problem, solution);
  const auto free = static_cast<Eigen::Index>(used.size());
  std::vector<double> errors(p, 0.0);
  if (free == 0) return errors;

  const std::size_t clusters =
      cluster.empty() ? 0 : 1 + *std::max_element(cluster.begin(), cluster.end());
  Eigen::MatrixXd scores = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(clusters), free);
  double first[kMax];
  objective.each(u, [&](std::size_t i, double m, const double* t, const double* slope) {
    objective.row(m, t, slope, first);
    const double z = (std::log(m) - problem.log_loss[i]) / problem.delta;
    const double pull = problem.weight[i] * std::clamp(z, -1.0, 1.0) / problem.delta;
    for (Eigen::Index a = 0; a < free; ++a) {
      scores(static_cast<Eigen::Index>(cluster[i]), a) +=
          pull * first[used[static_cast<std::size_t>(a)]];
    }
  });
  const Expansion end = objective.full(u, problem.delta);
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

  // From the unknowns to the coefficients: an amplitude is exp(u − its log term at the centre).
  std::vector<double> centre(terms), slopes(terms * form.exponents());
  form.log_terms(problem.centre, u.data() + 1 + terms, centre.data(), slopes.data());
  for (std::size_t c = 0; c < p; ++c) {
    Eigen::VectorXd direction = Eigen::VectorXd::Zero(free);
    for (Eigen::Index a = 0; a < free; ++a) {
      const auto j = static_cast<std::size_t>(used[static_cast<std::size_t>(a)]);
      double derivative = j == c ? 1 : 0;
      if (c >= 1 && c <= terms) {
        const double amplitude = solution.coefficients[c];
        if (j == c) derivative = amplitude;
        if (j > terms) derivative = -amplitude * slopes[(c - 1) * form.exponents() + j - 1 - terms];
      }
      direction[a] = derivative / scale[a];
    }
    errors[c] = std::sqrt(std::max(0.0, direction.dot(covariance * direction)));
  }
  return errors;
}

}  // namespace smelt::law
