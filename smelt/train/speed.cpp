#include "smelt/train/speed.h"

#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "smelt/budget/budget.h"
#include "smelt/model/products.h"

namespace smelt::train {

double flops_per_token(const arch::ModelConfig& model, double attended) {
  const budget::Budget budget = budget::count(model, attended);
  return budget.flops_per_token + budget.flops_head;
}

double measured_peak_flops(arch::Precision precision) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kSize = 1024;
  const at::Tensor x = at::full({kSize, kSize}, 0.5), w = at::full({kSize, kSize}, 0.25);
  at::Tensor y = at::empty({kSize, kSize});
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 8; ++i) {  // the first ones compile and warm up
    const auto start = Clock::now();
    model::linear(x.const_data_ptr<float>(), w.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                  kSize, kSize, kSize, precision);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2.0 * kSize * kSize * kSize / best;
}

double peak_rss_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace smelt::train
