#include "smelt/core/error.h"

#include <gtest/gtest.h>

#include "tests/core/expect_error.h"

namespace smelt {
namespace {

TEST(Error, LineNamesFolderMessageAndPlace) {
  EXPECT_STREQ(Error("data", "expected 4 columns, got 3", "runs.csv:17").what(),
               "[data] expected 4 columns, got 3 (runs.csv:17)");
  EXPECT_STREQ(Error("law", "nothing to fit").what(), "[law] nothing to fit");
}

TEST(Problems, AllAreReportedAtOnce) {
  Problems problems("arch", "config.json");
  EXPECT_TRUE(problems.empty());
  problems.throw_if_any();
  problems.add("first");
  problems.add("second", "other.json:3");
  testing::expect_error([&] { problems.throw_if_any(); },
                        "[arch] first (config.json)\n[arch] second (other.json:3)");
}

TEST(Nearest, FindsTypingErrorsOnly) {
  const std::vector<std::string> keys = {"seeds", "sparsity", "learning_rate", "lr"};
  EXPECT_EQ(nearest("seedz", keys), "seeds");
  EXPECT_EQ(nearest("sparsitty", keys), "sparsity");
  EXPECT_EQ(nearest("learning-rates", keys), "learning_rate");
  EXPECT_EQ(nearest("lrr", keys), "lr");
  EXPECT_EQ(nearest("tokenizer", keys), "");
  EXPECT_EQ(nearest("ab", keys), "") << "two letters that differ in both are no typing error";
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Clipped, KeepsWholeCharacters) {
  EXPECT_EQ(clipped("short"), "short");
  EXPECT_EQ(clipped(std::string(80, 'a')), std::string(80, 'a'));
  EXPECT_EQ(clipped(std::string(81, 'a')), std::string(80, 'a') + "…");
  const std::string umlauts = "a" + std::string(100, 'x').replace(78, 2, "ä");  // bytes 80 and 81
  EXPECT_EQ(clipped(umlauts), "a" + std::string(78, 'x') + "…");
}

TEST(Problems, MessagesComeWithoutFolderAndPlace) {
  Problems problems("test", "file");
  problems.add("a (b)");
  EXPECT_EQ(problems.messages(), std::vector<std::string>{"a (b)"});
}

TEST(JoinChoices, ReadsAsASentence) {
  EXPECT_EQ(join_choices({}), "");
  EXPECT_EQ(join_choices({"a"}), "a");
  EXPECT_EQ(join_choices({"a", "b"}), "a or b");
  EXPECT_EQ(join_choices({"a", "b", "c"}), "a, b or c");
}

}  // namespace
}  // namespace smelt
