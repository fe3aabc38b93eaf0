#include "smelt/law/objective.h"

#include <algorithm>
#include <cmath>

namespace smelt::law {
namespace {

constexpr double kNegligible = 1e-9;  // nats: residuals below are rounding
}  // namespace

Objective::Objective(const Problem& problem) : problem_(problem), terms_(problem) {
  unknowns_ = static_cast<Eigen::Index>(problem.form->unknowns());
  const auto n = static_cast<Eigen::Index>(size());
  target_ = problem.plain ? terms_.log_loss().exp().eval() : terms_.log_loss();
  term_.assign(terms_.terms(), Eigen::ArrayXd::Zero(n));
  column_.assign(static_cast<std::size_t>(unknowns_), Eigen::ArrayXd::Zero(n));
}

void Objective::evaluate(const Vector& u) {
  terms_.move_to(u.data() + 1 + terms_.terms());
  loss_.setConstant(static_cast<Eigen::Index>(size()), u[0]);
  for (std::size_t k = 0; k < terms_.terms(); ++k) {
    if (!terms_.present(k)) continue;
    term_[k] = (terms_.log_term(k) + u[static_cast<Eigen::Index>(1 + k)]).exp();
    loss_ += term_[k];
  }
  if (problem_.plain) {
    residual_ = loss_ - target_;
    scale_.setOnes(loss_.size());
  } else {
    residual_ = loss_.log() - target_;
    scale_ = loss_.inverse();
  }
}

Objective::Expansion Objective::expand(const Vector& u, double delta) {
  evaluate(u);
  const double inverse = 1 / delta;
  unit_ = residual_ * inverse;
  clipped_ = problem_.squares ? unit_ : unit_.max(-1.0).min(1.0);
  pull_ = weights();
  if (problem_.quantile != 0.5) {
    pull_ *= (residual_ > 0)
                 .select(Eigen::ArrayXd::Constant(unit_.size(), 2 * (1 - problem_.quantile)),
                         2 * problem_.quantile);
  }
  const std::size_t terms = terms_.terms(), shapes = terms_.shapes();
  Expansion out;
  out.value = (pull_ * (0.5 * clipped_.square() + (unit_ - clipped_).abs())).sum();
  curve_ = (unit_ == clipped_).select(pull_ * (inverse * inverse), 0.0);
  part_ = pull_ * clipped_.abs().max(kNegligible * inverse) * inverse;  // sizes of the pulls
  pull_ *= clipped_ * inverse;
  if (!problem_.plain) curve_ -= pull_;

  column_[0] = scale_;
  for (std::size_t j = 0; j < shapes; ++j) column_[1 + terms + j].setZero();
  for (std::size_t k = 0; k < terms; ++k) {
    if (!terms_.present(k)) continue;
    column_[1 + k] = scale_ * term_[k];
    for (std::size_t j = 0; j < shapes; ++j) {
      if (terms_.acts(k, j)) column_[1 + terms + j] += column_[1 + k] * terms_.slope(k, j);
    }
  }
  const auto p = static_cast<std::size_t>(unknowns_);
  out.gradient.resize(unknowns_);
  out.absolute.resize(unknowns_);
  out.column_square.resize(unknowns_);
  out.hessian.resize(unknowns_, unknowns_);
  for (std::size_t a = 0; a < p; ++a) {
    const auto row = static_cast<Eigen::Index>(a);
    out.gradient[row] = (pull_ * column_[a]).sum();
    out.absolute[row] = (part_ * column_[a].abs()).sum();
    out.column_square[row] = (weights() * column_[a].square()).sum();
    product_ = curve_ * column_[a];
    for (std::size_t b = 0; b <= a; ++b) {
      out.hessian(row, static_cast<Eigen::Index>(b)) = (product_ * column_[b]).sum();
    }
  }
  // Second derivatives of the law: each term is the exponential of its log term.
  for (std::size_t k = 0; k < terms; ++k) {
    if (!terms_.present(k)) continue;
    const auto amplitude = static_cast<Eigen::Index>(1 + k);
    part_ = pull_ * column_[1 + k];
    out.hessian(amplitude, amplitude) += part_.sum();
    for (std::size_t j = 0; j < shapes; ++j) {
      if (!terms_.acts(k, j)) continue;
      const auto row = static_cast<Eigen::Index>(1 + terms + j);
      product_ = part_ * terms_.slope(k, j);
      out.hessian(row, amplitude) += product_.sum();
      for (std::size_t l = 0; l <= j; ++l) {
        if (!terms_.acts(k, l)) continue;
        double sum = (product_ * terms_.slope(k, l)).sum();
        if (terms_.curved()) sum += (part_ * terms_.second(k, j, l)).sum();
        out.hessian(row, static_cast<Eigen::Index>(1 + terms + l)) += sum;
      }
    }
  }
  for (Eigen::Index a = 0; a < unknowns_; ++a) {
    for (Eigen::Index b = 0; b < a; ++b) out.hessian(b, a) = out.hessian(a, b);
  }
  return out;
}

double Objective::median_residual(const Vector& u) {
  if (size() == 0) return 0;
  evaluate(u);
  std::vector<double> sizes(size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = std::abs(residual_[static_cast<Eigen::Index>(i)]);
  }
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return *middle;
}

Eigen::MatrixXd Objective::jacobian(const Vector& u) {
  expand(u, problem_.delta);
  Eigen::MatrixXd all(static_cast<Eigen::Index>(size()), unknowns_);
  for (Eigen::Index a = 0; a < unknowns_; ++a) {
    all.col(a) = column_[static_cast<std::size_t>(a)].matrix();
  }
  return all;
}

}  // namespace smelt::law
