// Evaluation pieces: every target once, BOS in front, cut documents marked.
#include "smelt/data/windows.h"

#include <algorithm>

#include "helpers.h"

namespace smelt::data {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(Windows, AShortDocumentIsOnePiece) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", {{{3, 4, 5}}, {{}}});
  const auto pieces = evaluation_pieces(store, 0, 5);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].tokens, (Tokens{1, 3, 4, 5, 2}));
  EXPECT_EQ(pieces[0].targets(), 4);
  EXPECT_FALSE(pieces[0].cut);
  const auto empty = evaluation_pieces(store, 1, 5);
  ASSERT_EQ(empty.size(), 1u);
  EXPECT_EQ(empty[0].tokens, (Tokens{1, 2}));
}

TEST(Windows, ALongDocumentIsCutWithBosInFront) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", {{{9}}, {{3, 4, 5, 6, 7, 8}}});
  const auto pieces = evaluation_pieces(store, 1, 4);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].tokens, (Tokens{1, 3, 4, 5}));
  EXPECT_EQ(pieces[1].tokens, (Tokens{1, 6, 7, 8}));
  EXPECT_EQ(pieces[2].tokens, (Tokens{1, 2}));  // EOS is scored at the end
  for (const auto& piece : pieces) {
    EXPECT_TRUE(piece.cut);
    EXPECT_EQ(piece.document, 1u);
  }
}

TEST(Windows, EveryTargetOnceAtAnyWindow) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", distinct_documents(40), 20000);
  std::vector<std::uint64_t> all(40);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (const std::int64_t window : {2, 3, 7, 39, 40, 41, 1000}) {
    Tokens targets, expected;
    for (const auto& piece : evaluation_pieces(store, all, window)) {
      EXPECT_LE(piece.tokens.size(), static_cast<std::size_t>(window));
      EXPECT_EQ(piece.tokens.front(), 1);
      targets.insert(targets.end(), piece.tokens.begin() + 1, piece.tokens.end());
    }
    for (const std::uint64_t d : all) {
      const Tokens tokens = store.document_tokens(d);
      expected.insert(expected.end(), tokens.begin() + 1, tokens.end());
    }
    EXPECT_EQ(targets, expected) << window;
  }
  EXPECT_NE(error_of([&] { evaluation_pieces(store, 0, 1); }).find("at least 2, got 1"),
            std::string::npos);
}

TEST(Windows, PackingKeepsEveryPieceWhole) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", distinct_documents(60), 20000);
  std::vector<std::uint64_t> all(60);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto pieces = evaluation_pieces(store, all, 32);
  const auto rows = pack_pieces(pieces, 32);
  std::vector<std::size_t> used;
  std::size_t tokens = 0;
  for (const auto& row : rows) {
    std::size_t length = 0;
    for (const std::size_t i : row) length += pieces[i].tokens.size();
    EXPECT_LE(length, 32u);
    tokens += length;
    used.insert(used.end(), row.begin(), row.end());
  }
  std::sort(used.begin(), used.end());
  ASSERT_EQ(used.size(), pieces.size());
  for (std::size_t i = 0; i < used.size(); ++i) EXPECT_EQ(used[i], i);
  EXPECT_LT(rows.size() * 32, tokens * 12 / 10);  // little is wasted
  EXPECT_NE(error_of([&] { pack_pieces(pieces, 8); }).find("does not fit in a row of 8"),
            std::string::npos);
}

}  // namespace
}  // namespace smelt::data
