#include "smelt/core/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/core/expect_error.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(File, WritesAndReadsBack) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.txt";
  const std::string content("with a zero byte \0 and\nlines\n", 29);
  write_file_atomic(file, content);
  EXPECT_EQ(read_file(file), content);
  write_file_atomic(file, "");
  EXPECT_EQ(read_file(file), "");
  EXPECT_EQ(entries(folder.path()), 1u) << "nothing partial is left";
}

TEST(File, ErrorsNameTheFile) {
  const testing::TemporaryFolder folder;
  const std::string none = (folder.path() / "none").string();
  testing::expect_error([&] { read_file(none); },
                        "[core] cannot open file: No such file or directory (" + none + ")");
  testing::expect_error([&] { read_file(folder.path()); },
                        "[core] expected a file, found a folder (" + folder.path().string() + ")");
  const std::string below = none + "/file";
  testing::expect_error([&] { write_file_atomic(below, "x"); },
                        "[core] cannot create file: No such file or directory (" + below + ")");
  testing::expect_error([&] { sync_to_disk(none); },
                        "[core] cannot open: No such file or directory (" + none + ")");
  write_file_atomic(none, "a file now");
  testing::expect_error([&] { make_folder(below); },
                        "[core] cannot create folder: Not a directory (" + below + ")");
}

TEST(File, AFailedWriteLeavesTheOldState) {
  const testing::TemporaryFolder folder;
  const fs::path target = folder.path() / "target";
  make_folder(target / "inside");  // a folder that is not empty cannot be replaced by a file
  testing::expect_error([&] { write_file_atomic(target, "x"); },
                        "[core] cannot write file: Is a directory (" + target.string() + ")");
  EXPECT_TRUE(fs::is_directory(target / "inside"));
  EXPECT_EQ(entries(folder.path()), 1u) << "the partial file is removed";
}

TEST(File, NoSpaceLeavesTheOldFile) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.txt";
  write_file_atomic(file, "old");
  // The partial file's name leads to a device that is always full.
  fs::create_symlink("/dev/full", file.string() + ".partial-" + std::to_string(::getpid()));
  testing::expect_error(
      [&] { write_file_atomic(file, "new"); },
      "[core] cannot write file: No space left on device (" + file.string() + ")");
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(File, MakesFoldersWithTheirParents) {
  const testing::TemporaryFolder folder;
  make_folder(folder.path() / "a/b/c");
  make_folder(folder.path() / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder.path() / "a/b/c"));
  sync_to_disk(folder.path() / "a");
}

TEST(File, PathsOfAConfigAreRelativeToIt) {
  EXPECT_EQ(relative_to_file("../store", "configs/quick.toml"), fs::path("store"));
  EXPECT_EQ(relative_to_file("store", "/a/b/run.toml"), fs::path("/a/b/store"));
  EXPECT_EQ(relative_to_file("/store", "configs/quick.toml"), fs::path("/store"));
  EXPECT_EQ(relative_to_file("store", "run.toml"), fs::path("store"));
}

}  // namespace
}  // namespace smelt
