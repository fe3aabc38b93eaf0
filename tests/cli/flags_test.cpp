// Flags out of a field list: names, defaults and ranges in --help, and what a wrong value says.
#include "cli/flags.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace smelt {
namespace testing {

enum class Mode { kFast, kExact };

struct Options {
  std::int64_t max_steps = 100;
  double rate = 0.5;
  Mode mode = Mode::kFast;
  bool shuffle = true;
  std::string name = "run";
  std::vector<double> rates;
  std::optional<double> limit;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"max_steps", "steps to do", "steps", 1, 1000}, self.max_steps);
    visit(Field{"rate", "a rate", "", 0, 1}, self.rate);
    visit(Field{"mode", "how"}, self.mode);
    visit(Field{"shuffle", "shuffle the rows"}, self.shuffle);
    visit(Field{"name", "a name"}, self.name);
    visit(Field{"rates", "rates to try", "", 0}, self.rates);
    visit(Field{"limit", "a limit", "", 0}, self.limit);
  }
};

}  // namespace testing

template <>
struct EnumNames<testing::Mode> {
  static constexpr std::pair<testing::Mode, const char*> kNames[] = {
      {testing::Mode::kFast, "fast"}, {testing::Mode::kExact, "exact"}};
};

namespace cli {
namespace {

/// Parses `arguments`; the message of the parse error, or "" when there is none.
std::string parse(testing::Options& options, std::vector<std::string> arguments) {
  CLI::App app("test");
  add_flags(app, options);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(Flags, SetEveryKindOfField) {
  testing::Options options;
  EXPECT_EQ(parse(options, {"--max-steps", "7", "--rate=0.25", "--mode", "exact", "--no-shuffle",
                            "--name", "x", "--rates", "0.1,0.2", "--limit", "3"}),
            "");
  EXPECT_EQ(options.max_steps, 7);
  EXPECT_EQ(options.rate, 0.25);
  EXPECT_EQ(options.mode, testing::Mode::kExact);
  EXPECT_FALSE(options.shuffle);
  EXPECT_EQ(options.name, "x");
  EXPECT_EQ(options.rates, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(options.limit, 3.0);
}

TEST(Flags, DefaultsStay) {
  testing::Options options;
  EXPECT_EQ(parse(options, {}), "");
  EXPECT_EQ(fields_to_json(options), fields_to_json(testing::Options{}));
  EXPECT_EQ(parse(options, {"--shuffle"}), "");
  EXPECT_TRUE(options.shuffle);
}

TEST(Flags, WrongValuesNameTheFlag) {
  testing::Options options;
  EXPECT_EQ(parse(options, {"--max-steps", "0"}), "--max-steps: expected 1 to 1000, got 0");
  EXPECT_EQ(parse(options, {"--rate", "2"}), "--rate: expected 0 to 1, got 2");
  EXPECT_EQ(parse(options, {"--rates", "1,-1"}), "--rates: expected at least 0, got -1");
  EXPECT_EQ(parse(options, {"--limit", "nan"}), "--limit: expected at least 0, got nan");
  for (const auto& [value, flag] : std::vector<std::pair<std::string, std::string>>{
           {"x", "--max-steps"}, {"1.5", "--max-steps"}, {"slow", "--mode"}, {"abc", "--rate"}}) {
    const std::string message = parse(options, {flag, value});
    EXPECT_NE(message.find(flag), std::string::npos) << message;
    EXPECT_NE(message.find(value), std::string::npos) << message;
  }
}

// CLI::Range lets NaN pass.
TEST(Flags, WithinTakesFiniteNumbersInItsRangeOnly) {
  const CLI::Validator check = within(1, 1e12);
  const auto message = [&check](std::string text) { return check(text); };
  EXPECT_EQ(message("1"), "");
  EXPECT_EQ(message("1e12"), "");
  for (const char* bad : {"nan", "inf", "-inf", "0.5", "1e13", "x", ""}) {
    EXPECT_EQ(message(bad), "expected 1 to 1000000000000, got " + std::string(bad));
  }
}

TEST(Flags, HelpShowsHelpUnitDefaultAndChoices) {
  testing::Options options;
  CLI::App app("test");
  add_flags(app, options);
  const std::string help = app.help();
  for (const char* part :
       {"--max-steps INT=100", "steps to do [steps]", "--rate FLOAT=0.5",
        "--mode TEXT:{fast,exact}=fast", "--no-shuffle", "(default: on)", "--name TEXT=run"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  }
}

}  // namespace
}  // namespace cli
}  // namespace smelt
