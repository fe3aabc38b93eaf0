// Training, byte-exact round trips, quiet and repeatable.
#include "smelt/data/tokenizer.h"

#include <random>
#include <sstream>

#include "helpers.h"

namespace smelt::data {
namespace {

Tokenizer train(const std::string& text, std::int64_t vocab_size) {
  auto lines = std::make_shared<std::istringstream>(text);
  auto line = std::make_shared<std::string>();
  return train_tokenizer(
      [=]() -> std::optional<std::string_view> {
        if (!std::getline(*lines, *line)) return std::nullopt;
        return *line;
      },
      vocab_size);
}

const std::string& training_text() {
  static const std::string text = sample_text(20000, 1) + "  if (x1 == 234) { y\xC3\xA9s(); }\n";
  return text;
}

const Tokenizer& tokenizer() {
  static const Tokenizer made = train(training_text(), 400);
  return made;
}

TEST(Tokenizer, HasTheSpecialPiecesAndTheSizeAskedFor) {
  EXPECT_EQ(tokenizer().vocab_size(), 400);
  EXPECT_EQ(tokenizer().bos(), 1);
  EXPECT_EQ(tokenizer().eos(), 2);
  EXPECT_EQ(tokenizer().piece(1), "<s>");
  EXPECT_EQ(tokenizer().bytes_of(1), "");
  EXPECT_EQ(tokenizer().piece(3), "\n");
  EXPECT_EQ(tokenizer().piece(4), "\t");
}

TEST(Tokenizer, SplitsDigitsAndKeepsNewlinesApart) {
  const auto ids = tokenizer().encode("12\n\n3");
  std::vector<std::string> parts;
  for (const auto id : ids) parts.push_back(tokenizer().bytes_of(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"1", "2", "\n", "\n", "3"}));
}

TEST(Tokenizer, IsShorterThanBytesOnItsOwnText) {
  EXPECT_LT(tokenizer().encode(training_text()).size(), training_text().size() / 3);
}

TEST(Tokenizer, RoundTripsByteForByte) {
  const std::vector<std::string> texts = {"",
                                          " ",
                                          "  two  spaces  ",
                                          "\n\n\t x\r\n",
                                          "caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80",
                                          "\xE2\x96\x81 is the sign for a space\xE2\x96\x81",
                                          "\xE2\x96\x85 and \xE2\x81\x87",
                                          std::string("nul \0 byte", 10),
                                          "<s></s><unk><0x0A>",
                                          "bad \xFF\xC3( \xED\xA0\x80 \xE2\x96",
                                          "\xEF\xBB\xBF mark",
                                          "e\xCC\x81 not composed"};
  for (const std::string& text : texts) {
    EXPECT_EQ(tokenizer().decode(tokenizer().encode(text)), text);
  }
}

TEST(Tokenizer, RoundTripsRandomBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 60, '\0');
    for (char& c : text)
      c = static_cast<char>(round % 2 ? random() % 256 : "a \n\xE2\x96\x81\xC3\xA9z"[random() % 9]);
    EXPECT_EQ(tokenizer().decode(tokenizer().encode(text)), text);
  }
}

TEST(Tokenizer, SaysWhichIdsAreBytes) {
  const auto ids = tokenizer().encode("\xF0\x9F\x98\x80");
  ASSERT_EQ(ids.size(), 4u);
  for (const auto id : ids) EXPECT_TRUE(tokenizer().is_byte(id));
  EXPECT_FALSE(tokenizer().is_byte(1));
  EXPECT_FALSE(tokenizer().is_byte(-1));
  EXPECT_EQ(tokenizer().bytes_of(ids[0]), "\xF0");
}

TEST(Tokenizer, ReservedPiecesAreNotReadOutOfText) {
  for (const auto id : tokenizer().encode("<s></s>")) EXPECT_GT(id, 2);
}

TEST(Tokenizer, TrainingIsRepeatable) {
  EXPECT_EQ(train(training_text(), 400).bytes(), tokenizer().bytes());
  EXPECT_EQ(train(training_text(), 400).hash(), tokenizer().hash());
  EXPECT_NE(train(training_text(), 399).hash(), tokenizer().hash());
}

TEST(Tokenizer, TrainingAndErrorsAreQuiet) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  train(training_text(), 350).encode("x");
  error_of([] { train("few words\n", 5000); });
  error_of([] { Tokenizer::from_bytes("nonsense", "x"); });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Tokenizer, SaysWhenTheTextIsTooSmall) {
  const std::string text = error_of([] { train("few words\n", 5000); });
  EXPECT_NE(text.find("cannot train a tokenizer of 5000 pieces"), std::string::npos) << text;
  EXPECT_NE(error_of([] { train("", 400); }).find("no text to train a tokenizer on"),
            std::string::npos);
}

TEST(Tokenizer, LoadsFilesAndFolders) {
  TempFolder folder;
  const auto file = folder.write("tokenizer.model", tokenizer().bytes());
  EXPECT_EQ(Tokenizer::load(file).hash(), tokenizer().hash());
  EXPECT_EQ(Tokenizer::load(folder.path()).hash(), tokenizer().hash());
}

TEST(Tokenizer, RefusesOtherFiles) {
  TempFolder folder;
  const auto broken = folder.write("a.model", "nonsense");
  EXPECT_EQ(error_of([&] { Tokenizer::load(broken); }),
            "[data] not a sentencepiece model (" + broken.string() + ")");
  EXPECT_NE(error_of([&] { Tokenizer::load(folder / "gone.model"); }).find("gone.model"),
            std::string::npos);
  const auto json = folder.write("hf/tokenizer.json", "{}");
  EXPECT_NE(error_of([&] {
              Tokenizer::load(json.parent_path());
            }).find("only a sentencepiece .model file"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              tokenizer().decode(std::vector<std::int32_t>{400});
            }).find("token id 400 is outside the vocabulary of 400"),
            std::string::npos);
}

}  // namespace
}  // namespace smelt::data
