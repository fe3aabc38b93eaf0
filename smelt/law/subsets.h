// A law on part of the validation data: exponents are those of the whole, the floor and the
// amplitudes its own (paper section 6, "per subset").  Internal to the folder.
//
//   const SubsetLaws code(with_losses(points, losses_on_code), form, {});
//   code.refit(result.law.coefficients);
#pragma once

#include <optional>
#include <vector>

#include "smelt/law/bootstrap.h"
#include "smelt/law/design.h"

namespace smelt::law {

/// The points with other losses, in their order.  Throws Error when the numbers differ.
std::vector<Point> with_losses(std::vector<Point> points, const std::vector<double>& losses);

class SubsetLaws {
 public:
  SubsetLaws(const std::vector<Point>& points, const Form& form, const FitOptions& options);

  /// Coefficients with the shape of `whole`; nothing when the points do not determine them.
  std::optional<std::vector<double>> refit(const std::vector<double>& whole) const;
  /// The same in every draw of the whole: the units that it took, its shape.
  Draws refit_draws(const Draws& whole, Unit unit, unsigned threads) const;

 private:
  std::optional<std::vector<double>> refit(const std::vector<double>& whole,
                                           const std::vector<double>& counts) const;

  Design design_;
  std::vector<Point> points_;
};

}  // namespace smelt::law
