// Points made from known coefficients, on a grid like the paper's.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "smelt/core/philox.h"
#include "smelt/law/endpoints.h"

namespace smelt::law::testing {

inline Law paper_baseline() {
  return {
      &find_form("smelt"), {1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594}, std::nullopt, {}};
}
inline Law paper_smelt() {
  return {
      &find_form("smelt"), {1.4493, 1.963e3, 5.264e6, 0.3892, 0.1460, 0.7011}, std::nullopt, {}};
}

/// scales x sparsities x horizons; `noise` is the standard deviation of ln loss, the seed counts 0,
/// 1, ….
inline std::vector<Point> grid(const Law& law, int scales, const std::vector<double>& sparsities,
                               int horizons, double noise = 0, std::uint64_t stream = 1,
                               int seeds = 1) {
  std::vector<Point> points;
  const Philox random(stream, "tests/law/" + law.form->name);
  for (int scale = 0; scale < scales; ++scale) {
    for (const double sparsity : sparsities) {
      for (int horizon = 0; horizon < horizons; ++horizon) {
        for (int seed = 0; seed < seeds; ++seed) {
          Point point;
          point.size = 6.3e8 * std::pow(2.2, scale);
          point.sparsity = sparsity;
          point.tokens = 1.0e10 * std::pow(1.8, horizon);
          point.cell = "s" + std::to_string(scale) + "/" + std::to_string(sparsity);
          point.seed = seed;
          point.loss =
              evaluate(law, point.inputs()) * std::exp(noise * random.normal(points.size()));
          points.push_back(point);
        }
      }
    }
  }
  return points;
}

}  // namespace smelt::law::testing
