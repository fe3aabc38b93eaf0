// The optimiser behind fit(): one robust problem, searched from many starts.  Internal to the
// folder.
//
// Unknowns are E, the log amplitudes at the data centre and the exponents; the objective is
// sum w rho(r / delta) with r = ln L_law - ln L_point and Huber's rho of threshold 1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/law/form.h"

namespace smelt::law {

inline constexpr std::size_t kMaxUnknowns = 8;
inline constexpr double kMaxExponent = 12;

struct Problem {
  const Form* form = nullptr;
  double delta = 1e-3;
  std::vector<LogInputs> x;
  std::vector<double> log_loss;
  std::vector<double> weight;  // 0 leaves a point out
  LogInputs centre;
  std::vector<std::optional<double>>
      held;  // per coefficient; an amplitude only at 0 (no such term)
};

struct Solution {
  std::vector<double> unknowns;  // [E, ln amplitude at the centre, exponents]
  std::vector<double> coefficients;
  double objective = 0;  // over delta^2
  double scaled_gradient = 0;
  std::vector<bool> at_bound;
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
  /// The unknowns of the `count` best exponent tuples under the problem's weights.
  std::vector<std::vector<double>> best(const Problem& problem, std::size_t count) const;

 private:
  struct Tuple {
    std::vector<double> exponents;
    std::vector<double> columns;  // [point][column], over the loss
  };
  std::vector<std::size_t> columns_;  // coefficients solved for
  std::vector<Tuple> tuples_;
};

Solution refine(const Problem& problem, std::vector<double> unknowns);

/// Refines `starts` grid starts and, when given, a warm one.
SearchResult search(const Problem& problem, const StartGrid& grid, std::size_t starts,
                    const std::vector<double>* warm = nullptr);

struct JacobianShape {
  double smallest_singular_value = 0;  // columns scaled to unit length
  std::string direction;               // in words
  std::vector<double>
      move;  // per unknown: its move along that direction per unit of scatter of ln loss
};
JacobianShape jacobian_shape(const Problem& problem, const Solution& solution);

/// Standard errors of the coefficients without draws: H⁻¹ B H⁻¹ at the optimum, H the objective's
/// Hessian and B the sum over clusters of the outer products of their gradients (times n / (n −
/// 1)). Held coefficients and those at a bound have 0; all are NaN where H is singular.
std::vector<double> sandwich_errors(const Problem& problem, const Solution& solution,
                                    const std::vector<std::size_t>& cluster);

/// Whether exponent j acts in term k.
bool acts(const Form& form, std::size_t term, std::size_t exponent);

}  // namespace smelt::law
