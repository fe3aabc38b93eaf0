// `smelt data …` as a user calls it: exit codes, stdout, --json.
#include <array>
#include <cstdio>
#include <cstdlib>

#include "helpers.h"

namespace smelt::data {
namespace {

struct Ran {
  int code = 0;
  std::string out;
};

/// Runs the program; stderr is added to stdout with `errors`.
Ran run(const std::string& arguments, bool errors = false) {
  const std::string command =
      std::string(SMELT_BIN_DIR) + "/smelt " + arguments + (errors ? " 2>&1" : " 2>/dev/null");
  Ran ran;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> block;
  for (std::size_t n; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    ran.out.append(block.data(), n);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

class DataVerb : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new TempFolder;
    for (unsigned i = 0; i < 50; ++i) {
      folder->write("in/Web/t" + std::to_string(i) + ".txt", sample_text(100, i));
    }
    store = (*folder / "store").string();
    built = run("data build " + (*folder / "in").string() + " --out " + store +
                " --vocab-size 320 --json");
  }
  static void TearDownTestSuite() { delete folder; }
  static TempFolder* folder;
  static std::string store;
  static Ran built;
};
TempFolder* DataVerb::folder = nullptr;
std::string DataVerb::store;
Ran DataVerb::built;

TEST_F(DataVerb, Build) {
  ASSERT_EQ(built.code, 0);
  const Json json = Json::parse(built.out);
  EXPECT_EQ(json["schema"], "smelt.data.build/1");
  EXPECT_EQ(json["documents"], 50);
  EXPECT_EQ(json["already_built"], false);
  const Ran again =
      run("data build " + (*folder / "in").string() + " --out " + store + " --vocab-size 320");
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out.find("already built"), 0u);
  const Ran other = run(
      "data build " + (*folder / "in").string() + " --out " + store + " --vocab-size 330", true);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("vocab_size was 320, is 330"), std::string::npos);
}

TEST_F(DataVerb, Show) {
  const Ran text = run("data show " + store + " --row-length 64");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("bytes/token"), std::string::npos);
  EXPECT_NE(text.out.find("rows of 64"), std::string::npos);
  const Json json = Json::parse(run("data show " + store + " --row-length 64 --json").out);
  EXPECT_EQ(json["schema"], "smelt.data.show/1");
  EXPECT_EQ(json["all"]["documents"], 50);
  EXPECT_EQ(json["domains"][0]["name"], "Web");
  EXPECT_EQ(json["sources"][0]["domain"], "Web");
  EXPECT_GT(json["mean_attended"].get<double>(), 10);
  EXPECT_LE(json["all"]["tokens_per_document"]["p10"], json["all"]["tokens_per_document"]["p99"]);
}

TEST_F(DataVerb, Check) {
  EXPECT_EQ(run("data check " + store).code, 0);
  EXPECT_EQ(Json::parse(run("data check " + store + " --json").out)["passed"], true);
  const auto damaged = *folder / "damaged";
  std::filesystem::copy(store, damaged);
  std::fstream io(damaged / "tokens.bin", std::ios::in | std::ios::out | std::ios::binary);
  io.seekp(100);
  io.put(static_cast<char>(io.peek() ^ 1));
  io.close();
  const Ran text = run("data check " + damaged.string(), true);
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("tokens.bin"), std::string::npos);
  const Ran json = run("data check " + damaged.string() + " --json");
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(Json::parse(json.out)["passed"], false);
}

TEST_F(DataVerb, EncodeAndDecode) {
  const Ran ids = run("data encode " + store + " --text 'the loop'");
  EXPECT_EQ(ids.code, 0);
  EXPECT_EQ(run("data decode " + store + " " + ids.out).out, "the loop");
  EXPECT_EQ(run("data encode " + store + " --text 'a  b' | " + SMELT_BIN_DIR +
                "/smelt data decode " + store)
                .out,
            "a  b");
  EXPECT_EQ(run("data encode " + store + " --text '' --json").code, 0);
  const Json json = Json::parse(run("data encode " + store + " --text '1' --json").out);
  EXPECT_EQ(json["ids"].size(), 1u);
  EXPECT_EQ(json["pieces"][0], "<0x31>");  // no digits in the training text
  EXPECT_EQ(Json::parse(run("data decode " + store + " 3 --json").out)["text"], "\n");
  const Ran bad = run("data decode " + store + " 320", true);
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.out.find("token id 320 is outside the vocabulary of 320"), std::string::npos);
}

TEST_F(DataVerb, UsageAndHelp) {
  EXPECT_EQ(run("data").code, 2);
  EXPECT_EQ(run("data build x").code, 2);
  EXPECT_EQ(run("data build x --out y --vocab-size 5").code, 2);
  EXPECT_EQ(run("data show /nowhere").code, 1);
  const std::string help = run("data build --help").out;
  for (const char* flag :
       {"--out", "--force", "--vocab-size", "--tokenizer", "--validation-fraction",
        "--tuning-fraction", "--decay-fraction", "--tokenizer-megabytes", "--threads", "Example"}) {
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace smelt::data
