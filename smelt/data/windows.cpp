#include "smelt/data/windows.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>

#include "smelt/core/error.h"

namespace smelt::data {

std::vector<EvaluationPiece> evaluation_pieces(const TokenStore& store, std::uint64_t document,
                                               std::int64_t window) {
  if (window < 2) throw Error("data", "window must be at least 2, got " + std::to_string(window));
  const std::vector<std::int32_t> tokens = store.document_tokens(document);
  const auto most = static_cast<std::size_t>(window - 1);  // targets of a piece
  const std::size_t targets = tokens.size() - 1;           // all but BOS
  std::vector<EvaluationPiece> pieces;
  for (std::size_t first = 1; first <= targets; first += most) {
    const std::size_t end = std::min(first + most, targets + 1);
    EvaluationPiece piece;
    piece.document = document;
    piece.cut = targets > most;
    piece.tokens.reserve(end - first + 1);
    piece.tokens.push_back(tokens.front());
    piece.tokens.insert(piece.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::vector<EvaluationPiece> evaluation_pieces(const TokenStore& store,
                                               std::span<const std::uint64_t> documents,
                                               std::int64_t window) {
  std::vector<EvaluationPiece> all;
  for (const std::uint64_t document : documents) {
    auto pieces = evaluation_pieces(store, document, window);
    std::move(pieces.begin(), pieces.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<std::vector<std::size_t>> pack_pieces(std::span<const EvaluationPiece> pieces,
                                                  std::int64_t row_length) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return pieces[a].tokens.size() > pieces[b].tokens.size();
  });
  std::vector<std::vector<std::size_t>> rows;
  std::multimap<std::size_t, std::size_t> room;  // free tokens → row; best fit
  for (const std::size_t i : order) {
    const std::size_t size = pieces[i].tokens.size();
    if (size > static_cast<std::size_t>(std::max<std::int64_t>(row_length, 0))) {
      throw Error("data", "a piece of " + std::to_string(size) +
                              " tokens does not fit in a row of " + std::to_string(row_length));
    }
    const auto found = room.lower_bound(size);
    std::size_t row = rows.size(), left = static_cast<std::size_t>(row_length);
    if (found != room.end()) {
      left = found->first;
      row = found->second;
      room.erase(found);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(i);
    room.emplace(left - size, row);
  }
  return rows;
}

}  // namespace smelt::data
