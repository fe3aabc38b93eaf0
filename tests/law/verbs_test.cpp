// smelt fit, gain and predict as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "smelt/core/json.h"
#include "smelt/law/frontier.h"
#include "tests/core/expect_error.h"
#include "tests/law/synthetic.h"

namespace smelt::law {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string text;  // what came on stdout
};

Outcome run(const std::string& arguments, const std::string& folder = ".") {
  Outcome outcome;
  std::FILE* pipe =
      ::popen(("cd '" + folder + "' && '" + SMELT_BIN_DIR + "/smelt' " + arguments).c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.text.append(buffer.data(), got);
  }
  outcome.code = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream csv(path("e.csv"));
    csv << "arch,sparsity,cell,seed,flops_per_token,tokens,loss\n";
    for (const auto& [arm, law] :
         {std::pair{"baseline", testing::paper_baseline()}, {"smelt", testing::paper_smelt()}}) {
      for (const Point& p : testing::grid(law, 4, {0.85, 0.95}, 4)) {
        csv << arm << ',' << p.sparsity << ',' << p.cell << ",0," << number_text(p.size) << ','
            << number_text(p.tokens) << ',' << number_text(p.loss) << '\n';
      }
    }
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  smelt::testing::TemporaryFolder folder_;
};

TEST_F(Verbs, FitGroupsThenGainAndPredictFromItsFile) {
  const Outcome fitted = run("fit " + path("e.csv") + " --group arch --json");
  ASSERT_EQ(fitted.code, 0);
  const Json json = parse_json(fitted.text, "stdout");
  EXPECT_EQ(json["schema"], "smelt.fit/1");
  EXPECT_NEAR(json["groups"]["smelt"]["coefficients"]["E"], 1.4493, 1e-6);
  std::ofstream(path("laws.json")) << fitted.text;
  const Outcome predicted =
      run("predict " + path("laws.json") + " --group smelt --compute 1e20 --sparsity 0.95 --json");
  ASSERT_EQ(predicted.code, 0);
  EXPECT_NEAR(parse_json(predicted.text, "stdout")["points"][0]["loss"],
              frontier(testing::paper_smelt(), 1e20, 0.95).loss, 1e-6);
}

TEST_F(Verbs, GainFromTableAndFromLawFiles) {
  const Outcome table =
      run("gain " + path("e.csv") + " --compute 1e20 --sparsity 0.95 --draws 40 --json");
  ASSERT_EQ(table.code, 0);
  const Json point = parse_json(table.text, "stdout")["points"][0];
  EXPECT_NEAR(point["gain"], 0.078, 0.0015);  // the paper's table
  EXPECT_FALSE(point["interval"].is_null());
  for (const auto& [file, law] :
       {std::pair{"r.json", testing::paper_baseline()}, {"t.json", testing::paper_smelt()}}) {
    std::ofstream(path(file)) << to_text(to_json(law));
  }
  const Outcome files = run("gain --reference " + path("r.json") + " --target " + path("t.json") +
                            " --compute 1e21 --sparsity 0.95 --json");
  ASSERT_EQ(files.code, 0);
  const Json far = parse_json(files.text, "stdout")["points"][0];
  EXPECT_NEAR(far["gain"], 0.158, 0.0015);
  EXPECT_TRUE(far["interval"].is_null());
  EXPECT_EQ(std::lround(double(far["tpp_reference"])), 78);
  EXPECT_EQ(std::lround(double(far["tpp_target"])), 75);
}

TEST_F(Verbs, FaultsAreOneLineAndTheirCode) {
  Outcome outcome = run("fit " + path("none.csv") + " 2>&1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("none.csv"));
  outcome = run("fit " + path("e.csv") + " --form kaplan 2>&1");
  EXPECT_EQ(outcome.code, 2);
  outcome = run("gain " + path("e.csv") + " --target moe 2>&1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("no rows of \"moe\"; there are baseline or smelt"));
  outcome = run("predict " + path("e.csv") + " 2>&1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("--flops with --tokens, or --compute"));
}

TEST(Docs, EveryCommandOfThePagesRuns) {
  int commands = 0;
  for (const char* page : {"fit", "gain", "predict"}) {
    std::ifstream file(std::string(SMELT_SOURCE_DIR) + "/docs/" + page + ".md");
    ASSERT_TRUE(file.good()) << page;
    bool code = false;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("```")) code = line == "```sh";
      if (!code || !line.starts_with("smelt ")) continue;
      ++commands;
      EXPECT_EQ(run(line.substr(6) + " 2>/dev/null", SMELT_SOURCE_DIR).code, 0) << line;
    }
  }
  EXPECT_EQ(commands, 7);
}

TEST_F(Verbs, HelpHasExampleAndFlags) {
  for (const char* verb : {"fit", "gain", "predict"}) {
    const Outcome outcome = run(std::string(verb) + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.text, HasSubstr("Example:"));
    EXPECT_THAT(outcome.text, HasSubstr("--json"));
  }
}

}  // namespace
}  // namespace smelt::law
