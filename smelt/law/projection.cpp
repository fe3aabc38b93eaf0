#include "smelt/law/projection.h"

#include <algorithm>
#include <cmath>

namespace smelt::law {
namespace {

using SmallVector = Objective::Vector;
using SmallMatrix = Objective::Matrix;

constexpr int kIterations = 15;
constexpr double kEnough = 1e-4;  // relative step of the value that is left to Newton
constexpr double kSmall = 1e-3;   // of the loss: what an absent term starts from

}  // namespace

std::vector<double> small_nnls(const SmallMatrix& gram, const SmallVector& right,
                               double target_square, double& error) {
  const auto n = static_cast<int>(right.size());
  std::vector<double> best(static_cast<std::size_t>(n), 0.0);
  error = target_square;
  for (int support = (1 << n) - 1; support > 0; --support) {
    std::vector<int> used;
    for (int j = 0; j < n; ++j) {
      if (support >> j & 1) used.push_back(j);
    }
    const auto p = static_cast<Eigen::Index>(used.size());
    SmallMatrix g(p, p);
    SmallVector r(p);
    for (Eigen::Index a = 0; a < p; ++a) {
      r[a] = right[used[static_cast<std::size_t>(a)]];
      for (Eigen::Index b = 0; b < p; ++b) {
        g(a, b) = gram(used[static_cast<std::size_t>(a)], used[static_cast<std::size_t>(b)]);
      }
      g(a, a) *= 1 + 1e-13;
    }
    const SmallVector solved = g.ldlt().solve(r);
    if (!(solved.minCoeff() >= 0)) continue;
    const double miss = target_square - 2 * solved.dot(r) + solved.dot(g * solved);
    if (miss < error || support == (1 << n) - 1) {
      error = miss;
      std::fill(best.begin(), best.end(), 0.0);
      for (Eigen::Index a = 0; a < p; ++a) {
        best[static_cast<std::size_t>(used[static_cast<std::size_t>(a)])] = solved[a];
      }
      if (support == (1 << n) - 1) break;  // the unconstrained optimum is inside
    }
  }
  return best;
}

Projection::Projection(const Problem& problem) : problem_(problem), terms_(problem) {
  const Form& form = *problem.form;
  for (std::size_t j = 0; j <= form.amplitudes; ++j) {
    if (!problem.held[j] && (j > 0 || form.floor)) columns_.push_back(j);
  }
  for (std::size_t j = 0; j < form.shape.size(); ++j) {
    if (!problem.held[1 + form.amplitudes + j]) free_.push_back(static_cast<Eigen::Index>(j));
  }
  inverse_loss_ = (-terms_.log_loss()).exp();
  column_.resize(columns_.size());
}

void Projection::solve(Place& place) {
  terms_.move_to(place.shape.data());
  target_.setOnes(inverse_loss_.size());
  if (const double held = problem_.held[0].value_or(0); held > 0) target_ -= held * inverse_loss_;
  for (std::size_t k = 0; k < terms_.terms(); ++k) {
    const double held = problem_.held[1 + k].value_or(0);
    if (held > 0) target_ -= held * terms_.log_term(k).exp() * inverse_loss_;
  }
  const auto count = static_cast<Eigen::Index>(columns_.size());
  SmallMatrix gram(count, count);
  SmallVector right(count);
  for (std::size_t a = 0; a < columns_.size(); ++a) {
    column_[a] = inverse_loss_;
    if (columns_[a] > 0) column_[a] *= terms_.log_term(columns_[a] - 1).exp();
    const auto row = static_cast<Eigen::Index>(a);
    residual_ = weight_ * column_[a];
    right[row] = (residual_ * target_).sum();
    for (std::size_t b = 0; b <= a; ++b) {
      gram(row, static_cast<Eigen::Index>(b)) = gram(static_cast<Eigen::Index>(b), row) =
          (residual_ * column_[b]).sum();
    }
  }
  double error = 0;
  place.linear = columns_.empty()
                     ? std::vector<double>{}
                     : small_nnls(gram, right, (weight_ * target_.square()).sum(), error);
  residual_ = -target_;
  for (std::size_t a = 0; a < columns_.size(); ++a) residual_ += place.linear[a] * column_[a];
  place.value = (weight_ * residual_.square()).sum();
}

void Projection::reweigh(double delta, Place& place) {
  if (problem_.squares) return;
  weight_ = terms_.weights() / (residual_.abs() / delta).max(1.0);
  place.value = (weight_ * residual_.square()).sum();
}

void Projection::minimise(double delta, SmallVector& u) {
  const Form& form = *problem_.form;
  const auto shapes = static_cast<Eigen::Index>(form.shape.size());
  const auto count = static_cast<Eigen::Index>(free_.size());
  weight_ = terms_.weights();
  Place here{u.tail(shapes), {}, 0};
  solve(here);
  reweigh(delta, here);
  double damping = 1e-2;
  for (int iteration = 0; iteration < kIterations && count > 0; ++iteration) {
    // Derivatives of the law in the shape, less what the linear part takes up.
    std::vector<Eigen::ArrayXd> slope(free_.size(), Eigen::ArrayXd::Zero(residual_.size()));
    std::vector<std::size_t> active;
    for (std::size_t a = 0; a < columns_.size(); ++a) {
      if (here.linear[a] > 0) active.push_back(a);
      if (here.linear[a] == 0 || columns_[a] == 0) continue;
      const std::size_t k = columns_[a] - 1;
      for (std::size_t j = 0; j < free_.size(); ++j) {
        const auto shape = static_cast<std::size_t>(free_[j]);
        if (terms_.acts(k, shape)) {
          slope[j] += here.linear[a] * column_[a] * terms_.slope(k, shape);
        }
      }
    }
    const auto used = static_cast<Eigen::Index>(active.size());
    SmallMatrix gram(used, used), hessian(count, count);
    SmallVector gradient(count);
    for (Eigen::Index a = 0; a < used; ++a) {
      for (Eigen::Index b = 0; b <= a; ++b) {
        gram(a, b) = gram(b, a) = (weight_ * column_[active[static_cast<std::size_t>(a)]] *
                                   column_[active[static_cast<std::size_t>(b)]])
                                      .sum();
      }
      gram(a, a) *= 1 + 1e-12;
    }
    const Eigen::LDLT<SmallMatrix> solver(gram);
    for (std::size_t j = 0; j < free_.size(); ++j) {
      gradient[static_cast<Eigen::Index>(j)] = (weight_ * slope[j] * residual_).sum();
      SmallVector along(used);
      for (Eigen::Index a = 0; a < used; ++a) {
        along[a] = (weight_ * slope[j] * column_[active[static_cast<std::size_t>(a)]]).sum();
      }
      const SmallVector share = used > 0 ? SmallVector(solver.solve(along)) : along;
      for (Eigen::Index a = 0; a < used; ++a) {
        slope[j] -= share[a] * column_[active[static_cast<std::size_t>(a)]];
      }
    }
    for (Eigen::Index i = 0; i < count; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) {
        hessian(i, j) = hessian(j, i) =
            (weight_ * slope[static_cast<std::size_t>(i)] * slope[static_cast<std::size_t>(j)])
                .sum();
      }
    }
    bool moved = false;
    const double before = here.value;
    for (int attempt = 0; attempt < 8 && !moved; ++attempt) {
      SmallMatrix damped = hessian;
      for (Eigen::Index j = 0; j < count; ++j) {
        damped(j, j) +=
            damping * std::max(hessian(j, j), 1e-12 * hessian.diagonal().maxCoeff()) + 1e-300;
      }
      const SmallVector step = -damped.ldlt().solve(gradient);
      Place there = here;
      for (Eigen::Index j = 0; j < count; ++j) {
        const auto at = free_[static_cast<std::size_t>(j)];
        const Shape& bounds = form.shape[static_cast<std::size_t>(at)];
        // Terms bend in their exponents: half of one is as far as a step can be trusted.
        const double reach = 0.5 * std::max(std::abs(here.shape[at]), 0.1);
        there.shape[at] = std::clamp(here.shape[at] + std::clamp(step[j], -reach, reach),
                                     bounds.low, bounds.high);
      }
      if (!step.allFinite()) break;
      solve(there);
      moved = there.value < here.value;
      damping = moved ? std::max(1e-9, damping / 10) : 10 * damping;
      if (moved) here = there;
    }
    if (!moved || before - here.value < kEnough * before) break;
    reweigh(delta, here);
  }
  u.tail(shapes) = here.shape;
  const double small = std::log(kSmall) + terms_.log_loss().mean();
  for (std::size_t a = 0; a < columns_.size(); ++a) {
    const auto at = static_cast<Eigen::Index>(columns_[a]);
    u[at] = columns_[a] == 0 ? here.linear[a]
                             : std::max(std::log(std::max(here.linear[a], 1e-300)), small);
  }
}

}  // namespace smelt::law
