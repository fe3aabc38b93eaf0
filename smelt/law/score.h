// From validation loss to a downstream score, and what a second arm scores beyond its loss (paper
// section 7, "beyond the loss").
//
//   ScoreFit fit = fit_score(losses, scores, ScoreKind::kScore);
//   fit.predict(2.1);
//   Beyond other = beyond(fit, their_losses, their_scores);     // signed so that positive is
//   better
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/json.h"
#include "smelt/law/form.h"

namespace smelt::law {

/// A score is better when it is higher, a loss when it is lower.
enum class ScoreKind { kScore, kLoss };

}  // namespace smelt::law

template <>
struct smelt::EnumNames<smelt::law::ScoreKind> {
  static constexpr std::pair<smelt::law::ScoreKind, const char*> kNames[] = {
      {smelt::law::ScoreKind::kScore, "score"}, {smelt::law::ScoreKind::kLoss, "loss"}};
};

namespace smelt::law {

/// y(l) = b + a / (1 + exp(−d α (l − τ))), d = 1 for a loss and −1 for a score; a, α > 0.
struct ScoreFit {
  ScoreKind kind = ScoreKind::kScore;
  double a = 0, b = 0, alpha = 0, tau = 0;
  double r2 = 0;    // of the points it was fitted to
  double rmse = 0;  // over points − 4
  std::size_t points = 0;
  Range range;                     // of the losses
  std::vector<std::string> words;  // what the points cannot tell

  double predict(double loss) const;
};

/// Least squares.  Throws Error with fewer than 5 points, without spread, or for a value that is
/// not finite.
ScoreFit fit_score(const std::vector<double>& losses, const std::vector<double>& scores,
                   ScoreKind kind);

/// What points score beyond their loss.
struct Beyond {
  std::vector<double> residuals;  // signed so that positive is better
  double mean = 0;
  std::optional<double> standard_error;  // over the points, which are taken as independent
  std::optional<Range> interval;         // Student t, 95 %
  std::size_t extrapolated = 0;          // points outside the losses of the fit
};
Beyond beyond(const ScoreFit& fit, const std::vector<double>& losses,
              const std::vector<double>& scores);

Json to_json(const ScoreFit& fit);
Json to_json(const Beyond& other);

}  // namespace smelt::law
