#include "smelt/plan/study_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "smelt/core/file.h"

namespace smelt::plan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGood = R"(name = "t"
seeds = [1, 2]
[data]
store = "store"
row_length = 64
[baseline]
num_hidden_layers = 4
num_key_value_heads = 1
head_dim = 24
num_experts_per_tok = 2
[[scale]]
name = "a"
hidden_size = 32
num_attention_heads = 2
moe_intermediate_size = 16
experts = [8, 16]
[horizons]
steps = [10, 20]
decay_steps = 5
[train]
lr = 0.001
)";

class StudyConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    make_folder(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// All problems of the text, each on a line.
  std::string problems_of(const std::string& text) {
    const auto file = folder_ / "study.toml";
    write_file_atomic(file, text);
    Problems problems("plan", "study.toml");
    StudyConfig study = read_study_config(file, problems);
    study.train.to_json();
    study.router.to_json();
    study.file->report_unread(problems);
    std::string lines;
    for (const auto& line : problems.lines()) lines += line + "\n";
    return lines;
  }
  static std::string replaced(const char* from, const char* to) {
    std::string text = kGood;
    text.replace(text.find(from), std::string(from).size(), to);
    return text;
  }

  std::filesystem::path folder_;
};

TEST_F(StudyConfigTest, AGoodFileHasNoProblems) {
  EXPECT_EQ(problems_of(kGood), "");
}

TEST_F(StudyConfigTest, EveryProblemComesWithItsLine) {
  EXPECT_THAT(problems_of(replaced("seeds = [1, 2]", "seeds = [1, 1]")),
              HasSubstr("seeds: expected at least one number of at least 0, each once"));
  EXPECT_THAT(problems_of(replaced("seeds = [1, 2]", "seed = [1]")),
              HasSubstr("unknown key \"seed\"; did you mean \"seeds\"? (" +
                        (folder_ / "study.toml").string() + ":2)"));
  EXPECT_THAT(problems_of(replaced("store = \"store\"\n", "")), HasSubstr("missing key \"store\""));
  EXPECT_THAT(problems_of(replaced("head_dim = 24", "head_dim = 25")),
              HasSubstr("scale \"a\": head_dim: expected an even number"));
  EXPECT_THAT(problems_of(replaced("num_attention_heads = 2", "num_atention_heads = 2")),
              HasSubstr("did you mean \"num_attention_heads\"?"));
  EXPECT_THAT(problems_of(replaced("experts = [8, 16]", "experts = [1]")),
              HasSubstr("expected at most num_experts = 1, got 2"));
  EXPECT_THAT(problems_of(replaced("steps = [10, 20]", "steps = [20, 10]")),
              HasSubstr("each longer than the one before"));
  EXPECT_THAT(problems_of(replaced("decay_steps = 5", "")),
              HasSubstr("missing key \"decay_steps\""));
  EXPECT_THAT(problems_of(std::string(kGood) + "[loop]\nspan = 9\n"),
              HasSubstr("span: 9 layers do not fit into the 4 of scale \"a\" (" +
                        (folder_ / "study.toml").string() + ":23)"));
  EXPECT_THAT(problems_of(std::string(kGood) + "[rates]\ntry = [0.1, 0.2]\n"),
              HasSubstr("expected at least three rates"));
  EXPECT_THAT(problems_of(std::string(kGood) + "[rates]\ntry = [0.1, 0.2, 0.3]\nseed = 2\n"),
              HasSubstr("none of the study's seeds, got 2"));
  EXPECT_THAT(problems_of(replaced("[[scale]]\nname = \"a\"", "[[scale]]\nname = \"a b/c\"")),
              HasSubstr("scale name: expected letters"));
}

TEST_F(StudyConfigTest, SeveralProblemsAtOnce) {
  std::string text = replaced("seeds = [1, 2]", "seeds = []");
  text.replace(text.find("hidden_size = 32"), 16, "hidden_size = -1");
  const std::string lines = problems_of(text);
  EXPECT_THAT(lines, HasSubstr("seeds:"));
  EXPECT_THAT(lines, HasSubstr("hidden_size: expected 1 to 1000000000, got -1"));
}

TEST_F(StudyConfigTest, TheStoreIsRelativeToTheFile) {
  const auto file = folder_ / "study.toml";
  write_file_atomic(file, kGood);
  Problems problems("plan");
  EXPECT_EQ(read_study_config(file, problems).store, folder_ / "store");
}

TEST_F(StudyConfigTest, AModelFileIsOneScale) {
  write_file_atomic(folder_ / "config.json", R"({"model_type": "qwen3_moe", "vocab_size": 100,
    "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 24, "moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2})");
  const auto file = folder_ / "study.toml";
  write_file_atomic(file,
                    "[data]\nstore = \"s\"\n[baseline]\nconfig = \"config.json\"\n[horizons]\n"
                    "steps = [10]\ndecay_steps = 2\n");
  Problems problems("plan");
  const StudyConfig study = read_study_config(file, problems);
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(study.scales.size(), 1u);
  EXPECT_EQ(study.scales[0].baseline.vocab_size, 100);
  EXPECT_EQ(study.scales[0].experts, std::vector<std::int64_t>{8});
}

}  // namespace
}  // namespace smelt::plan
