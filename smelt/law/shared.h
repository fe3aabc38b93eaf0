// One fit of several groups that share coefficients: the exponents, say, while floors and
// amplitudes are each group's own.
//
//   fit_shared({{"a", a}, {"b", b}}, form, {}, {"alpha", "beta"}, {});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "smelt/law/bootstrap.h"

namespace smelt::law {

/// Fits the sum of the groups' objectives; one result per group, in which the shared coefficients
/// are equal.  With draws, intervals and standard errors are those of joint refits over units drawn
/// from all groups; without, there are none.  Throws Error as fit() does, for a coefficient that
/// the form does not have or that cannot be shared, and for fewer than two groups.
std::vector<FitResult> fit_shared(
    const std::vector<std::pair<std::string, std::vector<Point>>>& groups, const Form& form,
    const FitOptions& options, const std::vector<std::string>& share,
    const BootstrapOptions& bootstrap);

}  // namespace smelt::law
