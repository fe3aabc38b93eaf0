// Which law? Several forms on the same rows: information criteria, and the error on rows that a
// fit did not see.
//
//   Comparison result = compare({{&find_form("smelt"), points}, {&find_form("smelt-no-sparsity"),
//   points}}, {});
//   result.scores.front().form->name;      // lowest AICc
//
// AICc and BIC are those of least squares on ln loss with Gaussian errors; the held-out errors are
// those of the robust fit that `fit` makes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/law/fit.h"

namespace smelt::law {

struct FormScore {
  const Form* form = nullptr;
  std::size_t points = 0;
  std::size_t coefficients = 0;  // free ones; the error's variance comes on top
  double rmse = 0;               // of ln loss, least squares, in the sample
  std::optional<double> aicc;    // nothing with fewer than coefficients + 3 points
  std::optional<double> bic;
  std::optional<double> weight;  // Akaike weight among the forms compared
  /// Root mean square of ln loss residuals on rows that were held out; nothing where what is left
  /// has too few points.
  std::optional<double> cross_validated;  // each cell held out once, in up to 10 folds
  std::optional<double> rollout_tokens;   // the quarter of largest D, predicted from the rest
  std::optional<double> rollout_size;     // of largest F or N
  std::optional<double> rollout_compute;  // of largest compute
  bool identifiable = false;
  std::string words;  // status of the robust fit on all rows
};

struct Comparison {
  std::vector<FormScore> scores;   // lowest AICc first, forms without one last
  std::vector<std::string> words;  // near ties, and what the criteria cannot decide
};

struct Candidate {
  const Form* form = nullptr;
  std::vector<Point> points;  // the same rows for every form, size as the form wants it
};

/// Throws Error as fit() does, and when there is no candidate or their rows differ in number.
Comparison compare(const std::vector<Candidate>& candidates, const FitOptions& options);

Json to_json(const Comparison& comparison);

}  // namespace smelt::law
