// The paper's table, published figures from tests/data/paper/grid.csv.
#include "smelt/budget/paper_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smelt/core/csv.h"

namespace smelt::budget {
namespace {

TEST(PaperGrid, HoldsThePublishedFigures) {
  const Csv csv = read_csv(SMELT_TEST_DATA "/paper/grid.csv");
  const auto rows = paper_grid();
  ASSERT_EQ(rows.size(), csv.rows.size());
  const std::pair<const char*, const char*> columns[] = {{"total", "pub_total_B"},
                                                         {"active", "pub_active_B"},
                                                         {"sparsity", "pub_S"},
                                                         {"flops_ratio", "pub_F_ratio"},
                                                         {"kv_ratio", "pub_KV_ratio"}};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    EXPECT_TRUE(rows[r].name.starts_with(csv.rows[r][csv.column("scale")] + "-"));
    EXPECT_TRUE(rows[r].name.ends_with("-" + csv.rows[r][csv.column("arch")]));
    for (std::size_t f = 0; f < 5; ++f) {
      EXPECT_STREQ(rows[r].figures[f].name, columns[f].first);
      EXPECT_EQ(rows[r].figures[f].published, csv.rows[r][csv.column(columns[f].second)]);
    }
  }
}

TEST(PaperGrid, EveryKnownCellAgreesToTheRounding) {
  int known = 0, open = 0;
  for (const PaperRow& row : paper_grid()) {
    if (row.model) {
      EXPECT_TRUE(row.agrees()) << row.name;
      EXPECT_EQ(row.words, "");
      ++known;
    } else {
      EXPECT_FALSE(row.agrees());
      EXPECT_THAT(row.words, ::testing::HasSubstr("inconsistent"));
      EXPECT_THAT(row.name, ::testing::HasSubstr("-S0-smelt"));
      ++open;
    }
  }
  EXPECT_EQ(known, 28);
  EXPECT_EQ(open, 4);
}

// By hand for 1.6B: F ratio 1.022 and 1.101 B active parameters, H 1848, 30 layers, 45 executed.
TEST(PaperGrid, TheClashIsArithmetic) {
  const double flops = 1.022 * 1.0096e10, layers = 30, executed = 45, h = 1848;
  const double multiplied = 1.101e9 / layers - 2 * h;
  const double query = (flops - 6 * executed * multiplied) / (12 * 392 * executed);
  const double kv = 0.984 * 256 * 30 / 45;
  const double width = (multiplied - 2 * h * (query + kv) - h * 16) / (24 * h);
  const double total = 1.101e9 + layers * 24 * h * width;
  for (const PaperRow& row : paper_grid()) {
    if (row.name != "1.6B-S0-smelt") continue;
    char expected[64];
    std::snprintf(expected, sizeof expected, "so %.3f B in all; published 1.64 B", total / 1e9);
    EXPECT_THAT(row.words, ::testing::HasSubstr(expected));
  }
}

TEST(PaperFigure, AgreesWhenItRounds) {
  EXPECT_TRUE((PaperFigure{"total", "0.71", 0.7149, true}.agrees()));
  EXPECT_FALSE((PaperFigure{"total", "0.71", 0.7151, true}.agrees()));
  EXPECT_FALSE((PaperFigure{"total", "0.71", std::nullopt, true}.agrees()));
  EXPECT_TRUE((PaperFigure{"kv_ratio", "", std::nullopt, true}.agrees()));
}

}  // namespace
}  // namespace smelt::budget
