#include "smelt/core/json.h"

#include <gtest/gtest.h>

#include "smelt/core/file.h"
#include "tests/core/expect_error.h"

namespace smelt {
namespace {

TEST(Json, BrokenTextNamesTheLine) {
  try {
    parse_json("{\n  \"a\": 1,\n  \"b\": ]\n}", "c.json");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("[core] broken JSON: syntax error")) << text;
    EXPECT_TRUE(text.ends_with("(c.json:3)")) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "one line";
  }
  EXPECT_THROW(parse_json("", "c.json"), Error);
  EXPECT_THROW(parse_json("{} x", "c.json"), Error);
}

TEST(Json, AKeyThatIsThereTwiceIsAnError) {
  testing::expect_error([] { parse_json(R"({"a": 1, "b": {"c": 1, "c": 2}})", "c.json"); },
                        "[core] broken JSON: key \"c\" is there twice (c.json)");
  parse_json(R"({"a": {"c": 1}, "b": [{"c": 1}, {"c": 2}]})", "c.json");  // not the same object
}

TEST(Json, NumbersThatNoDoubleHoldsAndNaNAreErrors) {
  for (const char* text : {"{\"a\": 1e999}", "{\"a\": NaN}", "{\"a\": -Infinity}"}) {
    try {
      parse_json(text, "c.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("[core] broken JSON: ")) << error.what();
    }
  }
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(to_text(parse_json("{\"z\":1,\"a\":[2]}", "c.json")),
            "{\n  \"z\": 1,\n  \"a\": [\n    2\n  ]\n}\n");
}

TEST(Json, ReadsFiles) {
  const testing::TemporaryFolder folder;
  write_file_atomic(folder.path() / "c.json", "{\"a\": 2.5}\n");
  EXPECT_EQ(json_get<double>(read_json(folder.path() / "c.json"), "a", "c.json"), 2.5);
}

TEST(Json, InvalidUtf8IsReplacedNotThrown) {
  EXPECT_EQ(to_text(Json("a\xFF"
                         "b")),
            "\"a\xEF\xBF\xBD"
            "b\"\n");
}

TEST(JsonGet, ReadsValues) {
  const Json json = parse_json(
      R"({"i": 7, "big": 18446744073709551615, "r": 2.5, "whole": 2e6, "s": "x", "f": true, "v": [1, 2]})",
      "c.json");
  EXPECT_EQ(json_get<int>(json, "i", "c.json"), 7);
  EXPECT_EQ(json_get<std::uint64_t>(json, "big", "c.json"), 18446744073709551615u);
  EXPECT_EQ(json_get<double>(json, "r", "c.json"), 2.5);
  EXPECT_EQ(json_get<double>(json, "i", "c.json"), 7.0);
  EXPECT_EQ(json_get<std::int64_t>(json, "whole", "c.json"), 2000000);
  EXPECT_EQ(json_get<std::string>(json, "s", "c.json"), "x");
  EXPECT_TRUE(json_get<bool>(json, "f", "c.json"));
  EXPECT_EQ(json_get<std::vector<int>>(json, "v", "c.json"), (std::vector<int>{1, 2}));
}

// Copying and writing recurse: 200 000 brackets would overflow the stack.
TEST(ParseJson, NestingHasALimit) {
  const auto nested = [](std::size_t depth) {
    return parse_json(std::string(depth, '[') + std::string(depth, ']'), "d.json");
  };
  EXPECT_NO_THROW(nested(90));
  testing::expect_error([&] { nested(200'000); },
                        "[core] broken JSON: nested deeper than 100 (d.json)");
}

TEST(JsonGet, LongValuesAreClipped) {
  testing::expect_error(
      [&] { json_get<int>({{"s", std::string(5000, 'x')}}, "s", "c.json"); },
      "[core] key \"s\" has the wrong type, got \"" + std::string(79, 'x') + "… (c.json)");
}

TEST(JsonGet, ErrorsNameKeyValueAndFile) {
  const Json json = parse_json(
      R"({"r": 1.5, "n": -1, "f": true, "s": "x", "big": 3000000000, "huge": 1e30})", "c.json");
  const auto expect = [](auto call, const std::string& text) { testing::expect_error(call, text); };
  expect([&] { json_get<int>(json, "none", "c.json"); }, "[core] missing key \"none\" (c.json)");
  expect([&] { json_get<int>(Json(3), "a", "c.json"); }, "[core] missing key \"a\" (c.json)");
  expect([&] { json_get<int>(json, "r", "c.json"); },
         "[core] key \"r\" must be a whole number, got 1.5 (c.json)");
  expect([&] { json_get<std::uint64_t>(json, "n", "c.json"); },
         "[core] key \"n\" is out of range, got -1 (c.json)");
  expect([&] { json_get<int>(json, "big", "c.json"); },
         "[core] key \"big\" is out of range, got 3000000000 (c.json)");
  expect([&] { json_get<int>(json, "huge", "c.json"); },
         "[core] key \"huge\" is out of range, got 1e+30 (c.json)");
  expect([&] { json_get<int>(json, "f", "c.json"); },
         "[core] key \"f\" has the wrong type, got true (c.json)");
  expect([&] { json_get<double>(json, "s", "c.json"); },
         "[core] key \"s\" has the wrong type, got \"x\" (c.json)");
  expect([&] { json_get<std::string>(json, "r", "c.json"); },
         "[core] key \"r\" has the wrong type, got 1.5 (c.json)");
}

}  // namespace
}  // namespace smelt
