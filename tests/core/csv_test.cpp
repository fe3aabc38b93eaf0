// Cells and quoting by RFC 4180; the round trips were also read back with Python's csv module.
#include "smelt/core/csv.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "smelt/core/file.h"
#include "tests/core/expect_error.h"

namespace smelt {
namespace {

using Row = std::vector<std::string>;

TEST(Csv, ReadsQuotesLineEndsAndByteOrderMark) {
  const Csv csv = parse_csv(
      "\xEF\xBB\xBFname,loss\r\n\"a, \"\"b\"\"\", 3.5 \r\n\r\n\"two\nlines\",4\r\nlast,5", "t.csv");
  EXPECT_EQ(csv.header, (Row{"name", "loss"}));
  ASSERT_EQ(csv.rows.size(), 3u);
  EXPECT_EQ(csv.rows[0], (Row{"a, \"b\"", "3.5"}));
  EXPECT_EQ(csv.rows[1], (Row{"two\nlines", "4"}));
  EXPECT_EQ(csv.rows[2], (Row{"last", "5"}));
  EXPECT_EQ(csv.where(0), "t.csv:2");
  EXPECT_EQ(csv.where(1), "t.csv:4");
  EXPECT_EQ(csv.where(2), "t.csv:6");
}

TEST(Csv, EmptyCellsAndTrailingComma) {
  const Csv csv = parse_csv("a,b,c\n1,,\n,2,", "t.csv");
  EXPECT_EQ(csv.rows[0], (Row{"1", "", ""}));
  EXPECT_EQ(csv.rows[1], (Row{"", "2", ""}));
}

TEST(Csv, HeaderAloneHasNoRows) {
  EXPECT_TRUE(parse_csv("a,b\n", "t.csv").rows.empty());
}

TEST(Csv, Numbers) {
  const Csv csv = parse_csv("x\n\"1,234,567.5\"\n+2e-3\n-4\n.5\n", "t.csv");
  EXPECT_EQ(csv.number(0, 0), 1234567.5);
  EXPECT_EQ(csv.number(1, 0), 0.002);
  EXPECT_EQ(csv.number(2, 0), -4);
  EXPECT_EQ(csv.number(3, 0), 0.5);
}

class BadNumber : public ::testing::TestWithParam<const char*> {};
TEST_P(BadNumber, NamesColumnTextAndLine) {
  const std::string cell = GetParam();
  const Csv csv = parse_csv("cell,loss\nfirst,1\nsecond," + cell + "\n", "t.csv");
  testing::expect_error(
      [&] { csv.number(1, csv.column("loss")); },
      "[core] column \"loss\": expected a finite number, got \"" + cell + "\" (t.csv:3)");
}
INSTANTIATE_TEST_SUITE_P(Cells, BadNumber,
                         ::testing::Values("", "abc", "1.5x", "nan", "inf", "-inf", "1e999", "+-5",
                                           "0x10", "1 2"));

TEST(Csv, Errors) {
  testing::expect_error([] { parse_csv(std::string("a,b\n1,\0", 7), "t.csv"); },
                        "[core] expected text in UTF-8, found a zero byte (UTF-16, or not text) "
                        "(t.csv:2)");
  testing::expect_error([] { parse_csv("", "t.csv"); },
                        "[core] the file is empty, expected a header row (t.csv)");
  testing::expect_error([] { parse_csv("\n\n", "t.csv"); },
                        "[core] the file is empty, expected a header row (t.csv)");
  testing::expect_error(
      [] { parse_csv("a,b\n1\n1,2\n1,2,3\n", "t.csv"); },
      "[core] expected 2 columns, got 1 (t.csv:2)\n[core] expected 2 columns, got 3 (t.csv:4)");
  testing::expect_error([] { parse_csv("a\n1\n\"open\n2\n", "t.csv"); },
                        "[core] a quoted cell is never closed (t.csv:3)");
  testing::expect_error([] { parse_csv("a,b\n\"x\"y,2\n", "t.csv"); },
                        "[core] text after the closing quote of a cell (t.csv:2)");
  testing::expect_error([] { parse_csv("a,b,a\n1,2,3\n", "t.csv"); },
                        "[core] column \"a\" appears twice (t.csv)");
  testing::expect_error([] { parse_csv("a,b\n", "t.csv").column("c"); },
                        "[core] no column \"c\"; there are a or b (t.csv)");
  testing::expect_error([] { read_csv("none.csv"); },
                        "[core] cannot open file: No such file or directory (none.csv)");
}

TEST(Csv, FindGivesNothingForAnAbsentColumn) {
  const Csv csv = parse_csv("a,b\n", "t.csv");
  EXPECT_EQ(csv.find("b"), 1u);
  EXPECT_EQ(csv.find("B"), std::nullopt);
}

TEST(Csv, TextReadsBackTheSame) {
  const std::vector<Row> tables[] = {
      {{"a", "b"},
       {"plain", "1.5"},
       {"with, comma", "say \"x\""},
       {"two\nlines", "\r"},
       {" space ", ""}},
      {{"only"}, {""}, {"x"}},
  };
  for (const auto& rows : tables) {
    Csv csv;
    csv.header = rows[0];
    csv.rows.assign(rows.begin() + 1, rows.end());
    const Csv back = parse_csv(to_text(csv), "back.csv");
    EXPECT_EQ(back.header, csv.header);
    EXPECT_EQ(back.rows, csv.rows);
  }
}

TEST(NumberText, ReadsBackToTheSameDouble) {
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(3), "3");
  for (const double value : {1.0 / 3, 2.0 / 3e200, 5e-324, 1.7976931348623157e308, -123456.789}) {
    EXPECT_EQ(std::strtod(number_text(value).c_str(), nullptr), value);
  }
}

}  // namespace
}  // namespace smelt
