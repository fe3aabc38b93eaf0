// Fits a scaling law: a robust sum over residuals of ln loss, Huber's by default (paper section 6),
// from many starts.
//
//   FitResult result = fit(read_endpoints("endpoints.csv").points("smelt"), find_form("smelt"));
//   if (!result.law.unidentified.empty()) …words…
//
// Starts come from variable projection: E and the amplitudes by non-negative least squares on a
// grid of exponents.  Each is refined by trust-region Newton on the objective over delta^2, with
// log amplitudes at the data centre, so that the outcome depends neither on units nor on row order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/law/diagnostics.h"
#include "smelt/law/draws.h"
#include "smelt/law/endpoints.h"
#include "smelt/law/form.h"

namespace smelt::law {

/// What a residual costs.
enum class RobustLoss { kHuber, kSquared, kAbsolute, kAsymmetric };
/// Of ln loss, or of the loss itself.
enum class Residuals { kLog, kPlain };

}  // namespace smelt::law

template <>
struct smelt::EnumNames<smelt::law::RobustLoss> {
  static constexpr std::pair<smelt::law::RobustLoss, const char*> kNames[] = {
      {smelt::law::RobustLoss::kHuber, "huber"},
      {smelt::law::RobustLoss::kSquared, "squared"},
      {smelt::law::RobustLoss::kAbsolute, "absolute"},
      {smelt::law::RobustLoss::kAsymmetric, "asymmetric"}};
};
template <>
struct smelt::EnumNames<smelt::law::Residuals> {
  static constexpr std::pair<smelt::law::Residuals, const char*> kNames[] = {
      {smelt::law::Residuals::kLog, "log"}, {smelt::law::Residuals::kPlain, "plain"}};
};

namespace smelt::law {

struct FitOptions {
  double delta = 1e-3;
  RobustLoss loss = RobustLoss::kHuber;
  Residuals residuals = Residuals::kLog;
  double quantile = 0.25;
  std::int64_t starts = 16;
  std::vector<std::string> fix;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"delta", "Huber threshold on residuals", "of ln loss", 1e-9, 1e9}, self.delta);
    visit(Field{"loss",
                "what a residual costs: Huber's loss, its square, its size, or Huber's with "
                "the sides weighed by --quantile"},
          self.loss);
    visit(Field{"residuals", "of ln loss, or plain ones of the loss, nats"}, self.residuals);
    visit(Field{"quantile", "of an asymmetric loss: the share of points to lie below the law", "",
                0.001, 0.999},
          self.quantile);
    visit(Field{"starts", "starts refined out of the exponent grid", "", 1, 1024}, self.starts);
    visit(Field{"fix", "coefficients held at a value, as E=1.6"}, self.fix);
  }
};

enum class FitStatus { kConverged, kNotConverged, kNotIdentifiable, kTooFewPoints };

struct Identifiability {
  double smallest_singular_value = 0;  // of the Jacobian of ln loss, columns scaled to unit length
  std::string degenerate_direction;    // "E up with A up and a down"; empty when well determined
  std::vector<std::string> warnings;   // what was held, and what cannot be told apart
};

struct FitResult {
  Law law;  // coefficients; unidentified reasons
  FitStatus status = FitStatus::kConverged;
  std::string status_words;   // one sentence
  bool identifiable = false;  // law.unidentified is empty
  FitOptions options;
  double delta = 0;
  std::size_t points = 0;
  double objective = 0;  // plain sum of the (weighted) residuals' costs, not divided by delta^2
  double rmse = 0;       // nats, of the loss itself
  std::int64_t starts_tried = 0;
  std::int64_t starts_agreeing = 0;  // reached the best objective to 1e-9 relative
  double scaled_gradient =
      0;  // largest |sum of terms| / sum of |terms| over the gradient's components
  double share_inside_delta = 0;
  Identifiability identifiability;
  std::vector<std::string> held;        // coefficients fixed by options or by the design
  std::vector<std::string> bound_hits;  // coefficients that ended at a bound
  double seconds = 0;

  std::vector<std::optional<Range>> intervals;  // from bootstrap_fit(), else empty
  std::string interval_kind;                    // "percentile", "bca" or "profile"
  /// In the order of the coefficients: the spread of the draws; without draws the sandwich's.  NaN
  /// where they cannot be told.
  std::vector<double> standard_errors;
  std::string standard_error_kind;    // "draws", "sandwich by cell" or "sandwich by point"
  std::vector<double> leave_one_out;  // largest shift of each coefficient without one unit
  std::int64_t draws = 0;
  std::int64_t draws_used = 0;
  std::optional<Draws> draw_values;
  Diagnostics diagnostics;  // empty where the law is not identifiable
};

/// Throws Error naming row and column for values no law can take (NaN, loss <= 0, S outside [0,
/// 1)).  A design that cannot tell the coefficients apart is no error: status, words and
/// `identifiable` say it.
FitResult fit(const std::vector<Point>& points, const Form& form, const FitOptions& options = {});

/// Residuals predicted - actual of ln loss, in the order of `points`.
std::vector<double> log_residuals(const Law& law, const std::vector<Point>& points);

/// Keys of the schema "smelt.fit/1"; the drawn coefficients too with `keep_draws`.
Json to_json(const FitResult& result, bool keep_draws = false);

}  // namespace smelt::law

template <>
struct smelt::EnumNames<smelt::law::FitStatus> {
  static constexpr std::pair<smelt::law::FitStatus, const char*> kNames[] = {
      {smelt::law::FitStatus::kConverged, "converged"},
      {smelt::law::FitStatus::kNotConverged, "not converged"},
      {smelt::law::FitStatus::kNotIdentifiable, "not identifiable"},
      {smelt::law::FitStatus::kTooFewPoints, "too few points"}};
};
