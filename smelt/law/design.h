// From points to a robust problem: checks the rows, orders them canonically, and says which
// coefficients the design can tell apart at all.  Internal to the folder.
#pragma once

#include <string>
#include <vector>

#include "smelt/law/covariance.h"
#include "smelt/law/fit.h"
#include "smelt/law/solver.h"

namespace smelt::law {

struct Design {
  Problem problem;
  std::vector<std::size_t> order;  // problem row i is points[order[i]]
  DesignRange range;
  std::vector<std::string> held;
  std::vector<std::string> warnings;
  std::vector<std::string> unidentified;
  std::size_t free_coefficients = 0;
};

/// Throws Error with every bad row and every bad option.
Design make_design(const std::vector<Point>& points, const Form& form, const FitOptions& options);

/// Distinct places (F, S, D, …) among the rows of positive weight.
std::size_t distinct_points(const Problem& problem);

/// Why the optimum means nothing by itself: singular Jacobian, terms that vanished.  Empty = fine.
std::vector<std::string> faults_of(const Problem& problem, const Solution& solution,
                                   const JacobianShape& shape);

/// Smallest scaled singular value of a design that counts as full rank.
inline constexpr double kSingular = 1e-7;

/// Spread of ln(1 - S) below which points count as of one sparsity.
inline constexpr double kSameSparsity = 0.1;

/// Huber's delta that stands for absolute residuals: far below any scatter of losses.
inline constexpr double kAlmostAbsolute = 1e-8;

/// The numbers of an optimum, without standard errors and diagnostics.
FitResult summarize(const Design& design, const std::vector<Point>& points,
                    const FitOptions& options, const SearchResult& found);

/// What fit() says of an optimum: diagnostics and sandwich errors where it is identifiable.
FitResult finish_fit(const Design& design, const std::vector<Point>& points,
                     const FitOptions& options, const SearchResult& found);

}  // namespace smelt::law
