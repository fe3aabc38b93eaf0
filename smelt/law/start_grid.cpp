#include <algorithm>
#include <cmath>

#include "smelt/law/projection.h"
#include "smelt/law/solver.h"

namespace smelt::law {
namespace {

using SmallVector = Objective::Vector;
using SmallMatrix = Objective::Matrix;

}  // namespace

StartGrid::StartGrid(const Problem& problem) {
  const Form& form = *problem.form;
  const std::size_t terms = form.amplitudes, shapes = form.shape.size();
  for (std::size_t j = 0; j <= terms; ++j) {
    if (!problem.held[j] && (j > 0 || form.floor)) columns_.push_back(j);
  }
  std::vector<std::vector<double>> values;
  std::size_t count = 1;
  for (std::size_t j = 0; j < shapes; ++j) {
    const auto& held = problem.held[1 + terms + j];
    values.push_back(held ? std::vector{*held} : form.shape[j].grid);
    count *= values.back().size();
  }
  const auto n = static_cast<Eigen::Index>(problem.x.size());
  std::vector<double> logs(terms), slopes(terms * shapes);
  for (std::size_t index = 0; index < count; ++index) {
    Tuple tuple;
    std::size_t rest = index;
    for (const auto& choices : values) {
      tuple.shape.push_back(choices[rest % choices.size()]);
      rest /= choices.size();
    }
    tuple.columns.resize(n, static_cast<Eigen::Index>(columns_.size()));
    tuple.target = Eigen::VectorXd::Ones(n);
    const auto offsets = centre_offsets(problem, tuple.shape.data());
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto row = static_cast<std::size_t>(i);
      form.log_terms(relative(problem.x[row], problem.centre), tuple.shape.data(), logs.data(),
                     slopes.data(), nullptr);
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const double log_column = columns_[c] == 0 ? 0 : logs[columns_[c] - 1];
        tuple.columns(i, static_cast<Eigen::Index>(c)) =
            std::exp(log_column - problem.log_loss[row]);
      }
      for (std::size_t j = 0; j <= terms; ++j) {
        const double held = problem.held[j].value_or(0);
        if (held == 0) continue;
        const double log_column = j == 0 ? 0 : logs[j - 1] + offsets[j - 1];
        tuple.target[i] -= held * std::exp(log_column - problem.log_loss[row]);
      }
    }
    tuples_.push_back(std::move(tuple));
  }
}

std::vector<std::vector<double>> StartGrid::best(const Problem& problem, std::size_t count) const {
  const std::size_t terms = problem.form->amplitudes;
  struct Scored {
    double error;
    std::size_t tuple;
    std::vector<double> linear;
  };
  const Eigen::Map<const Eigen::VectorXd> weight(problem.weight.data(),
                                                 static_cast<Eigen::Index>(problem.weight.size()));
  std::vector<Scored> scored;
  const auto columns = static_cast<Eigen::Index>(columns_.size());
  SmallMatrix gram(columns, columns);
  SmallVector right(columns);
  Eigen::VectorXd weighted;
  for (std::size_t index = 0; index < tuples_.size(); ++index) {
    const Tuple& tuple = tuples_[index];
    for (Eigen::Index a = 0; a < columns; ++a) {
      weighted = weight.cwiseProduct(tuple.columns.col(a));
      right[a] = weighted.dot(tuple.target);
      for (Eigen::Index b = 0; b <= a; ++b) {
        gram(a, b) = gram(b, a) = weighted.dot(tuple.columns.col(b));
      }
    }
    const double square = weight.dot(tuple.target.cwiseProduct(tuple.target));
    double error = square;
    auto linear = columns > 0 ? small_nnls(gram, right, square, error) : std::vector<double>{};
    scored.push_back({error, index, std::move(linear)});
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const Scored& a, const Scored& b) { return a.error < b.error; });
  scored.resize(std::min(count, scored.size()));
  double sum = 0, log_loss = 0;
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    sum += problem.weight[i];
    log_loss += problem.weight[i] * problem.log_loss[i];
  }
  const double small = 1e-3 * std::exp(log_loss / std::max(sum, 1e-300));
  std::vector<std::vector<double>> starts;
  for (const Scored& one : scored) {
    std::vector<double> unknowns(1 + terms, 0.0);
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const double value = one.linear[c];
      unknowns[columns_[c]] = columns_[c] == 0 ? value : std::log(std::max(value, small));
    }
    const auto& shape = tuples_[one.tuple].shape;
    unknowns.insert(unknowns.end(), shape.begin(), shape.end());
    starts.push_back(std::move(unknowns));
  }
  return starts;
}

}  // namespace smelt::law
