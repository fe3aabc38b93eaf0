// The store on disk: widths of ids, what opening and verify() notice, and what a failed writer
// leaves.
#include "smelt/data/token_store.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

#include "helpers.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;

/// Overwrites one byte.
void poke(const fs::path& file, std::size_t offset, char value) {
  std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
  io.seekp(static_cast<std::streamoff>(offset));
  io.put(value);
}

TEST(TokenStore, KeepsDocumentsAndPools) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", {{{}, Pool::kStable},
                                                     {{5, 6, 7}, Pool::kValidation},
                                                     {{8}, Pool::kStable},
                                                     {{9, 9}, Pool::kDecay}});
  EXPECT_EQ(store.document_tokens(0),
            (std::vector<std::int32_t>{1, 2}));  // an empty first document
  EXPECT_EQ(store.document_tokens(1), (std::vector<std::int32_t>{1, 5, 6, 7, 2}));
  EXPECT_EQ(store.documents_of(Pool::kStable), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(store.documents_of(Pool::kTuning), std::vector<std::uint64_t>{});
  EXPECT_EQ(store.token_count(), 2u + 5 + 3 + 4);
  EXPECT_EQ(store.token_count(Pool::kStable), 5u);
  EXPECT_EQ(store.manifest()["counts"]["pools"]["validation"]["tokens"], 5);
  EXPECT_NO_THROW(store.verify());
  EXPECT_NE(error_of([&] { store.document_tokens(4); }).find("no document 4 among 4"),
            std::string::npos);
}

TEST(TokenStore, SumOfLengthsIsWhatIsOnDisk) {
  TempFolder folder;
  const TokenStore store = make_store(folder / "s", distinct_documents(30));
  std::uint64_t sum = 0;
  for (const auto& record : store.documents()) sum += record.length;
  EXPECT_EQ(sum * 2, fs::file_size(folder / "s/tokens.bin"));
}

TEST(TokenStore, PicksTheWidthFromTheVocabulary) {
  for (const std::int64_t vocab : {65535, 65536, 65537}) {
    TempFolder folder;
    const auto top = static_cast<std::int32_t>(vocab - 1);
    const TokenStore store = make_store(folder / "s", {{{top, 3}}}, vocab);
    EXPECT_EQ(store.manifest()["dtype"], vocab > 65536 ? "u32" : "u16");
    EXPECT_EQ(fs::file_size(folder / "s/tokens.bin"), vocab > 65536 ? 16u : 8u);
    EXPECT_EQ(store.document_tokens(0), (std::vector<std::int32_t>{1, top, 3, 2}));
    EXPECT_NO_THROW(store.verify());
    const std::string text = error_of([&] { make_store(folder / "t", {{{top + 1}}}, vocab); });
    EXPECT_NE(
        text.find("token id " + std::to_string(vocab) + " of document 0 is outside the vocabulary"),
        std::string::npos)
        << text;
    EXPECT_FALSE(fs::exists(folder / "t"));
  }
}

