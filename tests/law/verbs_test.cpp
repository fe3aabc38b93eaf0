// smelt fit, gain and predict as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
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
    csv << "arch,sparsity,cell,seed,flops_per_token,tokens,loss,step_seconds,loss:a,loss:b,loss:c,"
           "loss:d,score\n";
    for (const auto& [arm, law] :
         {std::pair{"baseline", testing::paper_baseline()}, {"smelt", testing::paper_smelt()}}) {
      for (const Point& p : testing::grid(law, 4, {0.85, 0.95}, 4)) {
        csv << arm << ',' << p.sparsity << ',' << p.cell << ",0," << number_text(p.size) << ','
            << number_text(p.tokens) << ',' << number_text(p.loss) << ','
            << (std::string(arm) == "smelt" ? "0.5" : "0.4");
        for (const double scale : {0.5, 0.8, 1.1, 1.4}) csv << ',' << number_text(scale * p.loss);
        csv << ',' << number_text(0.2 + 0.5 / (1 + std::exp(3 * (p.loss - 2.2)))) << '\n';
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

TEST_F(Verbs, KeptDrawsOfTwoResultsGiveAnInterval) {
  for (const char* arm : {"baseline", "smelt"}) {
    const Outcome fitted =
        run("fit " + path("e.csv") + " --arch " + arm + " --bootstrap 30 --keep-draws --json");
    ASSERT_EQ(fitted.code, 0);
    std::ofstream(path((std::string(arm) + ".json").c_str())) << fitted.text;
  }
  const Outcome files = run("gain --reference " + path("baseline.json") + " --target " +
                            path("smelt.json") + " --compute 1e20 --sparsity 0.95 --json");
  ASSERT_EQ(files.code, 0);
  const Json point = parse_json(files.text, "stdout")["points"][0];
  ASSERT_TRUE(point["interval"].is_array());
  EXPECT_LE(point["interval"][0], point["gain"]);
}

TEST_F(Verbs, RangesSubsetsAndTime) {
  const Outcome table =
      run("gain " + path("e.csv") +
          " --compute 1e19:1e21:3 --sparsity 0.95 --draws 0 --subsets all --json");
  ASSERT_EQ(table.code, 0);
  const Json json = parse_json(table.text, "stdout");
  ASSERT_EQ(json["points"].size(), 3u);
  EXPECT_NEAR(json["points"][1]["compute"], 1e20, 1e8);
  EXPECT_NEAR(json["time_ratio"], 1.25, 1e-9);
  EXPECT_NEAR(json["points"][1]["wall_clock_gain"],
              1 - 1.25 * (1 - double(json["points"][1]["gain"])), 1e-12);
  ASSERT_EQ(json["subsets"].size(), 4u);
  EXPECT_EQ(json["subsets"][0]["name"], "a");
  // Losses that are a multiple of the whole's have its gain.
  EXPECT_NEAR(json["subsets"][3]["points"][1]["gain"], json["points"][1]["gain"], 1e-6);
  const Outcome quartiles =
      run("gain " + path("e.csv") + " --compute 1e20 --sparsity 0.95 --draws 0 --quartiles --json");
  EXPECT_EQ(parse_json(quartiles.text, "stdout")["subsets"][0]["name"], "quartile 1 (lowest loss)");
  for (const char* bad : {"--compute 1e19:1e18:3", "--compute 1e18:1e19:1.5", "--compute x",
                          "--compute nan", "--compute 1:2"}) {
    EXPECT_EQ(run("gain " + path("e.csv") + " " + bad + " 2>/dev/null").code, 2) << bad;
  }
}

TEST_F(Verbs, SharedCoefficientsParabolasAndScores) {
  const Outcome shared =
      run("fit " + path("e.csv") + " --group arch --share a,b,c --isoflop --json 2>/dev/null");
  ASSERT_EQ(shared.code, 0);
  const Json groups = parse_json(shared.text, "stdout")["groups"];
  EXPECT_EQ(groups["baseline"]["coefficients"]["c"], groups["smelt"]["coefficients"]["c"]);
  EXPECT_NE(groups["baseline"]["coefficients"]["E"], groups["smelt"]["coefficients"]["E"]);
  EXPECT_TRUE(groups["smelt"]["isoflop"]["bins"].is_array());
  const Outcome score = run("fit " + path("e.csv") + " --score score --json");
  ASSERT_EQ(score.code, 0);
  const Json json = parse_json(score.text, "stdout");
  EXPECT_EQ(json["schema"], "smelt.score/1");
  EXPECT_NEAR(json["fit"]["r2"], 1, 1e-9);
  EXPECT_NEAR(json["beyond"]["smelt"]["mean"], 0, 1e-6);
  EXPECT_EQ(run("fit " + path("e.csv") + " --score-kind loss 2>/dev/null").code, 2);
}

TEST_F(Verbs, FlagsWithoutEffectAreWrongUsage) {
  for (const char* flags :
       {"--keep-draws", "--interval bca", "--interval profile --bootstrap 20", "--quantile 0.1",
        "--loss squared --delta 0.1", "--unit run", "--seed 3", "--bootstrap 20 --seed -1",
        "--interval profile --leave-one-out"}) {
    EXPECT_EQ(run("fit " + path("e.csv") + " " + flags + " 2>/dev/null").code, 2) << flags;
  }
}

TEST_F(Verbs, DrawsOfAnotherFormAndOneArmTwiceAreRefused) {
  Json law = to_json(testing::paper_baseline());
  law["draws_kept"] = {{"unit", "cell"},
                       {"seed", 0},
                       {"names", {"a"}},
                       {"coefficients", {{1, 2}}},
                       {"left_out", Json::array()}};
  std::ofstream(path("d.json")) << to_text(law);
  const Outcome outcome = run("gain --reference " + path("d.json") + " --target " + path("d.json") +
                              " --compute 1e20 --sparsity 0.9 2>&1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("form smelt has 6 coefficients, a draw 2"));
  EXPECT_EQ(run("gain " + path("e.csv") + " --target baseline 2>/dev/null").code, 2);
  EXPECT_EQ(run("predict " + path("d.json") + " --flops 1e9 --tokens 1e9 --visits 3 2>&1").code, 2);
}

TEST_F(Verbs, TablesWithNothingToFitAreNamed) {
  std::ofstream(path("w.csv")) << "params,tokens,loss,weight\n1e8,1e9,3,0\n2e8,1e9,2.9,0\n";
  Outcome outcome = run("fit " + path("w.csv") + " --form chinchilla 2>&1");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, HasSubstr("too few points: there are none"));
  EXPECT_EQ(run("fit " + path("w.csv") + " --form chinchilla --bootstrap 20 2>&1").code, 0);
  std::ofstream(path("h.csv")) << "params,tokens,loss\n";
  outcome = run("fit " + path("h.csv") + " --form chinchilla 2>&1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("no rows below the header"));
  std::ofstream(path("s.csv")) << "flops_per_token,sparsity,tokens,loss\n1e8,0,1e9,3\n";
  outcome = run("fit " + path("s.csv") + " --exclude-controls 2>&1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("no row is left by --exclude-controls"));
  outcome = run("fit " + path("s.csv") + " --arch x 2>&1");
  EXPECT_THAT(outcome.text, HasSubstr("no column tells arms apart"));
}

TEST_F(Verbs, CommonColumnNamesAreFoundWithAMessage) {
  std::ofstream(path("n.csv")) << "N,D,final_loss\n1e8,1e9,3\n2e8,1e9,2.9\n1e8,2e9,2.8\n";
  const Outcome found = run("fit " + path("n.csv") + " --form chinchilla 2>&1");
  EXPECT_EQ(found.code, 0);
  EXPECT_THAT(found.text, HasSubstr("column \"N\" is read as N, parameters"));
  EXPECT_THAT(found.text, HasSubstr("column \"final_loss\" is read as the loss"));
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
  EXPECT_EQ(commands, 9);
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
