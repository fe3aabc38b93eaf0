#include "smelt/train/stepper.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "smelt/core/hash.h"
#include "smelt/train/schedule.h"

namespace smelt::train {
namespace {

model::Decoder with_execution(model::Decoder decoder, const TrainOptions& options) {
  decoder.precision = options.precision;
  decoder.recompute = options.recompute;
  return decoder;
}

model::NamedTensors trainable(const model::Decoder& decoder) {
  model::NamedTensors parameters = model::named_parameters(decoder);
  for (auto& [name, tensor] : parameters) tensor.set_requires_grad(true);
  return parameters;
}

}  // namespace

Stepper::Stepper(const RunConfig& config, model::Decoder decoder, Moments moments,
                 data::RowStream rows)
    : config_(config),
      decoder_(with_execution(std::move(decoder), config.train)),
      rows_(std::move(rows)),
      optimizer_(config.train, trainable(decoder_), std::move(moments)) {}

std::vector<model::Batch> Stepper::read_batches(std::uint64_t first_row, std::string& fingerprint) {
  const auto length = static_cast<std::size_t>(config_.data.row_length);
  const auto micro = static_cast<std::size_t>(config_.micro_rows());
  const auto count = static_cast<std::size_t>(config_.train.rows);
  std::vector<std::int32_t> row_tokens(length), row_segments(length);
  std::vector<std::int64_t> tokens(micro * length), segments(micro * length);
  Hasher hasher;
  hasher.update(fingerprint);
  std::vector<model::Batch> batches;
  for (std::size_t r = 0; r < count; ++r) {
    rows_.row(first_row + r, row_tokens, row_segments);
    hasher.update(row_tokens.data(), length * sizeof(std::int32_t));
    hasher.update(row_segments.data(), length * sizeof(std::int32_t));
    const auto at = static_cast<std::ptrdiff_t>((r % micro) * length);
    std::copy(row_tokens.begin(), row_tokens.end(), tokens.begin() + at);
    std::copy(row_segments.begin(), row_segments.end(), segments.begin() + at);
    if (r % micro + 1 == micro) {
      batches.push_back(model::make_batch(tokens, segments, config_.micro_rows(),
                                          config_.data.row_length, config_.model.vocab_size));
    }
  }
  fingerprint = hasher.digest();
  return batches;
}

std::optional<StepRecord> Stepper::advance(TrainState& state, const std::function<bool()>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto start = Clock::now();
  StepRecord record;
  std::string fingerprint = state.data_fingerprint;
  const auto batches = read_batches(state.next_row, fingerprint);
  record.data_seconds = since(start);
  auto losses = accumulate_gradients(decoder_, batches, config_.router, stop);
  if (!losses) {
    optimizer_.clear_gradients();
    return std::nullopt;
  }
  record.losses = std::move(*losses);
  const auto update_start = Clock::now();
  record.lr = learning_rate(config_.train, state.step + 1);
  if (record.losses.failure.empty()) {
    record.update = optimizer_.step(record.lr, state.optimizer_updates + 1);
  } else {
    record.update = {std::nan(""), {record.losses.failure}};
  }
  optimizer_.clear_gradients();
  record.optimizer_seconds = since(update_start);

  state.step += 1;
  state.tokens += config_.tokens_per_step();
  state.next_row += static_cast<std::uint64_t>(config_.train.rows);
  state.data_fingerprint = fingerprint;
  if (record.update.skipped()) {
    state.skipped_steps += 1;
    state.skipped_in_a_row += 1;
  } else {
    state.optimizer_updates += 1;
    state.skipped_in_a_row = 0;
  }
  if (std::isfinite(record.losses.loss)) state.last_loss = record.losses.loss;
  record.seconds = since(start);
  state.seconds += record.seconds;
  return record;
}

}  // namespace smelt::train
