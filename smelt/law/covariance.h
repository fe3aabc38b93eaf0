// What the curvature at an optimum says: directions that the points leave open, standard errors.
// Internal to the folder.
#pragma once

#include <string>
#include <vector>

#include "smelt/law/solver.h"

namespace smelt::law {

struct JacobianShape {
  double smallest_singular_value = 0;  // columns scaled to unit length
  std::string direction;               // in words
  std::vector<double> move;  // per unknown: along that direction per unit of scatter of residuals
};
JacobianShape jacobian_shape(const Problem& problem, const Solution& solution);

/// Standard errors of the coefficients without draws: H⁻¹ B H⁻¹ at the optimum, H the objective's
/// Hessian and B the sum over clusters of the outer products of their gradients (times n / (n −
/// 1)).  `cluster` has one number per row of the problem.  Held coefficients and those at a bound
/// have 0; all are NaN where H is singular.
std::vector<double> sandwich_errors(const Problem& problem, const Solution& solution,
                                    const std::vector<std::size_t>& cluster);

}  // namespace smelt::law
