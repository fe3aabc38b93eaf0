// How long one fit of the six-coefficient law takes: 240 points, 16 starts (the grid's points lie
// on a known law, with 0.3 % of noise).
//
//   build/release/bin/law_bench
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "smelt/core/philox.h"
#include "smelt/law/fit.h"

namespace {

std::vector<smelt::law::Point> grid() {
  const smelt::law::Law law{&smelt::law::find_form("smelt"),
                            {1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594},
                            std::nullopt,
                            {}};
  const smelt::Philox noise(1, "bench/law");
  std::vector<smelt::law::Point> points;
  for (int size = 0; size < 6; ++size) {
    for (const double sparsity : {0.0, 0.5, 0.75, 0.9, 0.95}) {
      for (int tokens = 0; tokens < 8; ++tokens) {
        smelt::law::Point point;
        point.size = 1e8 * std::pow(2.0, size);
        point.sparsity = sparsity;
        point.tokens = 1e9 * std::pow(2.0, tokens);
        point.loss = smelt::law::evaluate(law, point.inputs()) *
                     std::exp(0.003 * noise.normal(points.size()));
        point.cell = std::to_string(size) + "/" + std::to_string(sparsity);
        points.push_back(point);
      }
    }
  }
  return points;
}

void fit(benchmark::State& state) {
  const auto points = grid();
  const auto& form = smelt::law::find_form("smelt");
  smelt::law::FitResult result;
  for (auto _ : state) result = smelt::law::fit(points, form);
  state.counters["points"] = static_cast<double>(points.size());
  state.counters["starts_agreeing"] = static_cast<double>(result.starts_agreeing);
}
BENCHMARK(fit)->Unit(benchmark::kMillisecond);

}  // namespace
