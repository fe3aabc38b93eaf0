#include "smelt/train/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "smelt/core/error.h"
#include "smelt/core/hash.h"
#include "smelt/train/router_bias.h"
#include "smelt/train/schedule.h"

namespace smelt::train {
namespace {

model::Decoder with_execution(model::Decoder decoder, const TrainOptions& options) {
  decoder.precision = options.precision;
  decoder.recompute = options.recompute;
  return decoder;
}

double mean_attended(const std::vector<model::Batch>& batches) {
  double pairs = 0, tokens = 0;
  for (const model::Batch& batch : batches) {
    for (const model::Piece& piece : batch.pieces) {
      const auto n = static_cast<double>(piece.length);
      pairs += n * (n + 1) / 2;
      tokens += n;
    }
  }
  return pairs / tokens;
}

model::NamedTensors trainable(const model::Decoder& decoder) {
  model::NamedTensors parameters = model::named_parameters(decoder);
  for (auto& [name, tensor] : parameters) tensor.set_requires_grad(true);
  return parameters;
}

}  // namespace

Stepper::Stepper(const RunConfig& config, model::Decoder decoder, Moments moments,
                 data::RowStream rows, Collectives& ranks)
    : config_(config),
      decoder_(with_execution(std::move(decoder), config.train)),
      rows_(std::move(rows)),
      ranks_(&ranks),
      optimizer_(config.train, trainable(decoder_), std::move(moments), ranks) {
  if (config.router.balance == Balance::kBias) model::add_router_biases(decoder_);
  const std::int64_t own = config.train.rows / ranks.size();
  if (own * ranks.size() != config.train.rows || own % own_micro_rows() != 0) {
    throw Error(
        "train",
        fmt::format(
            "train.rows: expected a multiple of {} processes{}, got {}", ranks.size(),
            config.train.micro_rows ? fmt::format(" x micro_rows = {}", own_micro_rows()) : "",
            config.train.rows));
  }
}

std::int64_t Stepper::own_micro_rows() const {
  return config_.train.micro_rows ? config_.train.micro_rows
                                  : std::max<std::int64_t>(config_.train.rows / ranks_->size(), 1);
}

std::vector<model::Batch> Stepper::read_batches(std::uint64_t first_row, std::string& fingerprint) {
  RECORD_FUNCTION("smelt::data", {});
  const auto length = static_cast<std::size_t>(config_.data.row_length);
  const auto micro = static_cast<std::size_t>(own_micro_rows());
  const auto count = static_cast<std::size_t>(config_.train.rows);
  const std::size_t own = count / static_cast<std::size_t>(ranks_->size());
  const std::size_t own_first = own * static_cast<std::size_t>(ranks_->rank());
  std::vector<std::int32_t> row_tokens(length), row_segments(length), row_domains(length);
  std::vector<std::int64_t> tokens(micro * length), segments(micro * length);
  std::vector<std::int32_t> domains(micro * length);
  Hasher hasher;
  hasher.update(fingerprint);
  std::vector<model::Batch> batches;
  // Every rank reads the whole step: the fingerprint is the same at any number of them.
  for (std::size_t r = 0; r < count; ++r) {
    rows_.row(first_row + r, row_tokens, row_segments, row_domains);
    hasher.update(row_tokens.data(), length * sizeof(std::int32_t));
    hasher.update(row_segments.data(), length * sizeof(std::int32_t));
    if (r < own_first || r >= own_first + own) continue;
    const std::size_t in_batch = (r - own_first) % micro;
    const auto at = static_cast<std::ptrdiff_t>(in_batch * length);
    std::copy(row_tokens.begin(), row_tokens.end(), tokens.begin() + at);
    std::copy(row_segments.begin(), row_segments.end(), segments.begin() + at);
    std::copy(row_domains.begin(), row_domains.end(), domains.begin() + at);
    if (in_batch + 1 == micro) {
      batches.push_back(model::make_batch(tokens, segments, own_micro_rows(),
                                          config_.data.row_length, config_.model.vocab_size));
      batches.back().domains = domains;
      batches.back().domain_count = static_cast<std::int32_t>(rows_.store().domains().size());
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
  record.attended = mean_attended(batches);
  record.data_seconds = since(start);
  auto losses = accumulate_gradients(decoder_, batches, config_.router, stop, *ranks_);
  if (!losses) {
    optimizer_.clear_gradients();
    return std::nullopt;
  }
  record.losses = std::move(*losses);
  const auto update_start = Clock::now();
  record.lr = learning_rate(config_.train, state.step + 1);
  if (record.losses.failure.empty()) {
    record.update = optimizer_.step(record.lr, state.optimizer_updates + 1);
    if (!record.update.skipped())
      move_router_biases(decoder_, record.losses.counts, config_.router);
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
