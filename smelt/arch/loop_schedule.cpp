#include "smelt/arch/loop_schedule.h"

namespace smelt::arch {

LoopSchedule make_schedule(const ModelConfig& config) {
  LoopSchedule schedule;
  const auto run = [&schedule](std::int64_t first, std::int64_t last, std::int64_t visit,
                               double scale) {
    for (std::int64_t layer = first; layer <= last; ++layer)
      schedule.push_back({layer, visit, scale});
  };
  if (!config.loop) {
    run(0, config.num_hidden_layers - 1, 1, 1.0);
    return schedule;
  }
  const Loop& loop = *config.loop;
  run(0, loop.first - 2, 1, 1.0);
  for (std::int64_t visit = 1; visit <= loop.visits; ++visit) {
    run(loop.first - 1, loop.last - 1, visit, loop.residual_scale);
  }
  run(loop.last, config.num_hidden_layers - 1, 1, 1.0);
  return schedule;
}

}  // namespace smelt::arch
