#include "smelt/model/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "smelt/core/error.h"

namespace smelt::model {

Batch make_batch(std::span<const std::int64_t> tokens, std::span<const std::int64_t> segment_ids,
                 std::int64_t rows, std::int64_t row_length, std::int64_t vocab_size) {
  if (rows < 1 || row_length < 1) {
    throw Error("model", fmt::format("a batch needs at least one row and one token per row, got "
                                     "{} rows of {}",
                                     rows, row_length));
  }
  const std::int64_t size = rows * row_length;
  if (static_cast<std::int64_t>(tokens.size()) != size ||
      static_cast<std::int64_t>(segment_ids.size()) != size) {
    throw Error("model", fmt::format("{} rows of {} need {} tokens and segment ids, got {} and {}",
                                     rows, row_length, size, tokens.size(), segment_ids.size()));
  }
  Batch batch;
  batch.rows = rows;
  batch.row_length = row_length;
  const auto options = at::TensorOptions().dtype(at::kLong);
  batch.tokens = at::empty({size}, options);
  batch.positions = at::empty({size}, options);
  batch.targets = at::empty({size}, options);
  auto* ids = batch.tokens.mutable_data_ptr<std::int64_t>();
  auto* positions = batch.positions.mutable_data_ptr<std::int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (tokens[at] < 0 || tokens[at] >= vocab_size) {
      throw Error("model", fmt::format("token id {} is outside the vocabulary of {} (row {}, "
                                       "position {})",
                                       tokens[at], vocab_size, i / row_length, i % row_length));
    }
    const bool starts = i % row_length == 0 || segment_ids[at] != segment_ids[at - 1];
    if (starts) batch.pieces.push_back({i, 0});
    const std::int64_t position = batch.pieces.back().length++;
    ids[i] = tokens[at];
    positions[i] = position;
    targets[i] = kMasked;
    if (!starts) {
      targets[i - 1] = tokens[at];
      ++batch.target_count;
    }
  }
  return batch;
}

Batch make_batch(std::span<const std::int64_t> document, std::int64_t vocab_size) {
  const std::vector<std::int64_t> segments(document.size(), 0);
  return make_batch(document, segments, 1, static_cast<std::int64_t>(document.size()), vocab_size);
}

}  // namespace smelt::model
