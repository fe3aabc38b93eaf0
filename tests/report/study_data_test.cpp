#include "smelt/report/study_data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::report {
namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("smelt-report-" + name + "-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string error_of(const std::filesystem::path& folder) {
  try {
    read_study(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ReadStudy, NamesFileAndLineOfBrokenJson) {
  const auto folder = fresh_folder("broken");
  write_file_atomic(folder / "study.json",
                    "{\n  \"schema\": \"smelt.study/1\",\n  \"name\": oops\n}\n");
  EXPECT_NE(error_of(folder).find("study.json:3)"), std::string::npos) << error_of(folder);
}

TEST(ReadStudy, SaysWhatIsNotAStudy) {
  const auto folder = fresh_folder("other");
  EXPECT_NE(error_of(folder).find("expected a study folder (with study.json in it)"),
            std::string::npos);
  write_file_atomic(folder / "study.json", "[1, 2]");
  EXPECT_NE(error_of(folder).find("expected a JSON object"), std::string::npos);
  write_file_atomic(folder / "study.json", R"({"schema": "smelt.gain/1"})");
  EXPECT_NE(error_of(folder).find("expected schema \"smelt.study/1\", got \"smelt.gain/1\""),
            std::string::npos);
}

TEST(Get, WalksWhatIsThereAndNothingElse) {
  const Json json = Json::parse(R"({"a": {"b": 3, "none": null, "list": [1]}})");
  EXPECT_EQ(number(get(json, {"a", "b"})), 3.0);
  EXPECT_EQ(number(get(json, {"a", "none"})), std::nullopt);
  EXPECT_EQ(number(get(json, {"a", "b", "c"})), std::nullopt);
  EXPECT_EQ(list(json, {"a", "list"}).size(), 1u);
  EXPECT_TRUE(list(json, {"a", "b"}).empty());
  EXPECT_EQ(text(get(json, {"x"})), "");
}

TEST(Interval, ComesAsPairOrObject) {
  EXPECT_EQ(interval(Json::parse("[-0.1, 0.2]"))->high, 0.2);
  EXPECT_EQ(interval(Json::parse(R"({"min": -1, "max": 2})"))->low, -1);
  EXPECT_FALSE(interval(Json::parse("[null, 0.2]")));
  EXPECT_FALSE(interval(Json()));
}

TEST(ReadCurve, SmoothsWithACentredWindowAndKeepsTheEnds) {
  const auto folder = fresh_folder("curve");
  std::string lines;
  // A straight line: any centred mean of it is the line itself.
  for (int step = 1; step <= 800; ++step) {
    lines += "{\"step\": " + std::to_string(step) + ", \"tokens\": " + std::to_string(100 * step) +
             ", \"loss\": " + std::to_string(10 - step * 0.01) + "}\n";
  }
  lines += "{\"step\": 800, \"eval\": {\"loss\": 1}}\n{\"step\": 801, \"tok";
  write_file_atomic(folder / "metrics.jsonl", lines);
  const Curve curve = read_curve(folder / "metrics.jsonl", 50);
  EXPECT_EQ(curve.steps, 800u);
  EXPECT_EQ(curve.window, 21u);
  EXPECT_EQ(curve.broken_lines, 1u);
  ASSERT_EQ(curve.points.size(), 50u);
  EXPECT_EQ(curve.points.front().tokens, 100);
  EXPECT_EQ(curve.points.back().tokens, 80000);
  std::size_t full = 0;
  for (const auto& point : curve.points) {
    // An end has half a window: its mean lies five steps further in.
    const double end = point.full ? 0 : 5 * 0.01;
    EXPECT_NEAR(point.smoothed, 10 - point.step * 0.01, end + 1e-6) << point.step;
    full += point.full ? 1 : 0;
  }
  EXPECT_EQ(full, 48u);
  EXPECT_EQ(read_curve(folder / "metrics.jsonl", 50, 41).window, 41u);
}

TEST(ReadCurve, MissingFileIsAnEmptyCurve) {
  EXPECT_TRUE(read_curve("/nowhere/metrics.jsonl", 50).points.empty());
}

}  // namespace
}  // namespace smelt::report
