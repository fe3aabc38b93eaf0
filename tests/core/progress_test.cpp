#include "smelt/core/progress.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace smelt {
namespace {

// The test's stderr is captured into a file, so these are the plain lines of a run without a
// terminal.

TEST(ProgressLine, PlainLinesShowShareAmountAndNote) {
  ::testing::internal::CaptureStderr();
  ProgressLine progress(0);
  progress({"train", 0, 4000, "tokens", "loss 8.3"});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text, "train    0 %  0 / 4k tokens  loss 8.3\n");
}

TEST(ProgressLine, UnknownTotalShowsNoShare) {
  ::testing::internal::CaptureStderr();
  ProgressLine progress(0);
  progress({"read", 1500, 0, "documents", ""});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "read  1.5k documents\n");
}

TEST(ProgressLine, IsQuietBetweenButShowsFirstLastAndNewTask) {
  ::testing::internal::CaptureStderr();
  ProgressLine progress(3600);
  for (int i = 0; i <= 100; ++i) progress({"a", static_cast<double>(i), 100, "steps", ""});
  progress({"b", 0, 100, "steps", ""});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_NE(text.find("a    0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("a  100 %  100 / 100 steps"), std::string::npos) << text;
  EXPECT_NE(text.find("b    0 %"), std::string::npos) << text;
}

TEST(ProgressLine, TheLastLineOfATaskIsPrintedOnce) {
  ::testing::internal::CaptureStderr();
  ProgressLine progress(0);
  for (int i = 0; i < 5; ++i) progress({"a", 100, 100, "steps", ""});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(ProgressLine, LogIsALineOfItsOwn) {
  ::testing::internal::CaptureStderr();
  ProgressLine progress;
  progress.log("! a warning");
  progress.finish();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "! a warning\n");
}

}  // namespace
}  // namespace smelt
