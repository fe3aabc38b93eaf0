#include "smelt/law/design.h"

#include <fmt/format.h>

#include <algorithm>
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
    const auto positive = [&](const char* column, double value) {
      if (std::isfinite(value) && value > 0) return;
      problems.add(
          fmt::format("{}: expected a finite number above 0, got {}", column, number_text(value)),
          where);
    };
    positive(form.size_symbol(), point.size);
    positive("D", point.tokens);
    positive("loss", point.loss);
    if (!(point.sparsity >= 0 && point.sparsity < 1)) {
      problems.add(
          fmt::format("S: expected at least 0 and below 1, got {}", number_text(point.sparsity)),
          where);
    }
    if (!(std::isfinite(point.weight) && point.weight >= 0)) {
      problems.add(fmt::format("weight: expected a finite number, at least 0, got {}",
                               number_text(point.weight)),
                   where);
    }
  }
  problems.throw_if_any();
}

void read_fixed(const FitOptions& options, const Form& form, Problem& problem) {
  Problems problems("law");
  if (!(options.delta > 0))
    problems.add("delta: expected above 0, got " + number_text(options.delta));
  if (options.starts < 1)
    problems.add(fmt::format("starts: expected at least 1, got {}", options.starts));
  for (const std::string& text : options.fix) {
    const auto equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto at = form.index(name);
    double value = 0;
    try {
      std::size_t end = 0;
      const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
      value = std::stod(number, &end);
      if (end != number.size()) throw std::invalid_argument(number);
    } catch (const std::exception&) {
      problems.add("fix: expected COEFFICIENT=NUMBER, got \"" + text + "\"");
      continue;
    }
    if (!at) {
      problems.add("fix: form " + form.name + " has no coefficient \"" + name + "\"; there are " +
                   join_choices(form.coefficients));
    } else if (*at >= 1 && *at <= form.amplitudes) {
      problems.add("fix: " + name +
                   " is an amplitude, which depends on units; E and exponents can be held");
    } else if (!std::isfinite(value) || std::abs(value) > kMaxExponent ||
               (name != "b" && value < 0)) {
      problems.add(fmt::format("fix: {} = {} is out of range", name, number_text(value)));
    } else {
      problem.held[*at] = value;
    }
  }
  problems.throw_if_any();
}

/// Whether the variable that `exponent` acts on differs between points.  Matched models of one
/// nominal sparsity differ a little in S, which tells nothing about b: 1 - S has to vary by more
/// than kSameSparsity.
bool exponent_varies(const Problem& problem, std::size_t term, std::size_t exponent) {
  const Form& form = *problem.form;
  std::vector<double> exponents(form.exponents(), 0.5), terms(form.amplitudes),
      slopes(form.amplitudes * form.exponents());
  double low = 0, high = 0;
  bool first = true;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    if (problem.weight[i] == 0) continue;
    form.log_terms(problem.x[i], exponents.data(), terms.data(), slopes.data());
    const double slope = slopes[term * form.exponents() + exponent];
    low = first ? slope : std::min(low, slope);
    high = first ? slope : std::max(high, slope);
    first = false;
  }
  const bool on_sparsity = form.sparsity_exponent == exponent;
  return high - low > (on_sparsity ? kSameSparsity : 1e-9);
}

std::string term_text(const Form& form, std::size_t term) {
  if (term == 0 && form.uses_sparsity()) return "A (1-S)^b / F^a";
  std::string exponent;
  for (std::size_t j = 0; j < form.exponents(); ++j) {
    if (acts(form, term, j)) exponent = form.coefficients[1 + form.amplitudes + j];
  }
  return form.coefficients[1 + term] + " / " + (term == 0 ? form.size_symbol() : "D") + "^" +
         exponent;
}

std::string sparsity_text(const Range& sparsity) {
  if (sparsity.min == sparsity.max) return number_text(sparsity.min);
  return fmt::format("{:.3g} to {:.3g}", sparsity.min, sparsity.max);
}

