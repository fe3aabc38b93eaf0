// From a text folder to rows, and every decision on the way: held out, duplicates, pools, rebuilds.
#include "smelt/data/build.h"

#include <algorithm>
#include <map>
#include <set>

#include "helpers.h"
#include "smelt/data/rows.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;

DataOptions small_options() {
  DataOptions options;
  options.vocab_size = 320;
  return options;
}

/// 60 text files in two domains.
void write_texts(const TempFolder& folder) {
  for (unsigned i = 0; i < 60; ++i) {
    const std::string name =
        std::string(i % 2 ? "Code/" : "Web/pages/") + "t" + std::to_string(i) + ".txt";
    folder.write("in/" + name, sample_text(40 + static_cast<int>(i) * 7, i));
  }
}

std::string jsonl(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += Json{{"text", text}}.dump() + "\n";
  return lines;
}

/// The texts of a pool, decoded.
std::multiset<std::string> texts_of(const TokenStore& store, Pool pool) {
  std::multiset<std::string> texts;
  const Tokenizer tokenizer = store.tokenizer();
  for (const std::uint64_t d : store.documents_of(pool))
    texts.insert(tokenizer.decode(store.document_tokens(d)));
  return texts;
}

TEST(Build, TextFolderEndToEnd) {
  TempFolder folder;
  write_texts(folder);
  const BuildResult built = build_store({folder / "in"}, folder / "store", small_options());
  EXPECT_FALSE(built.already_built);
  const TokenStore store = TokenStore::open(folder / "store");
  EXPECT_NO_THROW(store.verify());
  EXPECT_EQ(store.documents().size(), 60u);
  EXPECT_EQ(store.domains(), (std::vector<std::string>{"Code", "Web"}));
  EXPECT_EQ(store.sources(), (std::vector<std::string>{"Code", "Web/pages"}));
  std::multiset<std::string> all, expected;
  for (const auto& [pool, name] : EnumNames<Pool>::kNames) {
    const auto texts = texts_of(store, pool);
    EXPECT_FALSE(texts.empty()) << name;
    all.insert(texts.begin(), texts.end());
  }
  for (unsigned i = 0; i < 60; ++i) expected.insert(sample_text(40 + static_cast<int>(i) * 7, i));
  EXPECT_EQ(all, expected);  // every text, byte for byte, in exactly one pool
  RowStream rows(store, Pool::kStable, 1, 64);
  EXPECT_GT(rows.rows_per_epoch(), 10u);
  EXPECT_GT(mean_attended(store, 64), 20);
}

TEST(Build, IsRepeatableAtAnyThreadCount) {
  TempFolder folder;
  write_texts(folder);
  DataOptions one = small_options(), three = small_options();
  one.threads = 1;
  three.threads = 3;
  const auto a = build_store({folder / "in"}, folder / "a", one).manifest;
  const auto b = build_store({folder / "in"}, folder / "b", three).manifest;
  EXPECT_EQ(a["fingerprint"], b["fingerprint"]);
  EXPECT_EQ(a.dump(), b.dump());
}

TEST(Build, ValidationFilesDecideAndTheirTextsLeaveTraining) {
  TempFolder folder;
  std::vector<std::string> training;
  for (unsigned i = 0; i < 40; ++i) training.push_back(sample_text(60, i));
  const std::string held = sample_text(50, 777);
  training.push_back(held);
  folder.write("in/web/a.jsonl", jsonl(training));
  folder.write("in/web/a.valid.jsonl", jsonl({held, sample_text(50, 778)}));
  const BuildResult built = build_store({folder / "in"}, folder / "store", small_options());
  const TokenStore store = TokenStore::open(folder / "store");
  EXPECT_EQ(texts_of(store, Pool::kValidation),
            (std::multiset<std::string>{held, sample_text(50, 778)}));
  EXPECT_EQ(store.documents().size(), 42u);
  EXPECT_EQ(built.manifest["left_out"]["training_documents_also_in_validation"], 1);
  EXPECT_EQ(store.sources(), std::vector<std::string>{"a"});
  EXPECT_NO_THROW(store.verify());
}

TEST(Build, FractionHoldsOutOneTextPerSource) {
  TempFolder folder;
  for (const char* source : {"a", "b", "c"}) {
    std::vector<std::string> texts;
    for (unsigned i = 0; i < 30; ++i) texts.push_back(source + sample_text(40, i));
    folder.write(std::string("in/") + source + ".jsonl", jsonl(texts));
  }
  folder.write("in/single.jsonl",
               jsonl({"only one text in this source, which stays in training\n"}));
  DataOptions options = small_options();
  options.validation_fraction = 1e-9;
  build_store({folder / "in"}, folder / "store", options);
  const TokenStore store = TokenStore::open(folder / "store");
  std::map<std::string, int> held;
  for (const std::uint64_t d : store.documents_of(Pool::kValidation)) {
    ++held[store.sources()[store.documents()[d].source]];
  }
  EXPECT_EQ(held, (std::map<std::string, int>{{"a", 1}, {"b", 1}, {"c", 1}}));
}

