#include "smelt/core/toml.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/expect_error.h"

namespace smelt {
namespace {

constexpr const char* kStudy = R"(# a study
name = "quick"
seeds = [1, 2, 3]
tokens = 2e6
lr = 3
rates = [1e-3, 2]
deep.key = true
[data]
store = "../store"
[[arms]]
kind = "a"
[[arms]]
kind = "b"
)";

TEST(Toml, ReadsTypedValues) {
  const TomlFile file = TomlFile::parse(kStudy, "s.toml");
  Problems problems("study", "s.toml");
  TomlTable root = file.root();
  EXPECT_EQ(root.get<std::string>("name", problems), "quick");
  EXPECT_EQ(root.get<std::vector<std::int64_t>>("seeds", problems),
            (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(root.get<std::int64_t>("tokens", problems), 2000000);
  EXPECT_EQ(root.get<std::uint64_t>("tokens", problems), 2000000u);
  EXPECT_EQ(root.get<double>("lr", problems), 3.0);
  EXPECT_EQ(root.get<std::vector<double>>("rates", problems), (std::vector<double>{1e-3, 2}));
  EXPECT_EQ(root.table("deep", problems).get<bool>("key", problems), true);
  EXPECT_EQ(root.table("data", problems).get<std::string>("store", problems), "../store");
  auto arms = root.tables("arms", problems);
  ASSERT_EQ(arms.size(), 2u);
  EXPECT_EQ(arms[1].get<std::string>("kind", problems), "b");
  EXPECT_EQ(arms[1].where("kind"), "s.toml:13");
  EXPECT_EQ(root.get<std::string>("absent", problems), std::nullopt);
  EXPECT_FALSE(root.table("absent", problems).has("x"));
  EXPECT_TRUE(root.tables("absent", problems).empty());
  EXPECT_EQ(arms[0].get<std::string>("kind", problems), "a");
  file.report_unread(problems);
  problems.throw_if_any();
}

TEST(Toml, BrokenTextNamesTheLine) {
  for (const char* text :
       {"a = 1\nb = \n", "a = 1\na = 2\n", "a = 1\n[t\n", "a = 1\nb = \"open\n"}) {
    try {
      TomlFile::parse(text, "s.toml");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_TRUE(line.starts_with("[core] broken TOML: ")) << line;
      EXPECT_TRUE(line.ends_with("(s.toml:2)")) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  }
}

TEST(Toml, MissingFile) {
  testing::expect_error([] { TomlFile::read("none.toml"); },
                        "[core] cannot open file: No such file or directory (none.toml)");
}

TEST(Toml, WrongTypesAreAllReportedWithTheirLines) {
  const TomlFile file = TomlFile::parse(
      "a = \"x\"\nb = 1.5\nc = -1\nd = 3000000000\ne = [1, \"x\"]\nf = 1\ng = {}\nh = "
      "2024-01-01\ni = [1]\n",
      "s.toml");
  Problems problems("study", "s.toml");
  TomlTable root = file.root();
  root.get<int>("a", problems);
  root.get<std::int64_t>("b", problems);
  root.get<std::uint64_t>("c", problems);
  root.get<int>("d", problems);
  root.get<std::vector<std::int64_t>>("e", problems);
  root.get<bool>("f", problems);
  root.get<std::string>("g", problems);
  root.get<double>("h", problems);
  root.table("i", problems);
  root.tables("i", problems);
  testing::expect_error([&] { problems.throw_if_any(); },
                        "[study] a: expected an integer, got a string (s.toml:1)\n"
                        "[study] b: expected an integer, got 1.5 (s.toml:2)\n"
                        "[study] c: expected an integer of at least 0, got -1 (s.toml:3)\n"
                        "[study] d: expected an integer, got 3e+09 (s.toml:4)\n"
                        "[study] e: expected an array of integers, got an array (s.toml:5)\n"
                        "[study] f: expected true or false, got an integer (s.toml:6)\n"
                        "[study] g: expected a string, got a table (s.toml:7)\n"
                        "[study] h: expected a number, got a date or time (s.toml:8)\n"
                        "[study] i: expected a table, got an array (s.toml:9)\n"
                        "[study] i: expected an array of tables [[i]] (s.toml:9)");
}

TEST(Toml, UnreadKeysAreReportedWithTheNearestKnownOne) {
  const TomlFile file = TomlFile::parse(
      "seedz = 1\n[data]\nstore = \"x\"\nstroe = 1\n[other]\na = 1\n[[arms]]\nkind = "
      "1\n[[arms]]\nkimd = 1\n",
      "s.toml");
  Problems problems("study", "s.toml");
  TomlTable root = file.root();
  root.get<int>("seeds", problems);
  root.table("data", problems).get<std::string>("store", problems);
  for (TomlTable arm : root.tables("arms", problems)) arm.get<int>("kind", problems);
  file.report_unread(problems);
  std::vector<std::string> lines = problems.lines();
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "[study] unknown key \"arms.kimd\"; did you mean \"kind\"? (s.toml:10)",
                       "[study] unknown key \"data.stroe\"; did you mean \"store\"? (s.toml:4)",
                       "[study] unknown key \"other\" (s.toml:5)",
                       "[study] unknown key \"seedz\"; did you mean \"seeds\"? (s.toml:1)",
                   }));
}

TEST(Toml, ToJsonCountsAsRead) {
  const TomlFile file =
      TomlFile::parse("a = 1\nb = 2.5\nc = [true, \"x\"]\n[t]\nd = 1\n", "s.toml");
  EXPECT_EQ(file.root().to_json(), Json::parse(R"({"a":1,"b":2.5,"c":[true,"x"],"t":{"d":1}})"));
  Problems problems("study", "s.toml");
  file.report_unread(problems);
  EXPECT_TRUE(problems.empty());
}

TEST(TomlValue, IsReadBackByTheParser) {
  const Json values = Json::parse(R"({
    "whole": 8, "negative": -3, "real": 0.1, "whole_real": 2.0, "large": 1e22, "small": 5e-324,
    "text": "a \"quoted\" \\ line\nend \u0001 \u007f é", "flag": false, "list": [1, 2], "empty": [],
    "table": {"loss:Math/STEM": 1.5, "plain": "x", "": 1}})");
  std::string text;
  for (const auto& [key, value] : values.items()) text += key + " = " + toml_value(value) + "\n";
  // Tables are sets of keys: compared without their order.
  const Json back = TomlFile::parse(text, "s.toml").root().to_json();
  EXPECT_EQ(nlohmann::json::parse(back.dump()), nlohmann::json::parse(values.dump())) << text;
}

TEST(TomlValue, WhatTomlCannotHoldIsAnError) {
  testing::expect_error(
      [] { toml_value(Json(18446744073709551615u)); },
      "[core] TOML holds integers up to 9223372036854775807, got 18446744073709551615");
  testing::expect_error([] { toml_value(Json()); }, "[core] TOML has no null");
}

}  // namespace
}  // namespace smelt
