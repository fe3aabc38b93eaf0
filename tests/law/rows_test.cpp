#include "smelt/law/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smelt/core/file.h"
#include "tests/core/expect_error.h"

namespace smelt::law {
namespace {

class RowsTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const char* name, const std::string& text) {
    write_file_atomic(folder_.path() / name, text);
    return folder_.path() / name;
  }
  smelt::testing::TemporaryFolder folder_;
};

TEST_F(RowsTest, CsvJsonAndLinesSayTheSame) {
  const Csv csv =
      read_rows({file("a.csv", "arch,tokens,loss\nsmelt,1000000,3.5\nbase,2e6,3.25\n")});
  const Csv lines = read_rows({file("a.jsonl",
                                    "{\"arch\": \"smelt\", \"tokens\": 1000000, \"loss\": 3.5}\n\n"
                                    "{\"arch\": \"base\", \"tokens\": 2e6, \"loss\": 3.25}\n")});
  const Csv array = read_rows({file("a.json",
                                    "[{\"arch\": \"smelt\", \"tokens\": 1000000, \"loss\": 3.5},\n"
                                    " {\"arch\": \"base\", \"tokens\": 2e6, \"loss\": 3.25}]")});
  for (const Csv* rows : {&lines, &array}) {
    EXPECT_EQ(rows->header, csv.header);
    ASSERT_EQ(rows->rows.size(), 2u);
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(rows->rows[r][0], csv.rows[r][0]);
      EXPECT_EQ(rows->number(r, 1), csv.number(r, 1));
      EXPECT_EQ(rows->number(r, 2), csv.number(r, 2));
    }
  }
  EXPECT_EQ(lines.where(1), (folder_.path() / "a.jsonl").string() + ":3");
}

TEST_F(RowsTest, SeveralFilesAreJoinedByColumnName) {
  const Csv all =
      read_rows({file("a.csv", "tokens,loss\n1,3\n"), file("b.csv", "loss,seed\n4,7\n")});
  EXPECT_EQ(all.header, (std::vector<std::string>{"tokens", "loss", "seed"}));
  EXPECT_EQ(all.rows, (std::vector<std::vector<std::string>>{{"1", "3", ""}, {"", "4", "7"}}));
}

TEST_F(RowsTest, WhereKeepsWhatHolds) {
  const Csv table = parse_csv("arch,tokens\na,1e9\nb,2e9\na,3e9\n", "t.csv");
  const auto left = [&](std::vector<std::string> texts) {
    Csv rows = table;
    std::vector<Condition> conditions;
    for (const std::string& text : texts) conditions.push_back(parse_condition(text));
    const std::size_t dropped = keep_where(rows, conditions);
    EXPECT_EQ(dropped + rows.rows.size(), 3u);
    return rows.rows.size();
  };
  EXPECT_EQ(left({"tokens >= 2e9"}), 2u);
  EXPECT_EQ(left({"tokens>2e9"}), 1u);
  EXPECT_EQ(left({"tokens != 2e9"}), 2u);
  EXPECT_EQ(left({"tokens<=2000000000", "arch == a"}), 1u);
  EXPECT_EQ(left({"arch = b"}), 1u);
  EXPECT_EQ(left({"arch != b"}), 2u);
}

TEST_F(RowsTest, FaultsNameThePlace) {
  using smelt::testing::expect_error;
  expect_error(
      [] { parse_condition("tokens"); },
      "[law] where: expected COLUMN OP VALUE with OP one of >= <= > < == !=, got \"tokens\"");
  expect_error([] { parse_condition("arch > smelt"); },
               "[law] where: expected a number behind > in \"arch > smelt\"");
  Csv table = parse_csv("arch,tokens\na,1e9\nb,many\n", "t.csv");
  expect_error([&] { keep_where(table, {parse_condition("tokens > 5")}); },
               "[core] column \"tokens\": expected a finite number, got \"many\" (t.csv:3)");
  expect_error([&] { keep_where(table, {parse_condition("steps > 5")}); },
               "[core] no column \"steps\"; there are arch or tokens (t.csv)");
  const auto bad = file("b.jsonl", "{\"a\": 1}\n{\"a\": \n");
  expect_error([&] { read_rows({bad}); },
               "[law] expected one JSON object on this line (" + bad.string() + ":2)");
  const auto nested = file("c.jsonl", "{\"a\": [1]}\n");
  expect_error(
      [&] { read_rows({nested}); },
      "[law] key \"a\": expected a number, text or true/false (" + nested.string() + ":1)");
}

}  // namespace
}  // namespace smelt::law
