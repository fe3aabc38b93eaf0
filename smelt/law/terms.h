// The terms of a form over all points at once, as columns.  Internal to the folder.
//
// Terms are seen from the data centre, so that neither units nor the spread of the points matter; a
// held amplitude is the coefficient's own, and its term is seen from nowhere.
#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <optional>
#include <vector>

#include "smelt/law/form.h"

namespace smelt::law {

inline constexpr std::size_t kMaxUnknowns = 8;

/// One surface to fit.
struct Problem {
  const Form* form = nullptr;
  double delta = 1e-3;    // of Huber's loss; only a scale of squares
  bool squares = false;   // no residual is outside
  bool plain = false;     // residuals of the loss itself
  double quantile = 0.5;  // share of the pull of points below the law; 0.5: both sides alike
  std::vector<LogInputs> x;
  std::vector<double> log_loss;
  std::vector<double> weight;  // 0 leaves a point out
  LogInputs centre;
  /// Per unknown: what it is held at.  An amplitude is held by its coefficient, 0 for no such term.
  std::vector<std::optional<double>> held;
};

/// By how much ln amplitude at the centre exceeds that of the coefficient, per term.
std::vector<double> centre_offsets(const Problem& problem, const double* shape);

class Terms {
 public:
  explicit Terms(const Problem& problem);

  /// Moves to a shape: log terms and their derivatives there.
  void move_to(const double* shape);

  std::size_t terms() const { return terms_; }
  std::size_t shapes() const { return shapes_; }
  /// False for a term that is held at 0.
  bool present(std::size_t term) const { return present_[term]; }
  /// Whether a shape parameter acts in a term.
  bool acts(std::size_t term, std::size_t shape) const { return acts_[at(term, shape)]; }
  bool curved() const { return form_.curved; }
  const Eigen::ArrayXd& log_term(std::size_t term) const { return log_term_[term]; }
  const Eigen::ArrayXd& slope(std::size_t term, std::size_t shape) const {
    return slope_[at(term, shape)];
  }
  /// Of curved forms only.
  const Eigen::ArrayXd& second(std::size_t term, std::size_t shape, std::size_t other) const {
    return second_[at(term, shape) * shapes_ + other];
  }

  /// Rows of positive weight, in the order of all columns.
  const std::vector<std::size_t>& rows() const { return rows_; }
  const Eigen::ArrayXd& weights() const { return weight_; }
  const Eigen::ArrayXd& log_loss() const { return log_loss_; }

 private:
  std::size_t at(std::size_t term, std::size_t shape) const { return term * shapes_ + shape; }
  void move_curved(const double* shape);

  const Problem& problem_;
  const Form& form_;
  std::size_t terms_ = 0, shapes_ = 0;
  std::vector<std::size_t> rows_;
  std::vector<bool> present_, acts_;
  std::vector<LogInputs> relative_;  // of curved forms
  Eigen::ArrayXd weight_, log_loss_;
  std::vector<Eigen::ArrayXd> log_term_, slope_, second_;
};

}  // namespace smelt::law
