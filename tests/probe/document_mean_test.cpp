// Means and standard errors by hand.
#include "smelt/probe/document_mean.h"

#include <gtest/gtest.h>

#include <cmath>

namespace smelt::probe {
namespace {

TEST(DocumentMean, IsTheRatioOfTheSums) {
  // s = (2, 6), w = (1, 2): mean 8/3, residuals ∓2/3, error² = 2 · 8/9 / 9.
  DocumentMean mean;
  mean.add(4, 2, 1);
  mean.add(5, 2.5, 0.5);
  mean.add(5, 3.5, 1.5);
  EXPECT_DOUBLE_EQ(mean.mean(), 8.0 / 3);
  EXPECT_NEAR(mean.standard_error(), 4.0 / 9, 1e-12);
}

TEST(DocumentMean, EqualWeightsGiveTheUsualStandardError) {
  DocumentMean mean;
  for (int i = 0; i < 5; ++i) mean.add(i, i, 1);  // 0 … 4: variance 2.5
  EXPECT_DOUBLE_EQ(mean.mean(), 2);
  EXPECT_NEAR(mean.standard_error(), std::sqrt(2.5 / 5), 1e-12);
}

TEST(DocumentMean, IsUndefinedWithoutData) {
  DocumentMean mean;
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(0, 0, 0);  // a document none of whose queries qualifies
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(1, 3, 2);
  EXPECT_DOUBLE_EQ(mean.mean(), 1.5);
  EXPECT_TRUE(std::isnan(mean.standard_error()));
}

}  // namespace
}  // namespace smelt::probe
