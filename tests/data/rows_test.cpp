// The data order: complete, repeatable, independent of state; segments; fingerprints; mean of
// attended positions.
#include "smelt/data/rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "helpers.h"

namespace smelt::data {
namespace {

/// How often each token id appears in rows [first, first + count).
std::map<std::int32_t, int> visits(RowStream& rows, std::uint64_t first, std::uint64_t count) {
  std::map<std::int32_t, int> seen;
  for (std::uint64_t i = first; i < first + count; ++i) {
    for (const std::int32_t id : rows.row(i).tokens) ++seen[id];
  }
  return seen;
}

TEST(Rows, AnEpochHoldsEveryTokenOnceWhenRowsDivideThePool) {
  TempFolder folder;
  std::vector<HandMade> documents = distinct_documents(60);
  std::size_t tokens = 0;
  for (const auto& document : documents) tokens += document.tokens.size() + 2;
  while (tokens % 16 != 14)
    documents.back().tokens.push_back(9000 + static_cast<std::int32_t>(tokens++));
  documents.push_back({});  // BOS EOS: now a multiple of 16
  const TokenStore store = make_store(folder / "s", documents, 20000);
  ASSERT_EQ(store.token_count() % 16, 0u);
  RowStream rows(store, Pool::kStable, 11, 16);
  EXPECT_EQ(rows.dropped_tokens_per_epoch(), 0u);
  const auto seen = visits(rows, 0, 3 * rows.rows_per_epoch());
  for (const auto& document : documents) {
    for (const std::int32_t id : document.tokens) EXPECT_EQ(seen.at(id), 3) << id;
  }
  EXPECT_EQ(seen.at(1), 3 * static_cast<int>(documents.size()));
  EXPECT_EQ(seen.at(2), 3 * static_cast<int>(documents.size()));
}

TEST(Rows, AnEpochRepeatsNothingAndDropsLessThanARow) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", distinct_documents(61), 20000);
  RowStream rows(store, Pool::kStable, 5, 32);
  ASSERT_GT(rows.dropped_tokens_per_epoch(), 0u);
  std::set<std::int32_t> ever;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    auto seen = visits(rows, epoch * rows.rows_per_epoch(), rows.rows_per_epoch());
    std::uint64_t total = 0;
    for (const auto& [id, count] : seen) {
      total += static_cast<std::uint64_t>(count);
      if (id > 2) {
        EXPECT_EQ(count, 1) << id;
        ever.insert(id);
      }
    }
    EXPECT_EQ(total + rows.dropped_tokens_per_epoch(), store.token_count());
  }
  std::uint64_t distinct = store.token_count() - 2 * store.documents().size();
  EXPECT_GT(ever.size(), distinct - 32);  // the tail is another one in each epoch
}

TEST(Rows, EpochsAndSeedsDiffer) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", distinct_documents(60), 20000);
  RowStream rows(store, Pool::kStable, 5, 32), other(store, Pool::kStable, 6, 32);
  EXPECT_NE(rows.row(0).tokens, rows.row(rows.rows_per_epoch()).tokens);
  EXPECT_NE(rows.row(0).tokens, other.row(0).tokens);
}

TEST(Rows, AnyRowCanBeReadFirstAndAfterReopening) {
  TempFolder folder;
  make_store(folder / "s", distinct_documents(60), 20000);
  RowStream straight(TokenStore::open(folder / "s"), Pool::kStable, 5, 32);
  std::vector<Row> all;
  const std::uint64_t count = 3 * straight.rows_per_epoch();
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(straight.row(i));
  RowStream backwards(TokenStore::open(folder / "s"), Pool::kStable, 5, 32);
  for (std::uint64_t i = count; i-- > 0;) {
    const Row row = backwards.row(i);
    EXPECT_EQ(row.tokens, all[i].tokens);
    EXPECT_EQ(row.segments, all[i].segments);
  }
}

TEST(Rows, SegmentsFollowDocumentsAndStartAgainAtARowEdge) {
  TempFolder folder;
  const auto documents = distinct_documents(60);
  const TokenStore store = make_store(folder / "s", documents, 20000);
  std::map<std::int32_t, int> document_of;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    for (const std::int32_t id : documents[d].tokens) document_of[id] = static_cast<int>(d);
  }
  RowStream rows(store, Pool::kStable, 5, 32);
  for (std::uint64_t i = 0; i < rows.rows_per_epoch(); ++i) {
    const Row row = rows.row(i);
    EXPECT_EQ(row.segments.front(), 0);
    for (std::size_t j = 1; j < row.tokens.size(); ++j) {
      const bool starts = row.tokens[j] == 1;  // BOS
      EXPECT_EQ(row.segments[j], row.segments[j - 1] + (starts ? 1 : 0));
      if (row.tokens[j] > 2 && row.tokens[j - 1] > 2) {
        EXPECT_EQ(document_of[row.tokens[j]], document_of[row.tokens[j - 1]]);
      }
    }
  }
}

TEST(Rows, ADocumentLongerThanARowFillsRowsOfOneSegment) {
  TempFolder folder;
  HandMade document;
  for (std::int32_t i = 0; i < 98; ++i) document.tokens.push_back(3 + i);
  const TokenStore store = make_store(folder / "s", {document});
  RowStream rows(store, Pool::kStable, 1, 20);
  ASSERT_EQ(rows.rows_per_epoch(), 5u);
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(rows.row(i).segments, std::vector<std::int32_t>(20, 0));
  }
}

