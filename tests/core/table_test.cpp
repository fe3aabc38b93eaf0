#include "smelt/core/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace smelt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Table, NumbersToTheRightTextToTheLeft) {
  Table table({"arm", "loss"});
  table.add_row({"Baseline", "3.2"});
  table.add_row({"SMELT", "12.25"});
  EXPECT_EQ(table.text(),
            "arm        loss\n"
            "Baseline    3.2\n"
            "SMELT     12.25\n");
}

TEST(Table, ShortRowsAndWideCharacters) {
  Table table({"gain", "note"});
  table.add_row({"1.5 ± 0.1"});
  table.add_row({"2 ×", "größer"});
  table.add_row({"", "x"});
  EXPECT_EQ(table.text(),
            "     gain  note\n"
            "1.5 ± 0.1\n"
            "      2 ×  größer\n"
            "           x\n");
}

TEST(WithCommas, GroupsDigits) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-123456), "-123,456");
  EXPECT_EQ(with_commas(-0.3), "0");
  EXPECT_EQ(with_commas(kInfinity), "inf");
}

TEST(WithSi, KeepsFourDigits) {
  EXPECT_EQ(with_si(0), "0");
  EXPECT_EQ(with_si(12), "12");
  EXPECT_EQ(with_si(0.5), "0.5");
  EXPECT_EQ(with_si(1000), "1k");
  EXPECT_EQ(with_si(1234567), "1.235M");
  EXPECT_EQ(with_si(999960), "1M");
  EXPECT_EQ(with_si(-2.5e9), "-2.5G");
  EXPECT_EQ(with_si(6.65e12), "6.65T");
  EXPECT_EQ(with_si(3e21), "3000E");
  EXPECT_EQ(with_si(-kInfinity), "-inf");
  EXPECT_EQ(with_si(std::nan("")), "nan");
}

TEST(DurationText, PicksTheUnit) {
  EXPECT_EQ(duration_text(-1), "0 s");
  EXPECT_EQ(duration_text(45.4), "45 s");
  EXPECT_EQ(duration_text(59.6), "1 min 00 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
  EXPECT_EQ(duration_text(kInfinity), "unknown time");
  EXPECT_EQ(duration_text(std::nan("")), "unknown time");
}

}  // namespace
}  // namespace smelt
