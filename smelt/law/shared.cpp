#include "smelt/law/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

#include "smelt/core/parallel.h"
#include "smelt/law/design.h"

namespace smelt::law {
namespace {

constexpr std::size_t kDrawStarts = 4;

/// Where each group's unknowns lie among those of all groups.
struct Places {
  std::vector<std::vector<Eigen::Index>> of;  // [group][unknown]
  Eigen::Index count = 0;

  Places(std::size_t groups, std::size_t unknowns, const std::set<std::size_t>& shared) {
    std::vector<Eigen::Index> common(unknowns, -1);
    for (const std::size_t u : shared) common[u] = count++;
    for (std::size_t g = 0; g < groups; ++g) {
      of.push_back(common);
      for (std::size_t u = 0; u < unknowns; ++u) {
        if (!shared.contains(u)) of[g][u] = count++;
      }
    }
  }
};

/// The groups' objectives added up.
class Joint {
 public:
  using Vector = Eigen::VectorXd;
  using Matrix = Eigen::MatrixXd;
  using Expansion = ExpansionOf<Vector, Matrix>;

  Joint(const std::vector<Problem>& problems, const Places& places)
      : problems_(problems), places_(places) {
    for (const Problem& problem : problems) parts_.emplace_back(problem);
  }

  Objective::Vector part(const Vector& u, std::size_t group) const {
    const auto& place = places_.of[group];
    Objective::Vector own(static_cast<Eigen::Index>(place.size()));
    for (std::size_t j = 0; j < place.size(); ++j) own[static_cast<Eigen::Index>(j)] = u[place[j]];
    return own;
  }

  Expansion expand(const Vector& u, double delta) {
    Expansion sum;
    sum.gradient = sum.absolute = sum.column_square = Vector::Zero(places_.count);
    sum.hessian = Matrix::Zero(places_.count, places_.count);
    for (std::size_t g = 0; g < parts_.size(); ++g) {
      const auto one = parts_[g].expand(part(u, g), delta);
      const auto& place = places_.of[g];
      sum.value += one.value;
      for (std::size_t a = 0; a < place.size(); ++a) {
        const auto row = static_cast<Eigen::Index>(a);
        sum.gradient[place[a]] += one.gradient[row];
        sum.absolute[place[a]] += one.absolute[row];
        sum.column_square[place[a]] += one.column_square[row];
        for (std::size_t b = 0; b < place.size(); ++b) {
          sum.hessian(place[a], place[b]) += one.hessian(row, static_cast<Eigen::Index>(b));
        }
      }
    }
    return sum;
  }

  double median_residual(const Vector& u) {
    double largest = 0;
    for (std::size_t g = 0; g < parts_.size(); ++g) {
      largest = std::max(largest, parts_[g].median_residual(part(u, g)));
    }
    return largest;
  }

  /// d residual / d unknown of all groups below one another, weighted.
  Matrix jacobian(const Vector& u) {
    Eigen::Index rows = 0, row = 0;
    for (const Objective& one : parts_) rows += static_cast<Eigen::Index>(one.size());
    Matrix all = Matrix::Zero(rows, places_.count);
    for (std::size_t g = 0; g < parts_.size(); ++g) {
      const Matrix own = parts_[g].jacobian(part(u, g));
      for (Eigen::Index a = 0; a < own.cols(); ++a) {
        all.col(places_.of[g][static_cast<std::size_t>(a)]).segment(row, own.rows()) =
            own.col(a).cwiseProduct(parts_[g].weights().sqrt().matrix());
      }
      row += own.rows();
    }
    return all;
  }

  Objective& objective(std::size_t group) { return parts_[group]; }