TEST(Rows, ShortestDocumentsAreSegmentsOfTwo) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", std::vector<HandMade>(40));
  RowStream rows(store, Pool::kStable, 1, 6);
  EXPECT_EQ(rows.row(3).tokens, (std::vector<std::int32_t>{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(rows.row(3).segments, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2}));
}

TEST(Rows, PoolsAreDisjoint) {
  TempFolder folder;
  auto documents = distinct_documents(60);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    documents[i].pool = i % 3 == 0 ? Pool::kDecay : i % 7 == 0 ? Pool::kValidation : Pool::kStable;
  }
  const TokenStore store = make_store(folder / "s", documents, 20000);
  RowStream stable(store, Pool::kStable, 5, 16), decay(store, Pool::kDecay, 5, 16);
  const auto a = visits(stable, 0, stable.rows_per_epoch()),
             b = visits(decay, 0, decay.rows_per_epoch());
  for (const auto& [id, count] : a) EXPECT_TRUE(id <= 2 || !b.contains(id)) << id;
}

TEST(Rows, FingerprintsTellOrdersApart) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", distinct_documents(60), 20000);
  RowStream a(store, Pool::kStable, 5, 32), same(store, Pool::kStable, 5, 32),
      seed(store, Pool::kStable, 6, 32), length(store, Pool::kStable, 5, 16);
  EXPECT_EQ(a.order_fingerprint(), same.order_fingerprint());
  EXPECT_NE(a.order_fingerprint(), seed.order_fingerprint());
  EXPECT_NE(a.order_fingerprint(), length.order_fingerprint());
  same.row(40);  // state does not matter
  EXPECT_EQ(a.fingerprint(0, 10), same.fingerprint(0, 10));
  EXPECT_NE(a.fingerprint(0, 10), a.fingerprint(0, 11));
  EXPECT_NE(a.fingerprint(0, 10), a.fingerprint(1, 10));
}

TEST(Rows, TheOrderIsPinned) {
  // Runs on other machines and of later versions must read the same rows; expected from
  // rows_reference.py.
  TempFolder folder;
  const TokenStore store =
      make_store(folder / "s", {{{3, 4, 5}}, {{6}}, {{7, 8}}, {{9, 10, 11, 12}}, {{}}});
  RowStream rows(store, Pool::kStable, 42, 5);
  std::string text;
  for (std::uint64_t i = 0; i < 2 * rows.rows_per_epoch(); ++i) {
    for (const auto id : rows.row(i).tokens) text += std::to_string(id) + " ";
    text += "| ";
  }
  EXPECT_EQ(text,
            "1 2 1 6 2 | 3 4 5 2 1 | 1 7 8 2 1 | 9 10 11 12 2 | 2 1 7 8 2 | 1 3 4 5 2 | 1 6 2 1 2 "
            "| 1 9 10 11 12 | ");
}

TEST(Rows, RefusesAPoolSmallerThanARow) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", {{{3}}});
  EXPECT_EQ(error_of([&] { RowStream(store, Pool::kStable, 1, 4); }),
            "[data] pool \"stable\" holds 3 tokens, less than one row of 4 (" +
                (folder / "s").string() + ")");
  EXPECT_NE(error_of([&] { RowStream(store, Pool::kDecay, 1, 4); }).find("holds 0 tokens"),
            std::string::npos);
  EXPECT_NE(error_of([&] { RowStream(store, Pool::kStable, 1, 1); }).find("at least 2"),
            std::string::npos);
}

TEST(MeanAttended, IsTheAverageOverAllPhases) {
  // By hand: every place p = 0 … R-1 where a document of 23 tokens can begin in a row of 8, pieces
  // summed.
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", {{std::vector<std::int32_t>(21, 3)}});
  double pairs = 0;
  for (int phase = 0; phase < 8; ++phase) {
    int left = 23, room = 8 - phase;
    while (left > 0) {
      const int piece = std::min(left, room);
      pairs += piece * (piece + 1) / 2.0;
      left -= piece;
      room = 8;
    }
  }
  EXPECT_NEAR(mean_attended(store, Pool::kStable, 8), pairs / 8 / 23, 1e-12);
}

TEST(MeanAttended, IsCloseToWhatAnEpochHolds) {
  TempFolder folder;
  std::vector<HandMade> documents;
  for (int d = 0; d < 4000; ++d)
    documents.push_back({std::vector<std::int32_t>(static_cast<std::size_t>((d * 37) % 211), 3)});
  const TokenStore store = make_store(folder / "s", documents);
  RowStream rows(store, Pool::kStable, 3, 64);
  double pairs = 0, tokens = 0;
  for (std::uint64_t i = 0; i < rows.rows_per_epoch(); ++i) {
    const Row row = rows.row(i);
    int run = 0;
    for (std::size_t j = 0; j < row.segments.size(); ++j) {
      run = j > 0 && row.segments[j] == row.segments[j - 1] ? run + 1 : 1;
      pairs += run;
      tokens += 1;
    }
  }
  const double expected = mean_attended(store, Pool::kStable, 64);
  EXPECT_NEAR(pairs / tokens, expected, 0.005 * expected);
  EXPECT_DOUBLE_EQ(mean_attended(store, 64), expected);
}

TEST(MeanAttended, RefusesAnEmptyPool) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", {{{3}}});
  EXPECT_NE(
      error_of([&] { mean_attended(store, Pool::kDecay, 64); }).find("pool \"decay\" is empty"),
      std::string::npos);
}

}  // namespace
}  // namespace smelt::data
