// The optimiser behind fit(): one robust problem, searched from many starts.  Internal to the
// folder.
#pragma once

#include <Eigen/Dense>
#include <string>
#include <vector>

#include "smelt/law/newton.h"
#include "smelt/law/objective.h"

namespace smelt::law {

struct Solution {
  std::vector<double> unknowns;      // [E, ln amplitude at the centre, shape]
  std::vector<double> coefficients;  // of the form
  double objective = 0;              // over delta^2
  double scaled_gradient = 0;
  std::vector<bool> at_bound;  // per unknown
};

struct SearchResult {
  Solution best;
  std::int64_t tried = 0, agreeing = 0;
};

/// The non-negative least squares part of variable projection, prepared once for all draws of a
/// bootstrap.
class StartGrid {
 public:
  explicit StartGrid(const Problem& problem);
  /// The unknowns of the `count` best shapes under the problem's weights.
  std::vector<std::vector<double>> best(const Problem& problem, std::size_t count) const;

 private:
  struct Tuple {
    std::vector<double> shape;
    Eigen::MatrixXd columns;  // [point][column], over the loss
    Eigen::VectorXd target;   // 1 less what is held, over the loss
  };
  std::vector<std::size_t> columns_;  // unknowns solved for
  std::vector<Tuple> tuples_;
};

/// Where the unknowns may go; what is held has no room.
Bounds<Objective::Vector> bounds_of(const Problem& problem);
/// Longest step of each unknown.
Objective::Vector longest_steps(const Problem& problem);
/// The coefficients of the form at unknowns.
std::vector<double> coefficients_of(const Problem& problem, const std::vector<double>& unknowns);
/// A place as a Solution: its value, gradient, coefficients and bounds.
Solution solution_at(const Problem& problem, Objective& objective, const Objective::Vector& u);

Solution refine(const Problem& problem, Objective& objective, const std::vector<double>& unknowns);

/// Refines `starts` grid starts and, when given, a warm one.  Starts that meet on the way are
/// followed once; all are counted.
SearchResult search(const Problem& problem, const StartGrid& grid, std::size_t starts,
                    const std::vector<double>* warm = nullptr);

/// Unknowns that are neither held nor at a bound in a solution.
std::vector<Eigen::Index> interior_unknowns(const Problem& problem, const Solution& solution);

/// Whether shape parameter `shape` acts in term `term`.
bool acts(const Form& form, std::size_t term, std::size_t shape);

}  // namespace smelt::law
