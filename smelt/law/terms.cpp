#include "smelt/law/terms.h"

namespace smelt::law {
namespace {

constexpr std::size_t kMax = kMaxUnknowns;

/// A place where power laws have a value under every form.
LogInputs reference_point(const LogInputs& centre) {
  LogInputs at = centre;
  at.recurrent = centre.size;
  at.visits = 0;
  at.experts = 1;
  return at;
}

/// The terms at the centre less those at the centre seen from itself, with their slopes.
struct Offset {
  double value[kMax] = {}, slope[kMax * kMax] = {};

  Offset(const Problem& problem, const double* shape) {
    const Form& form = *problem.form;
    const LogInputs at = reference_point(problem.centre);
    double zero[kMax], zero_slope[kMax * kMax];
    form.log_terms(at, shape, value, slope, nullptr);
    form.log_terms(relative(at, problem.centre), shape, zero, zero_slope, nullptr);
    for (std::size_t k = 0; k < form.amplitudes; ++k) {
      value[k] -= zero[k];
      for (std::size_t j = 0; j < form.shape.size(); ++j) {
        const std::size_t place = k * form.shape.size() + j;
        slope[place] -= zero_slope[place];
      }
    }
  }
};

}  // namespace

std::vector<double> centre_offsets(const Problem& problem, const double* shape) {
  const Offset offset(problem, shape);
  return {offset.value, offset.value + problem.form->amplitudes};
}

Terms::Terms(const Problem& problem) : problem_(problem), form_(*problem.form) {
  terms_ = form_.amplitudes;
  shapes_ = form_.shape.size();
  for (std::size_t i = 0; i < problem.x.size(); ++i) {
    if (problem.weight[i] > 0) rows_.push_back(i);
  }
  const auto n = static_cast<Eigen::Index>(rows_.size());
  weight_.resize(n);
  log_loss_.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const std::size_t row = rows_[static_cast<std::size_t>(i)];
    weight_[i] = problem.weight[row];
    log_loss_[i] = problem.log_loss[row];
  }
  for (std::size_t k = 0; k < terms_; ++k) present_.push_back(problem.held[1 + k] != 0.0);
  log_term_.assign(terms_, Eigen::ArrayXd::Zero(n));
  slope_.assign(terms_ * shapes_, Eigen::ArrayXd::Zero(n));
  acts_.assign(terms_ * shapes_, form_.curved);
  if (form_.curved) second_.assign(terms_ * shapes_ * shapes_, Eigen::ArrayXd::Zero(n));

  // Linear log terms have the same slopes everywhere.
  const double nowhere[kMax] = {};
  double values[kMax], gradient[kMax * kMax];
  for (Eigen::Index i = 0; i < n; ++i) {
    const LogInputs x = relative(problem.x[rows_[static_cast<std::size_t>(i)]], problem.centre);
    if (form_.curved) {
      relative_.push_back(x);
      continue;
    }
    form_.log_terms(x, nowhere, values, gradient, nullptr);
    for (std::size_t place = 0; place < slope_.size(); ++place) {
      slope_[place][i] = gradient[place];
      if (gradient[place] != 0) acts_[place] = true;
    }
  }
  if (form_.curved) return;
  const Offset offset(problem, nowhere);
  for (std::size_t k = 0; k < terms_; ++k) {
    if (!problem.held[1 + k]) continue;
    for (std::size_t j = 0; j < shapes_; ++j) {
      slope_[at(k, j)] += offset.slope[at(k, j)];
      if (offset.slope[at(k, j)] != 0) acts_[at(k, j)] = true;
    }
  }
}

void Terms::move_to(const double* shape) {
  if (form_.curved) {
    move_curved(shape);
    return;
  }
  for (std::size_t k = 0; k < terms_; ++k) {
    log_term_[k].setZero();
    for (std::size_t j = 0; j < shapes_; ++j) {
      if (acts(k, j)) log_term_[k] += shape[j] * slope(k, j);
    }
  }
}

void Terms::move_curved(const double* shape) {
  const Offset offset(problem_, shape);
  double values[kMax], gradient[kMax * kMax], second[kMax * kMax * kMax];
  for (std::size_t i = 0; i < relative_.size(); ++i) {
    form_.log_terms(relative_[i], shape, values, gradient, second);
    const auto row = static_cast<Eigen::Index>(i);
    for (std::size_t k = 0; k < terms_; ++k) {
      const bool held = problem_.held[1 + k].has_value();
      log_term_[k][row] = values[k] + (held ? offset.value[k] : 0);
      for (std::size_t j = 0; j < shapes_; ++j) {
        slope_[at(k, j)][row] = gradient[at(k, j)] + (held ? offset.slope[at(k, j)] : 0);
      }
    }
    for (std::size_t place = 0; place < second_.size(); ++place) {
      second_[place][row] = second[place];
    }
  }
}

}  // namespace smelt::law
