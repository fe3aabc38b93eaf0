#include "smelt/core/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace smelt {
namespace {

TEST(Version, IsTheProjectsOfCMake) {
  std::ifstream in(std::string(SMELT_SOURCE_DIR) + "/CMakeLists.txt");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text, ::testing::HasSubstr("project(smelt VERSION " + version() + " "));
}

TEST(Version, CommitIsAHashOrUnknown) {
  EXPECT_THAT(commit(), ::testing::MatchesRegex("unknown|[0-9a-f]+(\\+changes)?"));
}

}  // namespace
}  // namespace smelt
