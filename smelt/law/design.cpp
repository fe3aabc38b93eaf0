#include "smelt/law/design.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

namespace smelt::law {
namespace {

void check_points(const std::vector<Point>& points, const Form& form) {
  Problems problems("law");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    const std::string where = point.where.empty() ? fmt::format("row {}", i + 1) : point.where;
    const auto number = [&](const char* column, double value, bool fine, const char* expected) {
      if (std::isfinite(value) && fine) return;
      problems.add(fmt::format("{}: expected {}, got {}", column, expected, number_text(value)),
                   where);
    };
    const auto positive = [&](const char* column, double value) {
      number(column, value, value > 0, "a finite number above 0");
    };
    positive(form.size_symbol(), point.size);
    if (form.tokens) positive("D", point.tokens);
    positive("loss", point.loss);
    number("S", point.sparsity, point.sparsity >= 0 && point.sparsity < 1,
           "at least 0 and below 1");
    number("weight", point.weight, point.weight >= 0, "a finite number, at least 0");
    if (form.visits) {
      number("N_rec", point.recurrent, point.recurrent >= 0, "a finite number, at least 0");
      number("r", point.visits, point.visits >= 1, "at least 1");
    }
    if (form.experts) number("X", point.experts, point.experts >= 1, "at least 1");
  }
  problems.throw_if_any();
}

void read_fixed(const FitOptions& options, const Form& form, Problem& problem) {
  Problems problems("law");
  check_fields(options, problems);
  for (const std::string& text : options.fix) {
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    double value = 0;
    try {
      std::size_t end = 0;
      const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
      value = std::stod(number, &end);
      if (end != number.size()) throw std::invalid_argument(number);
    } catch (const std::exception&) {
      problems.add("fix: expected COEFFICIENT=NUMBER, got \"" + clipped(text) + "\"");
      continue;
    }
    const auto at = form.index(name);
    if (!at) {
      problems.add("fix: form " + form.name + " has no coefficient \"" + clipped(name) +
                   "\"; there are " + join_choices(form.coefficients));
      continue;
    }
    const auto unknown = form.unknown_of(*at);
    if (unknown && problem.held[*unknown]) problems.add("fix: two values for " + name);
    if (!unknown) {
      problems.add("fix: " + name + " of form " + form.name +
                   " is made of several unknowns and cannot be held");
      continue;
    }
    const bool amplitude = *unknown >= 1 && *unknown <= form.amplitudes;
    const Shape* shape =
        *unknown > form.amplitudes ? &form.shape[*unknown - 1 - form.amplitudes] : nullptr;
    const double low = shape ? shape->low : 0, high = shape ? shape->high : 1e300;
    if (!std::isfinite(value) || value < low || value > high || (amplitude && value == 0)) {
      problems.add(fmt::format("fix: {} = {} is out of range", name, number_text(value)));
    } else {
      problem.held[*unknown] = value;
    }
  }
  problems.throw_if_any();
}

/// Whether the slope of a term in a shape parameter differs between points.  Matched models of one
/// nominal sparsity differ a little in S, which tells nothing about b: 1 - S has to vary by more
/// than kSameSparsity.
bool shape_varies(const Problem& problem, std::size_t term, std::size_t shape) {
  const Form& form = *problem.form;
  std::vector<double> places, values(form.amplitudes), slopes(form.amplitudes * form.shape.size());
  for (const Shape& one : form.shape) places.push_back(one.grid[one.grid.size() / 2]);
  double low = 0, high = 0;
  bool first = true;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    if (problem.weight[i] == 0) continue;
    form.log_terms(problem.x[i], places.data(), values.data(), slopes.data(), nullptr);
    const double slope = slopes[term * form.shape.size() + shape];
    low = first ? slope : std::min(low, slope);
    high = first ? slope : std::max(high, slope);
    first = false;
  }
  const bool on_sparsity = form.sparsity_exponent == shape;
  return high - low > (on_sparsity ? kSameSparsity : 1e-9);
}

std::string sparsity_text(const Range& sparsity) {
  if (sparsity.min == sparsity.max) return number_text(sparsity.min);
  return fmt::format("{:.3g} to {:.3g}", sparsity.min, sparsity.max);
}

