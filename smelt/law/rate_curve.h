// Loss over the learning rates that were tried: where its minimum lies, and how well that is known.
//
//   RateCurve curve = fit_rate_curve({{1e-3, 1, 3.31}, {2e-3, 1, 3.20}, {4e-3, 1, 3.25}, …});
//   curve.lr, curve.interval, curve.words
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/json.h"

namespace smelt::law {

/// One run that was tried.
struct RateLoss {
  double lr = 0;
  std::int64_t seed = 0;
  std::optional<double> loss;  // nats; nothing: diverged
};

struct RateInterval {
  double low = 0, high = 0;
};

struct RateCurve {
  double lr = 0;          // of the minimum, to three digits: the parabola's, or the best rate tried
  double loss = 0;        // there, mean over seeds, nats
  bool fitted = false;    // from a parabola; else the best rate tried
  bool at_edge = false;   // the best rate tried is the smallest or the largest one
  bool diverged = false;  // no rate went through with every seed; lr and loss are 0
  std::optional<RateInterval> interval;  // 95 %, of lr; nothing: spread unknown, or no end to it
  std::optional<double> spread;          // standard deviation of one run about the curve, nats
  std::string words;                     // one clause for people
};

/// Least squares of loss = (one level per seed) + b x + c x², x = ln lr, through the best rate and
/// those around it: its neighbours and all within a factor of 2.5.  The interval is Fieller's for
/// -b / 2c, from the residuals (Student t).  A rate that diverged with any seed is not taken.
/// Throws Error when nothing was tried.
RateCurve fit_rate_curve(const std::vector<RateLoss>& tried);

Json to_json(const RateCurve& curve);

}  // namespace smelt::law
