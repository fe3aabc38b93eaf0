// A micro-batch of packed documents: rows of equal length, each a sequence of whole or cut
// documents.
//
// A piece is a maximal run of equal neighbouring segment ids in one row: a document of its own,
// with positions from 0, that sees nothing outside itself.  Position t predicts token t + 1 of the
// same piece; the last position of a piece has no target.
//
//   Batch batch = make_batch(tokens, segment_ids, rows, row_length, config.vocab_size);
//   Forward out = forward(decoder, batch);
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <vector>

namespace smelt::model {

/// Target of a position that predicts nothing.
inline constexpr std::int64_t kMasked = -1;

/// Positions begin … begin + length - 1 of the flattened batch: one document, or the part of it in
/// a row.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t length = 0;

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// N = rows · row_length positions, row after row.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t row_length = 0;
  at::Tensor tokens;                  // [N] int64
  at::Tensor positions;               // [N] int64, in the document, from 0
  at::Tensor targets;                 // [N] int64, kMasked where there is none
  std::vector<Piece> pieces;          // ascending, disjoint, cover [0, N)
  std::int64_t target_count = 0;      // unmasked targets
  std::vector<std::int32_t> domains;  // [N], domain of each token's document; or empty
  std::int32_t domain_count = 0;

  std::int64_t size() const { return rows * row_length; }
};

/// Lays out `rows` rows of `row_length` tokens.  Throws Error that names row and position when a
/// token id is outside [0, vocab_size), and when the sizes do not agree.
Batch make_batch(std::span<const std::int64_t> tokens, std::span<const std::int64_t> segment_ids,
                 std::int64_t rows, std::int64_t row_length, std::int64_t vocab_size);

/// One document as a batch of one row.
Batch make_batch(std::span<const std::int64_t> document, std::int64_t vocab_size);

}  // namespace smelt::model
