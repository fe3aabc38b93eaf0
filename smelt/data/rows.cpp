#include "smelt/data/rows.h"

#include <algorithm>
#include <limits>

#include "smelt/core/error.h"
#include "smelt/core/hash.h"
#include "smelt/core/philox.h"

namespace smelt::data {
namespace {

constexpr std::uint64_t kNoEpoch = std::numeric_limits<std::uint64_t>::max();

}  // namespace

RowStream::RowStream(TokenStore store, Pool pool, std::uint64_t seed, std::int64_t row_length)
    : store_(std::move(store)),
      pool_(pool),
      seed_(seed),
      row_length_(row_length),
      epoch_(kNoEpoch) {
  if (row_length < 2) {
    throw Error("data", "row length must be at least 2, got " + std::to_string(row_length));
  }
  const std::uint64_t tokens = store_.token_count(pool);
  rows_per_epoch_ = tokens / static_cast<std::uint64_t>(row_length);
  const std::string where = store_.folder().string();
  if (rows_per_epoch_ == 0) {
    throw Error("data",
                std::string("pool \"") + enum_name(pool) + "\" holds " + std::to_string(tokens) +
                    " tokens, less than one row of " + std::to_string(row_length),
                where);
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (rows_per_epoch_ > kMost || store_.documents_of(pool).size() > kMost) {
    throw Error("data", "a pool may hold at most 2^32 - 1 rows and documents", where);
  }
}

std::uint64_t RowStream::dropped_tokens_per_epoch() const {
  return store_.token_count(pool_) % static_cast<std::uint64_t>(row_length_);
}

void RowStream::load_epoch(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  const auto& documents = store_.documents_of(pool_);
  const std::string name = std::string(enum_name(pool_)) + "/" + std::to_string(epoch);
  document_order_ =
      Philox(seed_, "documents/" + name).permutation(static_cast<std::uint32_t>(documents.size()));
  row_order_ =
      Philox(seed_, "rows/" + name).permutation(static_cast<std::uint32_t>(rows_per_epoch_));
  starts_.assign(documents.size() + 1, 0);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    starts_[i + 1] = starts_[i] + store_.documents()[documents[document_order_[i]]].length;
  }
  epoch_ = epoch;
}

Row RowStream::row(std::uint64_t i) {
  Row row;
  row.tokens.resize(static_cast<std::size_t>(row_length_));
  row.segments.resize(static_cast<std::size_t>(row_length_));
  this->row(i, row.tokens, row.segments);
  return row;
}

void RowStream::row(std::uint64_t i, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> segments, std::span<std::int32_t> domains) {
  const auto length = static_cast<std::uint64_t>(row_length_);
  if (tokens.size() != length || segments.size() != length ||
      (!domains.empty() && domains.size() != length)) {
    throw Error("data", "a row needs room for " + std::to_string(length) + " tokens and segments");
  }
  load_epoch(i / rows_per_epoch_);
  const std::uint64_t first = row_order_[i % rows_per_epoch_] * length;
  // The last document that begins at or before the row.
  std::size_t position = static_cast<std::size_t>(
      std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1);
  std::int32_t segment = 0;
  for (std::uint64_t filled = 0; filled < length; ++position, ++segment) {
    const DocumentRecord& record =
        store_.documents()[store_.documents_of(pool_)[document_order_[position]]];
    const std::uint64_t skipped = first + filled - starts_[position];
    const std::uint64_t count = std::min(record.length - skipped, length - filled);
    store_.copy_tokens(record.offset + skipped, tokens.subspan(filled, count));
    std::fill_n(segments.begin() + static_cast<std::ptrdiff_t>(filled), count, segment);
    if (!domains.empty()) {
      std::fill_n(domains.begin() + static_cast<std::ptrdiff_t>(filled), count,
                  static_cast<std::int32_t>(record.domain));
    }
    filled += count;
  }
}

std::string RowStream::fingerprint(std::uint64_t first, std::uint64_t count) {
  Hasher hasher;
  hasher.update(order_fingerprint());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(row_length_)), segments(tokens.size());
  for (std::uint64_t i = first; i < first + count; ++i) {
    row(i, tokens, segments);
    hasher.update(tokens.data(), tokens.size() * sizeof(std::int32_t));
    hasher.update(segments.data(), segments.size() * sizeof(std::int32_t));
  }
  return hasher.digest();
}

std::string RowStream::order_fingerprint() const {
  return hash_text("smelt.rows/1 " + store_.fingerprint() + " " + enum_name(pool_) + " " +
                   std::to_string(seed_) + " " + std::to_string(row_length_));
}

namespace {

struct AttendedSums {
  double pairs = 0;   // E[Σ n(n+1)/2]
  double tokens = 0;  // Σ n
};

/// Closed form of Σ_{d < m} (L - d)(R - d)/R with m = min(L, R).
AttendedSums attended_sums(const TokenStore& store, Pool pool, std::int64_t row_length) {
  if (row_length < 1)
    throw Error("data", "row length must be at least 1, got " + std::to_string(row_length));
  AttendedSums sums;
  const double R = static_cast<double>(row_length);
  for (const std::uint64_t document : store.documents_of(pool)) {
    const double L = static_cast<double>(store.documents()[document].length);
    const double m = std::min(L, R);
    sums.pairs += m * L - (L + R) * m * (m - 1) / (2 * R) + (m - 1) * m * (2 * m - 1) / (6 * R);
    sums.tokens += L;
  }
  return sums;
}

double ratio(const AttendedSums& sums, const TokenStore& store, const std::string& what) {
  if (sums.tokens == 0) throw Error("data", what + " is empty", store.folder().string());
  return sums.pairs / sums.tokens;
}

}  // namespace

double mean_attended(const TokenStore& store, Pool pool, std::int64_t row_length) {
  return ratio(attended_sums(store, pool, row_length), store,
               std::string("pool \"") + enum_name(pool) + "\"");
}

double mean_attended(const TokenStore& store, std::int64_t row_length) {
  AttendedSums sums = attended_sums(store, Pool::kStable, row_length);
  const AttendedSums decay = attended_sums(store, Pool::kDecay, row_length);
  sums.pairs += decay.pairs;
  sums.tokens += decay.tokens;
  return ratio(sums, store, "the training text");
}

}  // namespace smelt::data
