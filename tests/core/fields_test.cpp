#include "smelt/core/fields.h"

#include <gtest/gtest.h>

#include "tests/core/expect_error.h"

namespace smelt {
namespace testing {

enum class Color { kRed, kBlue };

struct Options {
  bool fast = true;
  int layers = 4;
  std::int64_t tokens = 1000;
  std::uint64_t seed = 1;
  double rate = 0.001;
  std::string name = "x";
  Color color = Color::kRed;
  std::vector<double> rates = {1, 2};
  std::optional<double> limit;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"fast", "go fast"}, self.fast);
    visit(Field{"layers", "physical layers", "", 1, 8}, self.layers);
    visit(Field{"tokens", "tokens", "tokens", 1}, self.tokens);
    visit(Field{"seed", "seed"}, self.seed);
    visit(Field{"rate", "learning rate", "", 0, 1}, self.rate);
    visit(Field{"name", "a name"}, self.name);
    visit(Field{"color", "a color"}, self.color);
    visit(Field{"rates", "rates", "", 0}, self.rates);
    visit(Field{"limit", "a limit", "", 0}, self.limit);
  }
};

}  // namespace testing

template <>
struct EnumNames<testing::Color> {
  static constexpr std::pair<testing::Color, const char*> kNames[] = {
      {testing::Color::kRed, "red"}, {testing::Color::kBlue, "blue"}};
};

namespace {

using testing::Color;
using testing::Options;

TEST(Fields, EnumNamesBothWays) {
  EXPECT_STREQ(enum_name(Color::kBlue), "blue");
  EXPECT_EQ(enum_from<Color>("red"), Color::kRed);
  EXPECT_EQ(enum_from<Color>("Red"), std::nullopt);
  EXPECT_EQ(enum_choices<Color>(), (std::vector<std::string>{"red", "blue"}));
}

TEST(Fields, TomlTextReadsBackTheSame) {
  Options options;
  options.fast = false;
  options.tokens = 5'000'000'000;
  options.rate = 1.0 / 3;
  options.name = "a \"b\"";
  options.color = Color::kBlue;
  options.rates = {};
  options.limit = 7;
  const TomlFile file = TomlFile::parse(fields_to_toml(options), "o.toml");
  Problems problems("test", "o.toml");
  Options back;
  read_fields(back, file.root(), problems);
  file.report_unread(problems);
  problems.throw_if_any();
  EXPECT_EQ(fields_to_json(back), fields_to_json(options));
  EXPECT_EQ(back.rate, options.rate);
}

TEST(Fields, JsonLeavesUnsetOptionalsOut) {
  EXPECT_EQ(fields_to_json(Options{}),
            Json::parse(R"({"fast":true,"layers":4,"tokens":1000,"seed":1,"rate":0.001,
    "name":"x","color":"red","rates":[1.0,2.0]})"));
}

TEST(Fields, AbsentKeysKeepTheirValue) {
  Options options;
  options.layers = 7;
  Problems problems("test", "o.toml");
  read_fields(options, TomlFile::parse("rate = 0.5", "o.toml").root(), problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(options.layers, 7);
  EXPECT_EQ(options.rate, 0.5);
}

TEST(Fields, EveryProblemIsReportedWithItsLine) {
  const TomlFile file = TomlFile::parse(
      "fast = 1\nlayers = 9\ntokens = 0\nrate = nan\ncolor = \"green\"\nrates = [1, -1]\nlimit = "
      "-2\nseed = -1\n",
      "o.toml");
  Options options;
  Problems problems("test", "o.toml");
  read_fields(options, file.root(), problems);
  testing::expect_error([&] { problems.throw_if_any(); },
                        "[test] fast: expected true or false, got an integer (o.toml:1)\n"
                        "[test] layers: expected 1 to 8, got 9 (o.toml:2)\n"
                        "[test] tokens: expected at least 1, got 0 (o.toml:3)\n"
                        "[test] seed: expected an integer of at least 0, got -1 (o.toml:8)\n"
                        "[test] rate: expected 0 to 1, got nan (o.toml:4)\n"
                        "[test] color: expected red or blue, got \"green\" (o.toml:5)\n"
                        "[test] rates: expected at least 0, got -1 (o.toml:6)\n"
                        "[test] limit: expected at least 0, got -2 (o.toml:7)");
}

TEST(Fields, CheckFieldsLooksAtValuesInMemory) {
  Options options;
  options.rate = 2;
  Problems problems("test", "options");
  check_fields(options, problems);
  testing::expect_error([&] { problems.throw_if_any(); },
                        "[test] rate: expected 0 to 1, got 2 (options)");
}

}  // namespace
}  // namespace smelt
