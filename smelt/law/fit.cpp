#include "smelt/law/fit.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>

#include "smelt/law/design.h"

namespace smelt::law {
namespace {

Json range_json(const std::optional<Range>& range) {
  return range ? Json::array({range->min, range->max}) : Json(nullptr);
}

Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// Cells are clusters where there are enough of them, else every point is one.
void add_sandwich(const Design& design, const std::vector<Point>& points, const Solution& solution,
                  FitResult& result) {
  std::map<std::string, std::size_t> number;
  for (const std::size_t i : design.order) number.emplace(points[i].cell, number.size());
  const bool by_cell =
      number.size() >= design.free_coefficients + 2 && number.size() < design.order.size();
  std::vector<std::size_t> cluster;
  for (std::size_t row = 0; row < design.order.size(); ++row) {
    cluster.push_back(by_cell ? number.at(points[design.order[row]].cell) : row);
  }
  result.standard_errors = sandwich_errors(design.problem, solution, cluster);
  result.standard_error_kind = by_cell ? "sandwich by cell" : "sandwich by point";
}

}  // namespace

FitResult finish_fit(const Design& design, const std::vector<Point>& points,
                     const FitOptions& options, const SearchResult& found) {
  FitResult result = summarize(design, points, options, found);
  if (!result.identifiable) return result;
  add_sandwich(design, points, found.best, result);
  result.diagnostics = diagnose(result.law, points);
  return result;
}

FitResult fit(const std::vector<Point>& points, const Form& form, const FitOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Design design = make_design(points, form, options);
  FitResult result;
  if (design.order.empty()) {
    result.law = {&form,
                  std::vector<double>(form.coefficients.size(), std::nan("")),
                  std::nullopt,
                  {"there are no points"}};
    result.status = FitStatus::kTooFewPoints;
    result.status_words = "too few points: there are none";
    result.options = options;
    result.delta = options.delta;
    return result;
  }
  const StartGrid grid(design.problem);
  const SearchResult found = search(design.problem, grid, static_cast<std::size_t>(options.starts));
  result = finish_fit(design, points, options, found);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<double> log_residuals(const Law& law, const std::vector<Point>& points) {
  std::vector<double> residuals;
  for (const Point& point : points) {
    residuals.push_back(std::log(evaluate(law, point.inputs())) - std::log(point.loss));
  }
  return residuals;
}

Json to_json(const FitResult& result, bool keep_draws) {
  const Json law = to_json(result.law);
  Json json = {{"schema", "smelt.fit/1"},
               {"form", result.law.form->name},
               {"equation", result.law.form->equation},
               {"loss", enum_name(result.options.loss)},
               {"residuals", result.options.residuals == Residuals::kLog ? "ln loss" : "loss"},
               {"delta", result.delta},
               {"points", result.points}};
  Json& coefficients = json["coefficients"] = Json::object();
  for (std::size_t i = 0; i < result.law.coefficients.size(); ++i) {
    coefficients[result.law.form->coefficients[i]] = finite(result.law.coefficients[i]);
  }
  json["status"] = enum_name(result.status);
  json["status_words"] = result.status_words;
  json["identifiable"] = result.identifiable;
  json["unidentified"] = result.law.unidentified;
  json["objective"] = result.objective;
  json["rmse"] = result.rmse;
  json["starts"] = {{"tried", result.starts_tried}, {"agreeing", result.starts_agreeing}};
  json["scaled_gradient"] = result.scaled_gradient;
  json["share_inside_delta"] = result.share_inside_delta;
  json["identifiability"] = {
      {"smallest_singular_value", result.identifiability.smallest_singular_value},
      {"degenerate_direction", result.identifiability.degenerate_direction},
      {"warnings", result.identifiability.warnings}};
  json["held"] = result.held;
  json["bound_hits"] = result.bound_hits;
  json["intervals"] = nullptr;
  json["standard_errors"] = nullptr;
  json["standard_error_kind"] = nullptr;
  if (!result.standard_errors.empty()) {
    Json errors = Json::object();
    for (std::size_t i = 0; i < result.standard_errors.size(); ++i) {
      errors[result.law.form->coefficients[i]] = finite(result.standard_errors[i]);
    }
    json["standard_errors"] = errors;
    json["standard_error_kind"] = result.standard_error_kind;
  }
  if (!result.intervals.empty()) {
    Json intervals = Json::object();
    for (std::size_t i = 0; i < result.intervals.size(); ++i) {
      intervals[result.law.form->coefficients[i]] = range_json(result.intervals[i]);
    }
    json["intervals"] = intervals;
    json["interval_kind"] = result.interval_kind;
  }
  if (!result.leave_one_out.empty()) {
    Json shifts = Json::object();
    for (std::size_t i = 0; i < result.leave_one_out.size(); ++i) {
      shifts[result.law.form->coefficients[i]] = finite(result.leave_one_out[i]);
    }
    json["leave_one_out"] = shifts;
  }
  if (result.draws > 0) {
    json["draws"] = result.draws;
    json["draws_used"] = result.draws_used;
  }
  if (keep_draws && result.draw_values) json["draws_kept"] = to_json(*result.draw_values);
  if (law.contains("range")) json["range"] = law.at("range");
  if (result.identifiable) json["diagnostics"] = to_json(result.diagnostics);
  json["seconds"] = result.seconds;
  return json;
}

}  // namespace smelt::law