/// Holds what the points cannot tell apart, and says so.
void hold_by_design(Design& design) {
  Problem& problem = design.problem;
  const Form& form = *problem.form;
  const std::size_t first_shape = 1 + form.amplitudes;
  std::vector<bool> used(form.shape.size(), false);
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    bool varies = false;
    for (std::size_t j = 0; j < form.shape.size(); ++j) {
      if (!acts(form, k, j) || !shape_varies(problem, k, j)) continue;
      varies = used[j] = true;
    }
    if (varies || problem.held[1 + k]) continue;
    problem.held[1 + k] = 0;
    design.held.push_back(form.unknown_name(1 + k) + " = 0");
    design.unidentified.push_back(
        fmt::format("{} does not vary, so {} cannot be separated from E, which holds both",
                    form.axes[k], form.terms[k]));
  }
  for (std::size_t j = 0; j < form.shape.size(); ++j) {
    const std::size_t at = first_shape + j;
    if (used[j] || problem.held[at]) continue;
    const std::string name = form.unknown_name(at);
    problem.held[at] = std::clamp(0.0, form.shape[j].low, form.shape[j].high);
    design.held.push_back(name + " = 0");
    bool gone = true;  // its terms are, which was said
    for (std::size_t k = 0; k < form.amplitudes; ++k) {
      gone = gone && !(acts(form, k, j) && problem.held[1 + k] != 0.0);
    }
    if (gone) continue;
    if (form.sparsity_exponent == j) {
      design.warnings.push_back(fmt::format(
          "S is {} in every row: b is held at 0, and the law holds at this sparsity only",
          sparsity_text(design.range.sparsity)));
    } else if (form.visits && name == "phi") {
      design.warnings.push_back("r is the same in every row: phi is held at 0");
    } else {
      design.unidentified.push_back(
          fmt::format("{} does not vary: {} is held at 0", form.axes.front(), name));
    }
  }
}

double correlation(const Problem& problem) {
  double n = 0, sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
  for (const LogInputs& x : problem.x) {
    const double a = x.size - problem.centre.size, b = x.one_minus_s - problem.centre.one_minus_s;
    n += 1, sx += a, sy += b, sxx += a * a, syy += b * b, sxy += a * b;
  }
  const double vx = sxx - sx * sx / n, vy = syy - sy * sy / n;
  return vx > 1e-18 && vy > 1e-18 ? (sxy - sx * sy / n) / std::sqrt(vx * vy) : 0;
}

template <class Get>
std::size_t distinct(const Problem& problem, Get get) {
  std::set<double> values;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    // Rounded to a billionth, so that a change of units makes no new values.
    if (problem.weight[i] > 0) values.insert(std::round(get(problem.x[i]) * 1e9));
  }
  return values.size();
}

/// One residual's part of the objective as the options name it.
double loss_term(const Problem& problem, const FitOptions& options, double r) {
  const double size = std::abs(r), delta = options.delta;
  const double huber = size <= delta ? 0.5 * r * r : delta * (size - 0.5 * delta);
  switch (options.loss) {
    case RobustLoss::kSquared:
      return 0.5 * r * r;
    case RobustLoss::kAbsolute:
      return size;
    case RobustLoss::kAsymmetric:
      return 2 * (r > 0 ? 1 - problem.quantile : problem.quantile) * huber;
    case RobustLoss::kHuber:
      break;
  }
  return huber;
}

Range range_of(const std::vector<Point>& points, auto get) {
  Range range{get(points.front()), get(points.front())};
  for (const Point& point : points) {
    range.min = std::min(range.min, get(point));
    range.max = std::max(range.max, get(point));
  }
  return range;
}

constexpr double kConverged = 1e-6;   // scaled gradient
constexpr double kNearlyFlat = 1e-2;  // the same of absolute residuals, which have corners

}  // namespace

