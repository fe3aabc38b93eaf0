// Evaluation pieces: a document cut so that a model sees no more than the window it was trained
// with.
//
// A document BOS t1 … tn EOS has n + 1 scored targets (t1 … tn, EOS).  A document longer than the
// window of W tokens is cut into pieces of at most W tokens, each BOS and then up to W - 1 targets;
// every target is scored exactly once.
//
//   for (const EvaluationPiece& piece : evaluation_pieces(store, document, 512))
//   score(piece.tokens);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smelt/data/token_store.h"

namespace smelt::data {

struct EvaluationPiece {
  std::uint64_t document = 0;  // index into store.documents()
  std::vector<std::int32_t>
      tokens;        // BOS first; tokens[1 …] are the targets, predicted from what is before
  bool cut = false;  // the document is longer than the window

  std::int64_t targets() const { return static_cast<std::int64_t>(tokens.size()) - 1; }
};

/// `window` W >= 2 counts BOS.  Throws Error for a smaller one.
std::vector<EvaluationPiece> evaluation_pieces(const TokenStore& store, std::uint64_t document,
                                               std::int64_t window);
/// The same for several documents, in order.
std::vector<EvaluationPiece> evaluation_pieces(const TokenStore& store,
                                               std::span<const std::uint64_t> documents,
                                               std::int64_t window);

/// Rows that hold several whole pieces each, at most `row_length` tokens, longest first: indices
/// into `pieces`. Segment masks keep them apart, so packing changes no number.
std::vector<std::vector<std::size_t>> pack_pieces(std::span<const EvaluationPiece> pieces,
                                                  std::int64_t row_length);

}  // namespace smelt::data
