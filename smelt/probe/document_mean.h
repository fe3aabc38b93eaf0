// A mean over tokens with its standard error over documents, in memory that does not grow.
//
//   mean = Σ_d s_d / Σ_d w_d,   standard error² = D / (D - 1) · Σ_d (s_d - mean · w_d)² / (Σ_d
//   w_d)²
//
// s_d and w_d are a document's sum and weight (its number of tokens; for a ratio of two means, the
// sum of the denominator).  Tokens of one document are not independent, documents nearly are.
#pragma once

#include <cstdint>

namespace smelt::probe {

class DocumentMean {
 public:
  /// Adds a part of `document`.  Parts of one document come one after the other.
  void add(std::int64_t document, double sum, double weight);
  /// NaN when nothing has weight, or a sum is NaN.
  double mean() const;
  /// NaN with fewer than two documents that have weight.
  double standard_error() const;

 private:
  struct Sums {
    double documents = 0, s = 0, w = 0, ss = 0, sw = 0, ww = 0;
  };
  Sums closed() const;

  Sums sums_;                   // finished documents
  std::int64_t document_ = -1;  // the open one
  double s_ = 0, w_ = 0;
};

}  // namespace smelt::probe