/// Holds what the points cannot tell apart, and says so.
void hold_by_design(Design& design) {
  Problem& problem = design.problem;
  const Form& form = *problem.form;
  const std::size_t first_exponent = 1 + form.amplitudes;
  std::vector<bool> used(form.exponents(), false);
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    bool varies = false;
    for (std::size_t j = 0; j < form.exponents(); ++j) {
      varies = varies || (acts(form, k, j) && exponent_varies(problem, k, j));
    }
    if (!varies) {
      const std::string what = form.coefficients[1 + k] == "A" && k == 0 ? form.size_symbol() : "D";
      problem.held[1 + k] = 0;
      design.held.push_back(form.coefficients[1 + k] + " = 0");
      design.unidentified.push_back(
          fmt::format("{} does not vary, so {} cannot be separated from E, which holds both", what,
                      term_text(form, k)));
      continue;
    }
    for (std::size_t j = 0; j < form.exponents(); ++j) {
      if (acts(form, k, j) && exponent_varies(problem, k, j)) used[j] = true;
    }
  }
  for (std::size_t j = 0; j < form.exponents(); ++j) {
    const std::string& name = form.coefficients[first_exponent + j];
    if (used[j] || problem.held[first_exponent + j]) continue;
    problem.held[first_exponent + j] = 0;
    design.held.push_back(name + " = 0");
    if (problem.held[1]) continue;  // its term is gone, which was said
    if (form.sparsity_exponent == j) {
      design.warnings.push_back(fmt::format(
          "S is {} in every row: b is held at 0, and the law holds at this sparsity only",
          sparsity_text(design.range.sparsity)));
    } else if (name == "a") {
      design.unidentified.push_back("F does not vary: a is held at 0");
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

Range range_of(const std::vector<Point>& points, auto get) {
  Range range{get(points.front()), get(points.front())};
  for (const Point& point : points) {
    range.min = std::min(range.min, get(point));
    range.max = std::max(range.max, get(point));
  }
  return range;
}

}  // namespace

Design make_design(const std::vector<Point>& points, const Form& form, const FitOptions& options) {
  check_points(points, form);
  Design design;
  Problem& problem = design.problem;
  problem.form = &form;
  problem.delta = options.delta;
  problem.held.resize(form.coefficients.size());
  read_fixed(options, form, problem);
  for (const std::string& text : options.fix) design.held.push_back(text);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].weight > 0) design.order.push_back(i);
  }
  if (design.order.empty()) return design;
  std::stable_sort(design.order.begin(), design.order.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [](const Point& p) {
      return std::tie(p.size, p.tokens, p.sparsity, p.loss, p.weight);
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
  std::set<std::tuple<double, double, double>> seen;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    const LogInputs& x = problem.x[i];
    if (problem.weight[i] > 0) {
      seen.insert(
          {std::round(x.size * 1e9), std::round(x.one_minus_s * 1e9), std::round(x.tokens * 1e9)});
    }
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
    faults.push_back(
        fmt::format("{} coefficients, but only {} distinct points ({})", unknown, known,
                    form.uses_sparsity() ? "F, S, D" : std::string(form.size_symbol()) + ", D"));
  }
  if (shape.smallest_singular_value < kSingular) {
    const std::size_t sizes = distinct(problem, [](const LogInputs& x) { return x.size; });
    const std::size_t tokens = distinct(problem, [](const LogInputs& x) { return x.tokens; });
    std::string text = fmt::format("the points leave a direction open: {}", shape.direction);
    if (sizes < 3 || tokens < 3) {
      text += fmt::format(" ({} values of {} and {} of D; a floor and a power law need 3 of each)",
                          sizes, form.size_symbol(), tokens);
    }
    faults.push_back(text);
  }
  for (std::size_t k = 0; k < form.amplitudes; ++k) {
    const char* axis = k == 0 ? form.size_symbol() : "D";
    if (solution.at_bound[1 + k]) {
      faults.push_back(
          fmt::format("the term {} vanished: the loss does not fall with {} in these points",
                      term_text(form, k), axis));
      continue;
    }
    for (std::size_t j = 0; j < form.exponents(); ++j) {
      const std::size_t at = 1 + form.amplitudes + j;
      if (solution.at_bound[at] && acts(form, k, j)) {
        faults.push_back(fmt::format("{} ended at its bound {}", form.coefficients[at],
                                     number_text(solution.coefficients[at])));
      }
    }
  }
  return faults;
}

FitResult summarize(const Design& design, const std::vector<Point>& points,
                    const SearchResult& found) {
  const Problem& problem = design.problem;
  const Form& form = *problem.form;
  const Solution& best = found.best;
  FitResult result;
  result.law = {&form, best.coefficients, design.range, design.unidentified};
  result.delta = problem.delta;
  result.points = design.order.size();
  result.held = design.held;
  result.starts_tried = found.tried;
  result.starts_agreeing = found.agreeing;
  result.scaled_gradient = best.scaled_gradient;
  double squares = 0, log_squares = 0, inside = 0;
  for (std::size_t i = 0; i < design.order.size(); ++i) {
    const Point& point = points[design.order[i]];
    const double loss = evaluate(result.law, point.inputs());
    const double r = std::log(loss) - problem.log_loss[i], size = std::abs(r);
    squares += (loss - point.loss) * (loss - point.loss);
    log_squares += r * r;
    if (size <= problem.delta) inside += 1;
    result.objective +=
        point.weight *
        (size <= problem.delta ? 0.5 * r * r : problem.delta * (size - 0.5 * problem.delta));
  }
  const double n = static_cast<double>(design.order.size());
  result.rmse = std::sqrt(squares / n);
  result.share_inside_delta = inside / n;

  const JacobianShape shape = jacobian_shape(problem, best);
  result.identifiability = {shape.smallest_singular_value, "", design.warnings};
  for (std::string& fault : faults_of(problem, best, shape)) {
    result.law.unidentified.push_back(std::move(fault));
  }
  for (std::size_t j = 0; j < form.coefficients.size(); ++j) {
    if (best.at_bound[j]) result.bound_hits.push_back(form.coefficients[j]);
  }
  auto& warnings = result.identifiability.warnings;
  const double spare = n - static_cast<double>(design.free_coefficients);
  if (shape.smallest_singular_value < kSingular) {
    result.identifiability.degenerate_direction = shape.direction;
  } else if (spare > 0) {
    const double scatter = std::sqrt(log_squares / spare);
    for (std::size_t j = 1 + form.amplitudes; j < form.coefficients.size(); ++j) {
      const double move = scatter * shape.move[j];
      if (problem.held[j] || best.at_bound[j] || move <= 0.5 * std::abs(best.coefficients[j]))
        continue;
      result.identifiability.degenerate_direction = shape.direction;
      warnings.push_back(fmt::format(
          "{} is weakly identified: at the scatter of these points it may move by {:.2g} ({})",
          form.coefficients[j], move, shape.direction));
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
  } else if (best.scaled_gradient > 1e-6) {
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
