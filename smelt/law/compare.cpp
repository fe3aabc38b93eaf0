#include "smelt/law/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "smelt/law/design.h"

namespace smelt::law {
namespace {

constexpr std::size_t kFolds = 10;
constexpr double kHeldOutShare = 0.25;
constexpr double kNearTie = 2;  // difference of AICc

/// Sum of squared ln loss residuals of the rows left out, under the law fitted to the others; their
/// number is added to `rows`.
std::optional<double> held_out(const std::vector<Point>& points, const Form& form,
                               const FitOptions& options,
                               const std::function<bool(const Point&)>& left_out,
                               std::size_t& rows) {
  std::vector<Point> train, test;
  for (const Point& point : points) (left_out(point) ? test : train).push_back(point);
  if (train.empty() || test.empty()) return std::nullopt;
  const FitResult result = fit(train, form, options);
  if (result.status == FitStatus::kTooFewPoints) return std::nullopt;
  const Design design = make_design(train, form, options);
  if (distinct_points(design.problem) < design.free_coefficients) return std::nullopt;
  double squares = 0;
  for (const double r : log_residuals(result.law, test)) squares += r * r;
  rows += test.size();
  return squares;
}

std::optional<double> cross_validate(const std::vector<Point>& points, const Form& form,
                                     const FitOptions& options) {
  std::set<std::string> cells;
  for (const Point& point : points) cells.insert(point.cell);
  const std::size_t folds = std::min(kFolds, cells.size());
  if (folds < 2) return std::nullopt;
  double squares = 0;
  std::size_t rows = 0;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::set<std::string> out;
    std::size_t index = 0;
    for (const std::string& cell : cells) {
      if (index++ % folds == fold) out.insert(cell);
    }
    const auto sum =
        held_out(points, form, options, [&](const Point& p) { return out.contains(p.cell); }, rows);
    if (!sum) return std::nullopt;
    squares += *sum;
  }
  return std::sqrt(squares / static_cast<double>(rows));
}

/// The quarter of the distinct values that is largest is predicted from the rest.
std::optional<double> roll_out(const std::vector<Point>& points, const Form& form,
                               const FitOptions& options,
                               const std::function<double(const Point&)>& value) {
  std::set<double> values;
  for (const Point& point : points) values.insert(value(point));
  const auto held =
      static_cast<std::size_t>(std::ceil(kHeldOutShare * static_cast<double>(values.size())));
  if (values.size() < 3) return std::nullopt;
  const double from = *std::next(values.begin(), static_cast<std::ptrdiff_t>(values.size() - held));
  std::size_t rows = 0;
  const auto squares =
      held_out(points, form, options, [&](const Point& p) { return value(p) >= from; }, rows);
  if (!squares) return std::nullopt;
  return std::sqrt(*squares / static_cast<double>(rows));
}

FormScore score(const Candidate& candidate, const FitOptions& options) {
  const Form& form = *candidate.form;
  FormScore s;
  s.form = &form;
  s.points = candidate.points.size();
  const FitResult robust = fit(candidate.points, form, options);
  s.identifiable = robust.identifiable;
  s.words = robust.status_words;
  FitOptions least = options;
  least.loss = RobustLoss::kSquared;
  least.residuals = Residuals::kLog;
  const FitResult squares = fit(candidate.points, form, least);
  s.coefficients = make_design(candidate.points, form, least).free_coefficients;
  double sum = 0;
  for (const double r : log_residuals(squares.law, candidate.points)) sum += r * r;
  const auto n = static_cast<double>(s.points);
  s.rmse = std::sqrt(sum / n);
  const double k = static_cast<double>(s.coefficients) + 1;  // and the variance
  if (n > k + 1 && sum > 0) {
    const double deviance = n * std::log(sum / n);
    s.aicc = deviance + 2 * k + 2 * k * (k + 1) / (n - k - 1);
    s.bic = deviance + k * std::log(n);
  }
  s.cross_validated = cross_validate(candidate.points, form, options);
  s.rollout_tokens =
      roll_out(candidate.points, form, options, [](const Point& p) { return p.tokens; });
  s.rollout_size = roll_out(candidate.points, form, options, [](const Point& p) { return p.size; });
  s.rollout_compute = roll_out(candidate.points, form, options,
                               [&](const Point& p) { return compute_of(form, p.inputs()); });
  return s;
}

void weigh(Comparison& comparison) {
  const auto& best = comparison.scores.front().aicc;
  if (!best) return;
  double sum = 0;
  for (FormScore& s : comparison.scores) {
    if (!s.aicc) continue;
    s.weight = std::exp(-0.5 * (*s.aicc - *best));
    sum += *s.weight;
  }
  for (FormScore& s : comparison.scores) {
    if (s.weight) *s.weight /= sum;
  }
  for (std::size_t i = 1; i < comparison.scores.size(); ++i) {
    const FormScore& s = comparison.scores[i];
    if (!s.aicc || *s.aicc - *best >= kNearTie) continue;
    comparison.words.push_back(
        fmt::format("{} and {} are nearly tied: their AICc differ by {:.2f}, which these points "
                    "cannot decide",
                    comparison.scores.front().form->name, s.form->name, *s.aicc - *best));
  }
}

/// Says when another form predicts unseen rows better than the one of lowest AICc.
void say_who_predicts_better(Comparison& comparison) {
  const FormScore& first = comparison.scores.front();
  const std::pair<const char*, std::optional<double> FormScore::*> errors[] = {
      {"cells held out", &FormScore::cross_validated},
      {"the largest D", &FormScore::rollout_tokens},
      {"the largest sizes", &FormScore::rollout_size},
      {"the largest compute", &FormScore::rollout_compute}};
  for (const auto& [what, error] : errors) {
    const FormScore* best = nullptr;
    for (const FormScore& s : comparison.scores) {
      if (s.*error && (!best || *(s.*error) < *(best->*error))) best = &s;
    }
    if (!best || best == &first || !(first.*error)) continue;
    comparison.words.push_back(fmt::format("{} predicts {} better: {:.5f} against {:.5f}",
                                           best->form->name, what, *(best->*error),
                                           *(first.*error)));
  }
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

}  // namespace

Comparison compare(const std::vector<Candidate>& candidates, const FitOptions& options) {
  if (candidates.empty()) throw Error("law", "no form to compare");
  if (!options.fix.empty()) throw Error("law", "fix: forms are compared with nothing held");
  Comparison comparison;
  for (const Candidate& candidate : candidates) {
    if (candidate.points.size() != candidates.front().points.size()) {
      throw Error("law", "forms can be compared on the same rows only");
    }
    comparison.scores.push_back(score(candidate, options));
  }
  std::stable_sort(comparison.scores.begin(), comparison.scores.end(),
                   [](const FormScore& a, const FormScore& b) {
                     return a.aicc.value_or(INFINITY) < b.aicc.value_or(INFINITY);
                   });
  weigh(comparison);
  if (!comparison.scores.front().aicc) {
    comparison.words.push_back("too few points for an information criterion");
  }
  say_who_predicts_better(comparison);
  return comparison;
}

Json to_json(const Comparison& comparison) {
  Json forms = Json::array();
  for (const FormScore& s : comparison.scores) {
    forms.push_back({{"form", s.form->name},
                     {"points", s.points},
                     {"coefficients", s.coefficients},
                     {"rmse", s.rmse},
                     {"aicc", number_or_null(s.aicc)},
                     {"bic", number_or_null(s.bic)},
                     {"akaike_weight", number_or_null(s.weight)},
                     {"cross_validated", number_or_null(s.cross_validated)},
                     {"rollout",
                      {{"tokens", number_or_null(s.rollout_tokens)},
                       {"size", number_or_null(s.rollout_size)},
                       {"compute", number_or_null(s.rollout_compute)}}},
                     {"identifiable", s.identifiable},
                     {"words", s.words}});
  }
  return {{"schema", "smelt.compare/1"}, {"forms", forms}, {"words", comparison.words}};
}

}  // namespace smelt::law
