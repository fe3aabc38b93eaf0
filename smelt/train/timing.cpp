// Times steps of a geometry: the same Stepper as a run, nothing written.
#include <algorithm>
#include <optional>

#include "smelt/model/weights.h"
#include "smelt/plan/memory.h"
#include "smelt/train/process.h"
#include "smelt/train/run.h"
#include "smelt/train/speed.h"
#include "smelt/train/stepper.h"

namespace smelt::train {
namespace {

constexpr std::int64_t kWarmupSteps = 2;

/// What smelt plan says of the same step.
double planned_bytes(const RunConfig& config) {
  const std::int64_t rows = config.train.rows;
  const std::int64_t at_once = config.train.micro_rows > 0 ? config.train.micro_rows : rows;
  return plan::training_memory(config.model,
                               {.tokens = static_cast<double>(at_once * config.data.row_length),
                                .recompute = config.train.recompute,
                                .accumulates = at_once < rows})
      .total();
}

}  // namespace

StepTiming time_steps(const RunConfig& config, std::int64_t steps, const Callbacks& callbacks,
                      const std::filesystem::path& trace) {
  if (steps < 1) throw Error("train", "time at least one step, got " + std::to_string(steps));
  data::RowStream rows = open_rows(config);
  const ProcessSettings settings(config.threads);
  model::Decoder decoder = model::init_decoder(config.model, config.seed, config.train.init_std);
  Moments moments = zero_moments(model::named_parameters(decoder));
  Stepper stepper(config, std::move(decoder), std::move(moments), std::move(rows));
  TrainState state;
  state.next_row = config.data.first_row;
  StepTiming timing;
  std::vector<double> seconds;
  double sum = 0;
  std::optional<Profile> profile;
  for (std::int64_t i = 0; i < kWarmupSteps + steps; ++i) {
    if (i == kWarmupSteps && !trace.empty()) profile.emplace();
    const auto record = stepper.advance(state, callbacks.stop);
    if (!record) break;
    if (i < kWarmupSteps) continue;
    seconds.push_back(record->seconds);
    sum += record->seconds;
    timing.data_share += record->data_seconds;
    timing.forward_share += record->losses.forward_seconds;
    timing.backward_share += record->losses.backward_seconds;
    timing.optimizer_share += record->optimizer_seconds;
  }
  if (profile) timing.profile = profile->stop(trace);
  timing.steps = static_cast<std::int64_t>(seconds.size());
  timing.peak_rss_bytes = peak_rss_bytes();
  timing.planned_bytes = planned_bytes(config);
  if (seconds.empty()) return timing;
  for (double* share : {&timing.data_share, &timing.forward_share, &timing.backward_share,
                        &timing.optimizer_share}) {
    *share /= sum;
  }
  std::sort(seconds.begin(), seconds.end());
  const std::size_t half = seconds.size() / 2;
  timing.step_seconds =
      seconds.size() % 2 ? seconds[half] : 0.5 * (seconds[half - 1] + seconds[half]);
  timing.tokens_per_second = static_cast<double>(config.tokens_per_step()) / timing.step_seconds;
  return timing;
}

Json to_json(const StepTiming& timing) {
  Json json = {
      {"schema", "smelt.step-timing/1"},         {"steps", timing.steps},
      {"step_seconds", timing.step_seconds},     {"tokens_per_second", timing.tokens_per_second},
      {"peak_rss_bytes", timing.peak_rss_bytes}, {"planned_bytes", timing.planned_bytes},
      {"data_share", timing.data_share},         {"forward_share", timing.forward_share},
      {"backward_share", timing.backward_share}, {"optimizer_share", timing.optimizer_share}};
  for (const ProfileRow& row : timing.profile) {
    json["profile"].push_back({{"name", row.name}, {"seconds", row.seconds}, {"calls", row.calls}});
  }
  return json;
}

}  // namespace smelt::train