 private:
  const std::vector<Problem>& problems_;
  const Places& places_;
  std::vector<Objective> parts_;
};

struct JointSolution {
  Joint::Vector u;
  double value = INFINITY;
  double gradient = 0;
  std::int64_t tried = 0, agreeing = 0;
};

Bounds<Joint::Vector> joint_bounds(const std::vector<Problem>& problems, const Places& places) {
  Bounds<Joint::Vector> bounds{Joint::Vector::Zero(places.count),
                               Joint::Vector::Zero(places.count)};
  for (std::size_t g = 0; g < problems.size(); ++g) {
    const auto own = bounds_of(problems[g]);
    for (std::size_t j = 0; j < places.of[g].size(); ++j) {
      bounds.low[places.of[g][j]] = own.low[static_cast<Eigen::Index>(j)];
      bounds.high[places.of[g][j]] = own.high[static_cast<Eigen::Index>(j)];
    }
  }
  return bounds;
}

/// Starts: every group's own optimum gives the shared unknowns in turn, then their mean.
JointSolution search_joint(const std::vector<Problem>& problems,
                           const std::vector<StartGrid>& grids, const Places& places,
                           std::size_t starts, const Joint::Vector* warm) {
  std::vector<Joint::Vector> candidates;
  std::vector<std::vector<double>> own;
  for (std::size_t g = 0; g < problems.size(); ++g) {
    own.push_back(search(problems[g], grids[g], starts).best.unknowns);
  }
  const auto put = [&](Joint::Vector& u, std::size_t g) {
    for (std::size_t j = 0; j < own[g].size(); ++j) u[places.of[g][j]] = own[g][j];
  };
  for (std::size_t lead = 0; lead < problems.size(); ++lead) {
    Joint::Vector u = Joint::Vector::Zero(places.count);
    for (std::size_t g = 0; g < problems.size(); ++g) put(u, g);
    put(u, lead);
    candidates.push_back(u);
  }
  Joint::Vector mean = Joint::Vector::Zero(places.count);
  for (const auto& u : candidates) mean += u / static_cast<double>(candidates.size());
  candidates.push_back(mean);
  if (warm) candidates.push_back(*warm);

  Joint joint(problems, places);
  const auto bounds = joint_bounds(problems, places);
  Joint::Vector longest = Joint::Vector::Ones(places.count);
  double weight = 0, rows = 0;
  for (const Problem& problem : problems) {
    weight += std::accumulate(problem.weight.begin(), problem.weight.end(), 0.0);
    rows += static_cast<double>(problem.x.size());
  }
  const Problem& first = problems.front();
  JointSolution best;
  std::vector<double> values;
  for (Joint::Vector u : candidates) {
    u = u.cwiseMax(bounds.low).cwiseMin(bounds.high);
    minimise(joint, bounds, longest, weight, rows,
             first.squares ? first.delta : joint.median_residual(u), first.delta, u);
    const auto end = joint.expand(u, first.delta);
    values.push_back(end.value);
    ++best.tried;
    if (!(end.value < best.value)) continue;
    best.value = end.value;
    best.u = u;
    best.gradient = scaled_gradient(end, free_unknowns(bounds, u, end.gradient));
  }
  const double rounding = weight * std::pow(1e-10 / first.delta, 2);
  best.agreeing = std::count_if(values.begin(), values.end(), [&](double value) {
    return value <= best.value * (1 + 1e-9) + rounding;
  });
  return best;
}

/// Smallest singular value of the free columns scaled to unit length.
double smallest_singular_value(const std::vector<Problem>& problems, const Places& places,
                               const Joint::Vector& u) {
  Joint joint(problems, places);
  const auto bounds = joint_bounds(problems, places);
  const Eigen::MatrixXd all = joint.jacobian(u);
  std::vector<Eigen::Index> free;
  for (Eigen::Index j = 0; j < u.size(); ++j) {
    if (bounds.low[j] != bounds.high[j]) free.push_back(j);
  }
  Eigen::MatrixXd columns(all.rows(), static_cast<Eigen::Index>(free.size()));
  for (std::size_t a = 0; a < free.size(); ++a) {
    const double norm = all.col(free[a]).norm();
    columns.col(static_cast<Eigen::Index>(a)) = all.col(free[a]) / (norm > 0 ? norm : 1);
  }
  if (columns.rows() < columns.cols()) return 0;
  return Eigen::JacobiSVD<Eigen::MatrixXd>(columns).singularValues()[columns.cols() - 1];
}

std::set<std::size_t> shared_unknowns(const Form& form, const std::vector<std::string>& share) {
  Problems problems("law");
  std::set<std::size_t> shared;
  for (const std::string& name : share) {
    const auto at = form.index(name);
    const auto unknown = at ? form.unknown_of(*at) : std::nullopt;
    if (!at) {
      problems.add("share: form " + form.name + " has no coefficient \"" + clipped(name) +
                   "\"; there are " + join_choices(form.coefficients));
    } else if (!unknown) {
      problems.add("share: " + name + " of form " + form.name +
                   " is made of several unknowns and cannot be shared");
    } else {
      shared.insert(*unknown);
    }
  }
  problems.throw_if_any();
  return shared;
}

}  // namespace

std::vector<FitResult> fit_shared(
    const std::vector<std::pair<std::string, std::vector<Point>>>& groups, const Form& form,
    const FitOptions& options, const std::vector<std::string>& share,
    const BootstrapOptions& bootstrap) {
  const auto start = std::chrono::steady_clock::now();
  const std::set<std::size_t> shared = shared_unknowns(form, share);
  if (groups.size() < 2) throw Error("law", "share: expected two groups at least, got one");
  std::vector<Design> designs;
  std::vector<Problem> problems;
  for (const auto& [name, points] : groups) {
    designs.push_back(make_design(points, form, options));
    if (designs.back().order.empty()) {
      throw Error("law", "share: group \"" + name + "\" has no row of positive weight");
    }
    problems.push_back(designs.back().problem);
  }
  // One centre, so that amplitudes at the centre mean the same in every group.
  LogInputs centre;
  for (const Problem& problem : problems) {
    const double part = 1 / static_cast<double>(problems.size());
    centre.size += part * problem.centre.size;
    centre.one_minus_s += part * problem.centre.one_minus_s;
    centre.tokens += part * problem.centre.tokens;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    problems[g].centre = designs[g].problem.centre = centre;
    for (const std::size_t u : shared) {  // what one group cannot tell, another may
      if (options.fix.empty()) problems[g].held[u] = designs[g].problem.held[u] = std::nullopt;
    }
  }
  const Places places(groups.size(), form.unknowns(), shared);
  std::vector<StartGrid> grids;
  for (const Problem& problem : problems) grids.emplace_back(problem);
  const JointSolution found =
      search_joint(problems, grids, places, static_cast<std::size_t>(options.starts), nullptr);
  const double singular = smallest_singular_value(problems, places, found.u);

  std::vector<FitResult> results;
  Joint joint(problems, places);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    // Seen from its own rows, the shared coefficients are given.
    Design own = designs[g];
    const Solution solution = solution_at(own.problem, joint.objective(g), joint.part(found.u, g));
    for (const std::size_t u : shared) {
      const bool amplitude = u >= 1 && u <= form.amplitudes;
      own.problem.held[u] = amplitude ? solution.coefficients[u] : solution.unknowns[u];
    }
    FitResult result =
        summarize(own, groups[g].second, options, {solution, found.tried, found.agreeing});
    result.scaled_gradient = found.gradient;
    for (const std::string& name : share) result.held.push_back(name + " shared");
    if (singular < kSingular) {
      result.identifiable = false;
      result.law.unidentified.push_back("the groups together leave a direction open");
      result.status = FitStatus::kNotIdentifiable;
    }
    result.status_words =
        fmt::format("{}: {} of {} joint starts agree, scaled gradient {:.1e}",
                    enum_name(result.status), found.agreeing, found.tried, found.gradient);
    results.push_back(std::move(result));
  }
  const bool all = std::all_of(results.begin(), results.end(),
                               [](const FitResult& one) { return one.identifiable; });
  if (all && bootstrap.draws > 0) {
    std::set<std::string> names;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::string& name :
           unit_names(groups[g].second, designs[g].order, form, bootstrap.unit)) {
        names.insert(name);
      }
    }
    const DrawKey key{bootstrap.unit, bootstrap.seed, {names.begin(), names.end()}};
    std::vector<std::vector<std::size_t>> unit;
    std::vector<Draws> draws(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      unit.push_back(unit_numbers(groups[g].second, designs[g].order, form, bootstrap.unit, key));
      draws[g].key = key;
      draws[g].drawn.resize(static_cast<std::size_t>(bootstrap.draws));
    }
    const Philox random = draw_generator(bootstrap.seed);
    parallel_for(
        draws.front().drawn.size(),
        [&](std::size_t draw) {
          const auto counts = draw_counts(random, draw, key.names.size());
          std::vector<Problem> drawn = problems;
          for (std::size_t g = 0; g < drawn.size(); ++g) {
            for (std::size_t i = 0; i < drawn[g].x.size(); ++i) {
              drawn[g].weight[i] *= counts[unit[g][i]];
            }
            if (distinct_points(drawn[g]) + shared.size() < form.unknowns()) return;
          }
          const JointSolution one = search_joint(drawn, grids, places, kDrawStarts, &found.u);
          if (smallest_singular_value(drawn, places, one.u) < kSingular) return;
          Joint at(drawn, places);
          for (std::size_t g = 0; g < drawn.size(); ++g) {
            draws[g].drawn[draw] =
                solution_at(drawn[g], at.objective(g), at.part(one.u, g)).coefficients;
          }
        },
        static_cast<unsigned>(bootstrap.threads));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      summarize_draws(draws[g], bootstrap, results[g]);
      results[g].draw_values = draws[g];
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (FitResult& result : results) result.seconds = seconds;
  return results;
}

}  // namespace smelt::law
