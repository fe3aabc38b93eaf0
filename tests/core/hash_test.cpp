// Expected digests: the Python package xxhash, e.g. xxhash.xxh3_128_hexdigest(b"abc").
#include "smelt/core/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "smelt/core/file.h"
#include "tests/core/expect_error.h"

namespace smelt {
namespace {

/// bytes(i % 251 for i in range(3_000_000)): longer than one read of hash_file.
std::string long_content() {
  std::string content(3'000'000, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i % 251);
  return content;
}
constexpr const char* kLongDigest = "766f642e64b63d92cc1a5bed6141edab";

TEST(Hash, KnownAnswers) {
  EXPECT_EQ(hash64(""), 0x2D06800538D394C2u);
  EXPECT_EQ(hash64("abc"), 0x78AF5F94892F3950u);
  EXPECT_EQ(hash_text(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_text("abc"), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(hash_text(long_content()), kLongDigest);
}

TEST(Hash, PiecesGiveTheDigestOfTheWhole) {
  const std::string content = long_content();
  Hasher hasher;
  for (std::size_t at = 0, size = 1; at < content.size(); at += size, size = size * 3 + 1) {
    hasher.update(std::string_view(content).substr(at, size));
  }
  EXPECT_EQ(hasher.digest(), kLongDigest);
  EXPECT_EQ(hasher.digest(), kLongDigest) << "digest() changes nothing";
}

TEST(Hash, MovedHasherGoesOn) {
  Hasher first;
  first.update("ab");
  Hasher second = std::move(first);
  second.update("c");
  EXPECT_EQ(second.digest(), hash_text("abc"));
}

TEST(Hash, Files) {
  const testing::TemporaryFolder folder;
  write_file_atomic(folder.path() / "long", long_content());
  EXPECT_EQ(hash_file(folder.path() / "long"), kLongDigest);
  const std::string none = (folder.path() / "none").string();
  testing::expect_error([&] { hash_file(none); }, "[core] cannot open file (" + none + ")");
  const std::string name = folder.path().string();
  testing::expect_error([&] { hash_file(name); }, "[core] cannot read file (" + name + ")");
}

}  // namespace
}  // namespace smelt
