#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "smelt/law/solver.h"

namespace smelt::law {
namespace {

constexpr int kMax = static_cast<int>(kMaxUnknowns);
using SmallVector = Eigen::Matrix<double, Eigen::Dynamic, 1, 0, kMax, 1>;
using SmallMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, kMax, kMax>;

/// Non-negative least squares with at most four columns, from its normal equations: every support
/// is tried.
std::vector<double> small_nnls(const Eigen::MatrixXd& gram, const Eigen::VectorXd& right,
                               double target_square, double& error) {
  const auto n = static_cast<int>(right.size());
  std::vector<double> best(static_cast<std::size_t>(n), 0.0);
  error = target_square;
  for (int support = (1 << n) - 1; support > 0; --support) {
    std::vector<int> used;
    for (int j = 0; j < n; ++j) {
      if (support >> j & 1) used.push_back(j);
    }
    const auto p = static_cast<Eigen::Index>(used.size());
    SmallMatrix g(p, p);
    SmallVector r(p);
    for (Eigen::Index a = 0; a < p; ++a) {
      r[a] = right[used[static_cast<std::size_t>(a)]];
      for (Eigen::Index b = 0; b < p; ++b) {
        g(a, b) = gram(used[static_cast<std::size_t>(a)], used[static_cast<std::size_t>(b)]);
      }
      g(a, a) *= 1 + 1e-13;
    }
    const SmallVector solved = g.ldlt().solve(r);
    if (!(solved.minCoeff() >= 0)) continue;
    const double miss = target_square - 2 * solved.dot(r) + solved.dot(g * solved);
    if (miss < error || support == (1 << n) - 1) {
      error = miss;
      std::fill(best.begin(), best.end(), 0.0);
      for (Eigen::Index a = 0; a < p; ++a) {
        best[static_cast<std::size_t>(used[static_cast<std::size_t>(a)])] = solved[a];
      }
      if (support == (1 << n) - 1) break;  // the unconstrained optimum is inside
    }
  }
  return best;
}

}  // namespace

StartGrid::StartGrid(const Problem& problem) {
  const Form& form = *problem.form;
  const std::size_t terms = form.amplitudes, exponents = form.exponents();
  for (std::size_t j = 0; j <= terms; ++j) {
    if (!problem.held[j]) columns_.push_back(j);
  }
  std::vector<std::vector<double>> values;
  std::size_t count = 1;
  for (std::size_t j = 0; j < exponents; ++j) {
    const auto& held = problem.held[1 + terms + j];
    const bool signed_exponent = form.sparsity_exponent == j;
    values.push_back(held              ? std::vector{*held}
                     : signed_exponent ? std::vector{-0.2, 0.1, 0.3, 0.8}
                                       : std::vector{0.08, 0.2, 0.35, 0.6, 1.0});
    count *= values.back().size();
  }
  std::vector<double> log_terms(terms), centre(terms), slopes(terms * exponents);
  for (std::size_t index = 0; index < count; ++index) {
    Tuple tuple;
    std::size_t rest = index;
    for (const auto& choices : values) {
      tuple.exponents.push_back(choices[rest % choices.size()]);
      rest /= choices.size();
    }
    form.log_terms(problem.centre, tuple.exponents.data(), centre.data(), slopes.data());
    for (std::size_t i = 0; i < problem.x.size(); ++i) {
      form.log_terms(problem.x[i], tuple.exponents.data(), log_terms.data(), slopes.data());
      for (const std::size_t j : columns_) {
        const double log_column = j == 0 ? 0 : log_terms[j - 1] - centre[j - 1];
        tuple.columns.push_back(std::exp(log_column - problem.log_loss[i]));
      }
    }
    tuples_.push_back(std::move(tuple));
  }
}

std::vector<std::vector<double>> StartGrid::best(const Problem& problem, std::size_t count) const {
  const std::size_t terms = problem.form->amplitudes, n = columns_.size();
  struct Scored {
    double error;
    std::size_t tuple;
    std::vector<double> linear;
  };
  std::vector<Scored> scored;
  for (std::size_t index = 0; index < tuples_.size(); ++index) {
    const Tuple& tuple = tuples_[index];
    Eigen::MatrixXd gram =
        Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(n), static_cast<Eigen::Index>(n));
    Eigen::VectorXd right = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(n));
    double square = 0;
    for (std::size_t i = 0; i < problem.x.size(); ++i) {
      const double w = problem.weight[i];
      if (w == 0) continue;
      const double target =
          problem.held[0] ? 1 - *problem.held[0] * std::exp(-problem.log_loss[i]) : 1;
      const double* column = tuple.columns.data() + i * n;
      square += w * target * target;
      for (std::size_t a = 0; a < n; ++a) {
        right[static_cast<Eigen::Index>(a)] += w * column[a] * target;
        for (std::size_t b = 0; b <= a; ++b) {
          gram(static_cast<Eigen::Index>(a), static_cast<Eigen::Index>(b)) +=
              w * column[a] * column[b];
        }
      }
    }
    gram = gram.selfadjointView<Eigen::Lower>();
    double error = 0;
    auto linear = small_nnls(gram, right, square, error);
    scored.push_back({error, index, std::move(linear)});
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const Scored& a, const Scored& b) { return a.error < b.error; });
  scored.resize(std::min(count, scored.size()));
  double weight = 0, log_loss = 0;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    weight += problem.weight[i];
    log_loss += problem.weight[i] * problem.log_loss[i];
  }
  const double small = 1e-3 * std::exp(log_loss / std::max(weight, 1e-300));
  std::vector<std::vector<double>> starts;
  for (const Scored& one : scored) {
    std::vector<double> unknowns(1 + terms, 0.0);
    if (problem.held[0]) unknowns[0] = *problem.held[0];
    for (std::size_t a = 0; a < n; ++a) {
      const double value = one.linear[a];
      unknowns[columns_[a]] = columns_[a] == 0 ? value : std::log(std::max(value, small));
    }
    const auto& exponents = tuples_[one.tuple].exponents;
    unknowns.insert(unknowns.end(), exponents.begin(), exponents.end());
    starts.push_back(std::move(unknowns));
  }
  return starts;
}

}  // namespace smelt::law
