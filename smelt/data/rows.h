// The data order: which tokens row i of training holds.  A pure function of (store, pool, seed, row
// length, i): nothing to save, the same at any batch size, world size or point of resumption.
//
// Epoch e = i / rows_per_epoch: the pool's documents are permuted by Philox(seed,
// "documents/<pool>/<e>"), joined and cut into rows (the tail shorter than a row is left out in
// that epoch), and the rows are permuted by Philox(seed, "rows/<pool>/<e>").  A document that goes
// on in the next row is a document of its own there.
//
//   RowStream rows(store, Pool::kStable, seed, 512);
//   Row row = rows.row(step * rows_per_step + r);   // tokens and segments, 512 each
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "smelt/data/token_store.h"

namespace smelt::data {

struct Row {
  std::vector<std::int32_t> tokens;  // [row_length]
  std::vector<std::int32_t>
      segments;  // [row_length]; 0, 0, 1, 1, 1, …: position j attends to i <= j of its segment
};

/// Keeps the current epoch's order in memory, so one object serves one thread at a time; copies are
/// free to differ.
class RowStream {
 public:
  /// Throws Error when the pool holds less than one row.
  RowStream(TokenStore store, Pool pool, std::uint64_t seed, std::int64_t row_length);

  /// Row `i` counted over all epochs.
  Row row(std::uint64_t i);
  /// The same into [row_length] buffers of the caller; `domains`, if given, receives each token's
  /// domain (index into store().domains()).
  void row(std::uint64_t i, std::span<std::int32_t> tokens, std::span<std::int32_t> segments,
           std::span<std::int32_t> domains = {});

  std::uint64_t rows_per_epoch() const { return rows_per_epoch_; }
  /// Tokens that an epoch leaves out at its end (less than a row).
  std::uint64_t dropped_tokens_per_epoch() const;
  std::int64_t row_length() const { return row_length_; }
  const TokenStore& store() const { return store_; }
  Pool pool() const { return pool_; }
  std::uint64_t seed() const { return seed_; }

  /// Hash of the tokens and segments of rows [first, first + count) with store, pool and seed: what
  /// a run read.
  std::string fingerprint(std::uint64_t first, std::uint64_t count);
  /// Names the order without reading it: hash of store fingerprint, pool, seed and row length.
  std::string order_fingerprint() const;

 private:
  void load_epoch(std::uint64_t epoch);

  TokenStore store_;
  Pool pool_;
  std::uint64_t seed_;
  std::int64_t row_length_;
  std::uint64_t rows_per_epoch_ = 0;
  std::uint64_t epoch_;  // whose order is loaded
  std::vector<std::uint32_t>
      document_order_;  // position in the epoch → index into documents_of(pool)
  std::vector<std::uint64_t>
      starts_;  // first token of each position in the epoch's stream, and the end
  std::vector<std::uint32_t> row_order_;
};

/// Number of positions a token attends to, averaged over the pieces of the pool's documents:
/// t̄ = Σ n(n+1)/2 ÷ Σ n, its expectation when a row edge falls anywhere in a document with equal
/// chance, so it depends on no seed (the mean over one epoch's rows differs by well under 1 %). Two
/// positions at distance d share a row of R with chance 1 - d/R: E[Σ n(n+1)/2] = Σ_{d < min(L, R)}
/// (L - d)(R - d)/R for a document of L tokens.
double mean_attended(const TokenStore& store, Pool pool, std::int64_t row_length);
/// Over all training documents (stable and decay).
double mean_attended(const TokenStore& store, std::int64_t row_length);

}  // namespace smelt::data