Design make_design(const std::vector<Point>& points, const Form& form, const FitOptions& options) {
  check_points(points, form);
  Design design;
  Problem& problem = design.problem;
  problem.form = &form;
  problem.held.resize(form.unknowns());
  read_fixed(options, form, problem);
  problem.plain = options.residuals == Residuals::kPlain;
  problem.squares = options.loss == RobustLoss::kSquared;
  problem.delta = options.loss == RobustLoss::kAbsolute ? kAlmostAbsolute : options.delta;
  if (options.loss == RobustLoss::kAsymmetric) problem.quantile = options.quantile;
  if (!form.floor) problem.held[0] = 0;
  for (const std::string& text : options.fix) design.held.push_back(text);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].weight > 0) design.order.push_back(i);
  }
  if (design.order.empty()) return design;
  std::stable_sort(design.order.begin(), design.order.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [](const Point& p) {
      return std::tie(p.size, p.tokens, p.sparsity, p.recurrent, p.visits, p.experts, p.loss,
                      p.weight);
    };
    return key(points[a]) < key(points[b]);
  });
  double largest_weight = 0;
  for (const std::size_t i : design.order)
    largest_weight = std::max(largest_weight, points[i].weight);
  for (const std::size_t i : design.order) {
    const LogInputs x = log_inputs(points[i].inputs());
    problem.x.push_back(x);
    problem.log_loss.push_back(std::log(points[i].loss));
    problem.weight.push_back(points[i].weight / largest_weight);
    const double share = 1.0 / static_cast<double>(design.order.size());
    problem.centre.size += share * x.size;
    problem.centre.tokens += share * x.tokens;
    problem.centre.one_minus_s += share * x.one_minus_s;
  }
  design.range = {range_of(points, [](const Point& p) { return p.size; }),
                  range_of(points, [](const Point& p) { return p.sparsity; }),
                  range_of(points, [](const Point& p) { return p.tokens; }),
                  range_of(points, [&](const Point& p) { return compute_of(form, p.inputs()); })};
  hold_by_design(design);
  for (const auto& held : problem.held) design.free_coefficients += held ? 0 : 1;
  if (form.uses_sparsity() && std::abs(correlation(problem)) > 0.99999) {
    design.unidentified.push_back("F and 1-S move together: a and b cannot be told apart");
  }
  return design;
}

std::size_t distinct_points(const Problem& problem) {
  const Form& form = *problem.form;
  std::set<std::array<double, 6>> seen;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    if (problem.weight[i] == 0) continue;
    const LogInputs& x = problem.x[i];
    const auto rounded = [](bool used, double value) {
      return used && std::isfinite(value) ? std::round(value * 1e9) : 0;
    };
    seen.insert({rounded(true, x.size), rounded(form.uses_sparsity(), x.one_minus_s),
                 rounded(form.tokens, x.tokens), rounded(form.visits, x.recurrent),
                 rounded(form.visits, x.visits), rounded(form.experts, x.experts)});
  }
  return seen.size();
}

std::vector<std::string> faults_of(const Problem& problem, const Solution& solution,
                                   const JacobianShape& shape) {
  const Form& form = *problem.form;
  std::vector<std::string> faults;
  std::size_t unknown = 0;
  for (const auto& held : problem.held) unknown += held ? 0 : 1;
  const std::size_t known = distinct_points(problem);
  if (known < unknown) {
    std::string axes = form.size_symbol();
    if (form.visits) axes += ", N_rec, r";
    if (form.uses_sparsity()) axes += ", S";
    if (form.tokens) axes += ", D";
    if (form.experts) axes += ", X";
    faults.push_back(
        fmt::format("{} coefficients, but only {} distinct points ({})", unknown, known, axes));
  }
  if (shape.smallest_singular_value < kSingular) {
    const std::size_t sizes = distinct(problem, [](const LogInputs& x) { return x.size; });
    const std::size_t tokens = distinct(problem, [](const LogInputs& x) { return x.tokens; });
    std::string text = fmt::format("the points leave a direction open: {}", shape.direction);
    if (form.tokens && (sizes < 3 || tokens < 3)) {
      text += fmt::format(" ({} values of {} and {} of D; a floor and a power law need 3 of each)",
                          sizes, form.size_symbol(), tokens);
    }
    faults.push_back(text);
  }
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    if (solution.at_bound[1 + k]) {
      faults.push_back(
          fmt::format("the term {} vanished: the loss does not fall with {} in these points",
                      form.terms[k], form.axes[k]));
      continue;
    }
    for (std::size_t j = 0; j < form.shape.size(); ++j) {
      const std::size_t at = 1 + form.amplitudes + j;
      if (solution.at_bound[at] && acts(form, k, j)) {
        faults.push_back(fmt::format("{} ended at its bound {}", form.unknown_name(at),
                                     number_text(solution.unknowns[at])));
      }
    }
  }
  return faults;
}