TEST(TokenStore, RefusesAnEmptyStoreAndLeavesNothing) {
  TempFolder folder;
  EXPECT_NE(error_of([&] { make_store(folder / "s", {}); }).find("no documents to store"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(TokenStore, RemovesLeftoversOfDeadWriters) {
  TempFolder folder;
  fs::create_directories(folder / "s.partial-999999999");
  fs::create_directories(folder / "s.partial-mine");
  make_store(folder / "s", {{{3}}});
  EXPECT_FALSE(fs::exists(folder / "s.partial-999999999"));
  EXPECT_TRUE(fs::exists(folder / "s.partial-mine"));
}

TEST(TokenStore, FingerprintFollowsTheContent) {
  TempFolder folder;
  const auto fingerprint = [&](const std::vector<HandMade>& documents) {
    return make_store(folder / "s", documents).fingerprint();
  };
  const std::string first = fingerprint({{{3, 4}}});
  EXPECT_EQ(first, fingerprint({{{3, 4}}}));
  EXPECT_NE(first, fingerprint({{{3, 5}}}));
  EXPECT_NE(first, fingerprint({{{3, 4}, Pool::kDecay}}));
}

TEST(TokenStore, OpeningNoticesWhatIsMissingOrCut) {
  TempFolder folder;
  EXPECT_NE(error_of([&] { TokenStore::open(folder / "gone"); }).find("no token store here"),
            std::string::npos);
  EXPECT_NE(error_of([&] { TokenStore::open(folder.path()); }).find("it has no manifest.json"),
            std::string::npos);
  make_store(folder / "s", distinct_documents(9));
  const auto tokens = folder / "s/tokens.bin";
  const auto size = fs::file_size(tokens);
  fs::resize_file(tokens, size - 1);
  EXPECT_EQ(error_of([&] { TokenStore::open(folder / "s"); }),
            "[data] expected " + std::to_string(size) + " bytes, found " +
                std::to_string(size - 1) + " (" + tokens.string() + ")");
  fs::remove(tokens);
  EXPECT_NE(error_of([&] { TokenStore::open(folder / "s"); }).find("No such file"),
            std::string::npos);
}

TEST(TokenStore, OpeningChecksTheManifest) {
  TempFolder folder;
  make_store(folder / "s", {{{3}}});
  const auto file = folder / "s/manifest.json";
  const Json good = Json::parse(slurp(file));
  const auto with = [&](const char* key, const Json& value) {
    Json changed = good;
    changed[key] = value;
    folder.write("s/manifest.json", changed.dump());
    return error_of([&] { TokenStore::open(folder / "s"); });
  };
  EXPECT_NE(with("schema", "other/1").find("got \"other/1\""), std::string::npos);
  EXPECT_NE(with("version", 2).find("expected version 1, got 2"), std::string::npos);
  EXPECT_NE(with("dtype", "f32").find("expected u16 or u32"), std::string::npos);
  EXPECT_NE(with("tokens", 77).find("do not agree"), std::string::npos);
  EXPECT_NE(with("vocab_size", 70000).find("does not fit in u16"), std::string::npos);
  folder.write("s/manifest.json", "{\"schema\": ");
  EXPECT_NE(error_of([&] { TokenStore::open(folder / "s"); }).find("broken JSON"),
            std::string::npos);
}

TEST(TokenStore, OpeningChecksTheRecords) {
  TempFolder folder;
  make_store(folder / "s", {{{3}}, {{4}}});
  poke(folder / "s/documents.bin", sizeof(DocumentRecord), 9);  // offset of document 1
  EXPECT_NE(error_of([&] { TokenStore::open(folder / "s"); }).find("document 1 is damaged"),
            std::string::npos);
}

TEST(TokenStore, VerifyFindsAFlippedByte) {
  TempFolder folder;
  make_store(folder / "s", distinct_documents(20));
  poke(folder / "s/tokens.bin", 40, 99);
  const TokenStore store = TokenStore::open(folder / "s");
  const std::string text = error_of([&] { store.verify(); });
  EXPECT_NE(text.find("content does not match the manifest"), std::string::npos) << text;
  EXPECT_NE(text.find("tokens.bin"), std::string::npos) << text;
}

TEST(TokenStore, VerifyNamesAnIdOutsideTheVocabulary) {
  TempFolder folder;
  make_store(folder / "s", {{{3, 4, 5}}});
  poke(folder / "s/tokens.bin", 2 * 2 + 1, 4);  // token 2: 4 + 4 · 256 = 1028
  const TokenStore store = TokenStore::open(folder / "s");
  const std::string expected = "token id 1028 at offset 2 is outside the vocabulary of 1000 (" +
                               (folder / "s/tokens.bin").string() + ")";
  EXPECT_NE(error_of([&] { store.verify(); }).find(expected), std::string::npos);
  EXPECT_NE(error_of([&] { store.document_tokens(0); }).find(expected), std::string::npos);
}

TEST(TokenStore, VerifyFindsHeldOutTextInTraining) {
  TempFolder folder;
  StoreWriter writer(folder / "s", 100, 1, 2);
  DocumentRecord record;
  record.hash = 5;
  writer.add(record, std::vector<std::int32_t>{3});
  record.pool = Pool::kValidation;
  writer.add(record, std::vector<std::int32_t>{3});
  writer.finish({{"a"}, {"b"}}, "m", Json::object());
  EXPECT_NE(error_of([&] {
              TokenStore::open(folder / "s").verify();
            }).find("1 held-out documents are also in a training pool"),
            std::string::npos);
}

TEST(TokenStore, FullDiskIsAnErrorAndLeavesTheOldStore) {
  TempFolder folder;
  const auto disk = folder / "disk";
  fs::create_directories(disk);
  if (::geteuid() != 0 || ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "needs a small tmpfs, which needs root";
  }
  make_store(disk / "s", {{{3}}});
  const HandMade large{std::vector<std::int32_t>(400000, 7), Pool::kStable};
  const std::string text = error_of([&] { make_store(disk / "s", {large, large, large}); });
  EXPECT_NE(text.find("No space left on device"), std::string::npos) << text;
  EXPECT_EQ(TokenStore::open(disk / "s").document_tokens(0), (std::vector<std::int32_t>{1, 3, 2}));
  EXPECT_EQ(std::distance(fs::directory_iterator(disk), fs::directory_iterator()), 1);
  ::umount(disk.c_str());
}

}  // namespace
}  // namespace smelt::data