TEST(Build, TheTokenizerNeverSeesHeldOutText) {
  TempFolder folder;
  std::vector<std::string> training;
  for (unsigned i = 0; i < 40; ++i) training.push_back(sample_text(60, i));
  folder.write("one/a.jsonl", jsonl(training));
  folder.write("one/a.valid.jsonl", jsonl({"zyxw zyxw zyxw zyxw zyxw"}));
  folder.write("two/a.jsonl", jsonl(training));
  folder.write("two/a.valid.jsonl", jsonl({"qqqq qqqq qqqq qqqq qqqq"}));
  build_store({folder / "one"}, folder / "s1", small_options());
  build_store({folder / "two"}, folder / "s2", small_options());
  EXPECT_EQ(slurp(folder / "s1/tokenizer.model"), slurp(folder / "s2/tokenizer.model"));
}

TEST(Build, UsesATokenizerOfTheUser) {
  TempFolder folder;
  write_texts(folder);
  build_store({folder / "in"}, folder / "a", small_options());
  DataOptions options;
  options.tokenizer = (folder / "a/tokenizer.model").string();
  const auto built = build_store({folder / "in"}, folder / "b", options);
  EXPECT_EQ(built.manifest["vocab_size"], 320);
  EXPECT_EQ(built.manifest["fingerprint"], TokenStore::open(folder / "a").fingerprint());
}

TEST(Build, AFinishedStoreIsLeftAlone) {
  TempFolder folder;
  write_texts(folder);
  build_store({folder / "in"}, folder / "store", small_options());
  const auto written = fs::last_write_time(folder / "store/manifest.json");
  EXPECT_TRUE(build_store({folder / "in"}, folder / "store", small_options()).already_built);
  // A fresh copy of the same files counts as the same.
  fs::copy(folder / "in", folder / "copy", fs::copy_options::recursive);
  fs::remove_all(folder / "in");
  fs::rename(folder / "copy", folder / "in");
  EXPECT_TRUE(build_store({folder / "in"}, folder / "store", small_options()).already_built);
  EXPECT_EQ(fs::last_write_time(folder / "store/manifest.json"), written);
}

TEST(Build, AnotherRequestSaysWhatDiffersUntilForced) {
  TempFolder folder;
  write_texts(folder);
  build_store({folder / "in"}, folder / "store", small_options());
  DataOptions options = small_options();
  options.vocab_size = 330;
  std::string text = error_of([&] { build_store({folder / "in"}, folder / "store", options); });
  EXPECT_NE(text.find("vocab_size was 320, is 330"), std::string::npos) << text;
  EXPECT_NE(text.find("--force"), std::string::npos) << text;
  folder.write("in/Code/t1.txt", "other text");
  folder.write("in/Code/new.txt", "new text");
  fs::remove(folder / "in/Code/t3.txt");
  text = error_of([&] { build_store({folder / "in"}, folder / "store", small_options()); });
  EXPECT_NE(text.find("input Code/t1.txt has changed"), std::string::npos) << text;
  EXPECT_NE(text.find("input Code/new.txt is new"), std::string::npos) << text;
  EXPECT_NE(text.find("input Code/t3.txt is gone"), std::string::npos) << text;
  EXPECT_FALSE(build_store({folder / "in"}, folder / "store", options, true).already_built);
  EXPECT_EQ(TokenStore::open(folder / "store").vocab_size(), 330);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);
}

TEST(Build, NeverOverwritesOtherFolders) {
  TempFolder folder;
  write_texts(folder);
  folder.write("mine/letter.txt", "precious");
  const std::string text =
      error_of([&] { build_store({folder / "in"}, folder / "mine", small_options(), true); });
  EXPECT_NE(text.find("not a token store; nothing was overwritten"), std::string::npos) << text;
  EXPECT_EQ(slurp(folder / "mine/letter.txt"), "precious");
}

TEST(Build, NothingToReadIsAnError) {
  TempFolder folder;
  folder.write("in/a.jsonl", "\n\n{\"text\": \"\"}\n");
  EXPECT_NE(error_of([&] {
              build_store({folder / "in"}, folder / "store", small_options());
            }).find("the input holds no documents"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "store"));
}

TEST(Build, ProblemsOfAllFilesComeAtOnce) {
  TempFolder folder;
  folder.write("in/a.jsonl", "{\"text\": 1}\n");
  folder.write("in/b.jsonl", "{}\n");
  const std::string text =
      error_of([&] { build_store({folder / "in"}, folder / "store", small_options()); });
  EXPECT_NE(text.find("a.jsonl:1)"), std::string::npos) << text;
  EXPECT_NE(text.find("b.jsonl:1)"), std::string::npos) << text;
}

TEST(Build, OptionsOutOfRangeAreRefused) {
  DataOptions options;
  options.vocab_size = 10;
  options.decay_fraction = 2;
  const std::string text = error_of([&] { build_store({"x"}, "y", options); });
  EXPECT_NE(text.find("vocab_size: expected 300 to"), std::string::npos) << text;
  EXPECT_NE(text.find("decay_fraction"), std::string::npos) << text;
}

TEST(Build, WarnsWithoutValidationAndReportsProgress) {
  TempFolder folder;
  write_texts(folder);
  DataOptions options = small_options();
  options.validation_fraction = 0;
  std::vector<std::string> lines;
  std::set<std::string> tasks;
  build_store(
      {folder / "in"}, folder / "store", options, false,
      [&](const ProgressEvent& event) { tasks.insert(event.task); },
      [&](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no validation documents"), std::string::npos);
  EXPECT_TRUE(tasks.contains("read") && tasks.contains("encode"));
}

}  // namespace
}  // namespace smelt::data