FitResult summarize(const Design& design, const std::vector<Point>& points,
                    const FitOptions& options, const SearchResult& found) {
  const Problem& problem = design.problem;
  const Form& form = *problem.form;
  const Solution& best = found.best;
  FitResult result;
  result.law = {&form, best.coefficients, design.range, design.unidentified};
  result.options = options;
  result.delta = options.delta;
  result.points = design.order.size();
  result.held = design.held;
  result.starts_tried = found.tried;
  result.starts_agreeing = found.agreeing;
  result.scaled_gradient = best.scaled_gradient;
  double squares = 0, residual_squares = 0, inside = 0;
  for (std::size_t i = 0; i < design.order.size(); ++i) {
    const Point& point = points[design.order[i]];
    const double loss = evaluate(result.law, point.inputs());
    const double r = problem.plain ? loss - point.loss : std::log(loss) - problem.log_loss[i];
    const double size = std::abs(r);
    squares += (loss - point.loss) * (loss - point.loss);
    residual_squares += r * r;
    if (problem.squares || size <= problem.delta) inside += 1;
    result.objective += point.weight * loss_term(problem, options, r);
  }
  const double n = static_cast<double>(design.order.size());
  result.rmse = std::sqrt(squares / n);
  result.share_inside_delta = inside / n;

  const JacobianShape shape = jacobian_shape(problem, best);
  result.identifiability = {shape.smallest_singular_value, "", design.warnings};
  for (std::string& fault : faults_of(problem, best, shape)) {
    result.law.unidentified.push_back(std::move(fault));
  }
  for (std::size_t u = 0; u < form.unknowns(); ++u) {
    if (best.at_bound[u]) result.bound_hits.push_back(form.unknown_name(u));
  }
  auto& warnings = result.identifiability.warnings;
  const double spare = n - static_cast<double>(design.free_coefficients);
  if (shape.smallest_singular_value < kSingular) {
    result.identifiability.degenerate_direction = shape.direction;
  } else if (spare > 0) {
    const double scatter = std::sqrt(residual_squares / spare);
    for (std::size_t c = 0; c < form.coefficients.size(); ++c) {
      const auto unknown = form.unknown_of(c);
      if (!unknown || *unknown <= form.amplitudes) continue;
      const double move = scatter * shape.move[*unknown];
      if (problem.held[*unknown] || best.at_bound[*unknown] ||
          move <= 0.5 * std::abs(best.coefficients[c])) {
        continue;
      }
      result.identifiability.degenerate_direction = shape.direction;
      warnings.push_back(fmt::format(
          "{} is weakly identified: at the scatter of these points it may move by {:.2g} ({})",
          form.coefficients[c], move, shape.direction));
    }
  }
  if (best.at_bound[0]) warnings.push_back("E ended at its bound 0: the points show no floor");
  if (distinct_points(problem) == design.free_coefficients) {
    warnings.push_back(
        "as many coefficients as distinct points: nothing is left to judge the fit by");
  }
  result.identifiable = result.law.unidentified.empty();
  if (static_cast<std::size_t>(n) < design.free_coefficients) {
    result.status = FitStatus::kTooFewPoints;
  } else if (!result.identifiable) {
    result.status = FitStatus::kNotIdentifiable;
  } else if (best.scaled_gradient >
             (options.loss == RobustLoss::kAbsolute ? kNearlyFlat : kConverged)) {
    result.status = FitStatus::kNotConverged;
  }
  if (result.identifiable) {
    result.status_words =
        fmt::format("{}: {} of {} starts agree, scaled gradient {:.1e}", enum_name(result.status),
                    found.agreeing, found.tried, best.scaled_gradient);
  } else {
    result.status_words =
        fmt::format("{}: {}", enum_name(result.status), fmt::join(result.law.unidentified, "; "));
  }
  return result;
}

}  // namespace smelt::law
