#include "smelt/probe/document_mean.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace smelt::probe {

void DocumentMean::add(std::int64_t document, double sum, double weight) {
  if (document != document_) {
    sums_ = closed();
    document_ = document;
    s_ = w_ = 0;
  }
  s_ += sum;
  w_ += weight;
}

DocumentMean::Sums DocumentMean::closed() const {
  Sums sums = sums_;
  if (w_ == 0) return sums;
  sums.documents += 1;
  sums.s += s_;
  sums.w += w_;
  sums.ss += s_ * s_;
  sums.sw += s_ * w_;
  sums.ww += w_ * w_;
  return sums;
}

double DocumentMean::mean() const {
  const Sums sums = closed();
  return sums.w == 0 ? std::numeric_limits<double>::quiet_NaN() : sums.s / sums.w;
}

double DocumentMean::standard_error() const {
  const Sums sums = closed();
  if (sums.documents < 2) return std::numeric_limits<double>::quiet_NaN();
  const double mean = sums.s / sums.w;
  // Σ (s - mean · w)², expanded; rounding may leave a tiny negative number.
  const double squares = std::max(0.0, sums.ss - 2 * mean * sums.sw + mean * mean * sums.ww);
  if (std::isnan(mean)) return mean;
  return std::sqrt(sums.documents / (sums.documents - 1) * squares) / std::abs(sums.w);
}

}  // namespace smelt::probe
