#include "smelt/law/profile.h"

#include <algorithm>
#include <cmath>

#include "smelt/law/design.h"

namespace smelt::law {
namespace {

/// P(chi-square with one degree of freedom < q) = confidence.
double chi_square_one(double confidence) {
  double low = 0, high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = 0.5 * (low + high);
    (std::erf(std::sqrt(0.5 * middle)) < confidence ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

class Profile {
 public:
  Profile(const Problem& problem, const Solution& best, double free, double confidence)
      : problem_(problem), best_(best) {
    Objective objective(problem);
    const Objective::Vector u = Eigen::Map<const Eigen::VectorXd>(
        best.unknowns.data(), static_cast<Eigen::Index>(best.unknowns.size()));
    objective.jacobian(u);
    const Eigen::ArrayXd z = objective.residuals() / problem.delta;
    double inside = 0, squares = 0, n = 0;
    for (Eigen::Index i = 0; i < z.size(); ++i) {
      const double psi = problem.squares ? z[i] : std::clamp(z[i], -1.0, 1.0),
                   w = objective.weights()[i];
      inside += w * (problem.squares || std::abs(z[i]) <= 1 ? 1 : 0);
      squares += w * w * psi * psi;
      n += 1;
    }
    rise_ = chi_square_one(confidence) * (squares / std::max(1.0, n - free)) /
            (2 * std::max(inside, 1.0) / n);
  }

  /// The interval of one unknown (of an amplitude: of the coefficient).
  Range interval(std::size_t unknown) const {
    const double at = best_.coefficients[coefficient(unknown)];
    return {end(unknown, at, -1), end(unknown, at, 1)};
  }

 private:
  std::size_t coefficient(std::size_t unknown) const {
    for (std::size_t c = 0; c < problem_.form->coefficients.size(); ++c) {
      if (problem_.form->unknown_of(c) == unknown) return c;
    }
    return 0;
  }

  bool amplitude(std::size_t unknown) const {
    return unknown >= 1 && unknown <= problem_.form->amplitudes;
  }

  /// The objective with the unknown held at a value, refined from `warm`, which takes the place.
  double held_at(std::size_t unknown, double value, std::vector<double>& warm) const {
    Problem problem = problem_;
    problem.held[unknown] = value;
    Objective objective(problem);
    const Solution solution = refine(problem, objective, warm);
    warm = solution.unknowns;
    return solution.objective - best_.objective;
  }

  /// Walks away in growing steps until the objective has risen enough, then halves.
  double end(std::size_t unknown, double at, int side) const {
    const bool log_scale = amplitude(unknown);
    const Bounds<Objective::Vector> bounds = bounds_of(problem_);
    const double limit = log_scale  ? (side < 0 ? 0 : INFINITY)
                         : side < 0 ? bounds.low[static_cast<Eigen::Index>(unknown)]
                                    : bounds.high[static_cast<Eigen::Index>(unknown)];
    const auto moved = [&](double step) {
      if (log_scale) return at * std::exp(side * step);
      const double value = at + side * step;
      return side < 0 ? std::max(limit, value) : std::min(limit, value);
    };
    double inside = 0, step = log_scale ? 0.02 : 0.005 * std::max(std::abs(at), 0.01);
    std::vector<double> warm = best_.unknowns;
    for (int i = 0; i < 40; ++i) {
      std::vector<double> place = warm;
      if (held_at(unknown, moved(step), place) >= rise_) break;
      warm = place;
      inside = step;
      if (moved(step) == limit || i == 39) return limit;
      step *= 2;
    }
    double outside = step;
    for (int i = 0; i < 40 && outside - inside > 1e-7 * outside; ++i) {
      const double middle = 0.5 * (inside + outside);
      std::vector<double> place = warm;
      if (held_at(unknown, moved(middle), place) >= rise_) {
        outside = middle;
      } else {
        inside = middle;
        warm = place;
      }
    }
    return moved(outside);
  }

  const Problem& problem_;
  const Solution& best_;
  double rise_ = 0;
};

}  // namespace

std::vector<std::optional<Range>> profile_intervals(const std::vector<Point>& points,
                                                    const Form& form, const FitOptions& options,
                                                    double confidence) {
  const Design design = make_design(points, form, options);
  const StartGrid grid(design.problem);
  const SearchResult found = search(design.problem, grid, static_cast<std::size_t>(options.starts));
  const Profile profile(design.problem, found.best, static_cast<double>(design.free_coefficients),
                        confidence);
  std::vector<std::optional<Range>> intervals;
  for (std::size_t c = 0; c < form.coefficients.size(); ++c) {
    const auto unknown = form.unknown_of(c);
    intervals.emplace_back();
    if (unknown && !design.problem.held[*unknown]) {
      intervals.back() = profile.interval(*unknown);
    }
  }
  return intervals;
}

}  // namespace smelt::law
