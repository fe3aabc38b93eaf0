// Profile intervals: how far a coefficient can be pushed, all others fitted again, before the
// objective rises by more than the scatter of the residuals explains.
//
//   profile_intervals(points, form, {}, 0.95);   // one per coefficient
#pragma once

#include <optional>
#include <vector>

#include "smelt/law/fit.h"

namespace smelt::law {

/// For each coefficient the values v at which 2 (R(v) − R) · A / B = chi-square(1, confidence),
/// with R the objective, A the mean second and B the mean squared first derivative of the
/// residuals' cost, the latter over n − p (Schrader and Hettmansperger 1980; the likelihood ratio
/// of Gaussian errors for a squared loss).  An end that is not met within the coefficient's bounds
/// is the bound. Nothing for held coefficients and those made of several unknowns.
std::vector<std::optional<Range>> profile_intervals(const std::vector<Point>& points,
                                                    const Form& form, const FitOptions& options,
                                                    double confidence);

}  // namespace smelt::law
