// Variable projection: at a given shape the floor and the amplitudes are a non-negative linear
// least squares problem, so that only the shape is searched.  Internal to the folder.
#pragma once

#include <vector>

#include "smelt/law/objective.h"

namespace smelt::law {

/// Non-negative least squares with at most four columns, from its normal equations: every support
/// is tried.  `error` takes the sum of squares, of which `target_square` is that of the target.
std::vector<double> small_nnls(const Objective::Matrix& gram, const Objective::Vector& right,
                               double target_square, double& error);

/// Moves unknowns to a minimum of Huber's loss at `delta` over relative residuals law / loss − 1,
/// near enough to refine from: Levenberg-Marquardt in the shape, reweighted.
class Projection {
 public:
  explicit Projection(const Problem& problem);
  void minimise(double delta, Objective::Vector& u);

 private:
  struct Place {
    Objective::Vector shape;
    std::vector<double> linear;  // of columns_
    double value = 0;
  };
  /// The linear part at a shape, its residuals and their weighted squares, by the weights at hand.
  void solve(Place& place);
  /// The weights that make squares of Huber's loss at the residuals of `place`.
  void reweigh(double delta, Place& place);

  const Problem& problem_;
  Terms terms_;
  std::vector<std::size_t> columns_;    // unknowns solved for
  std::vector<Eigen::Index> free_;      // shape parameters that move
  std::vector<Eigen::ArrayXd> column_;  // over the loss
  Eigen::ArrayXd inverse_loss_, target_, residual_, weight_;
};

}  // namespace smelt::law
