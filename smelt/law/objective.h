// The robust sum that a fit makes small, with gradient and Hessian.  Internal to the folder.
//
// Unknowns u are E, the log amplitudes at the data centre and the shape of the form's terms; the
// value is sum w rho(r / delta) with r the residual of ln loss (or of the loss) and rho Huber's of
// threshold 1.  All points are worked on at once, as columns.
#pragma once

#include <Eigen/Dense>
#include <vector>

#include "smelt/law/terms.h"

namespace smelt::law {

/// Value, gradient and Hessian at one place, and sums that say how large the parts were.
template <class Vector, class Matrix>
struct ExpansionOf {
  double value = 0;
  Vector gradient, absolute, column_square;
  Matrix hessian;
};

class Objective {
 public:
  static constexpr int kMax = static_cast<int>(kMaxUnknowns);
  using Vector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMax, 1>;
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMax, kMax>;
  using Expansion = ExpansionOf<Vector, Matrix>;

  explicit Objective(const Problem& problem);

  Expansion expand(const Vector& u, double delta);
  double median_residual(const Vector& u);

  const std::vector<std::size_t>& rows() const { return terms_.rows(); }
  std::size_t size() const { return rows().size(); }
  /// d residual / d unknown, one row per row(); residuals with them.
  Eigen::MatrixXd jacobian(const Vector& u);
  const Eigen::ArrayXd& residuals() const { return residual_; }
  const Eigen::ArrayXd& weights() const { return terms_.weights(); }

 private:
  void evaluate(const Vector& u);

  const Problem& problem_;
  Terms terms_;
  Eigen::Index unknowns_ = 0;
  Eigen::ArrayXd target_;                   // ln loss, or the loss
  std::vector<Eigen::ArrayXd> term_;        // at the last u
  Eigen::ArrayXd loss_, residual_, scale_;  // scale: d residual / d law
  std::vector<Eigen::ArrayXd> column_;      // d residual / d unknown
  Eigen::ArrayXd unit_, clipped_, pull_, curve_, part_, product_;
};

}  // namespace smelt::law
