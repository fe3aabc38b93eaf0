// JSONL and text folders: what is read, skipped, refused, and how it is named.
#include "smelt/data/documents.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "helpers.h"

namespace smelt::data {
namespace {

struct Read {
  std::vector<std::string> texts, sources, domains;
  ReadCounts counts;
};

Read read_all(const std::filesystem::path& input) {
  Read read;
  for (const InputFile& file : list_inputs({input})) {
    read.counts = read_documents(file, [&](const TextDocument& document) {
      read.texts.emplace_back(document.text);
      read.sources.emplace_back(document.source);
      read.domains.emplace_back(document.domain);
    });
  }
  return read;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(compressBound(text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

TEST(Jsonl, ReadsKeysAndDefaults) {
  TempFolder folder;
  folder.write(
      "in/code/rust.jsonl",
      "{\"id\": 7, \"text\": \"a\\n\\u00e9\", \"source\": \"s\", \"domain\": \"Math/STEM\"}\n"
      "{\"text\": \"b\", \"source\": null}\n");
  const Read read = read_all(folder / "in");
  EXPECT_EQ(read.texts, (std::vector<std::string>{"a\n\xC3\xA9", "b"}));
  EXPECT_EQ(read.sources, (std::vector<std::string>{"s", "rust"}));
  EXPECT_EQ(read.domains, (std::vector<std::string>{"Math/STEM", "code"}));
}

TEST(Jsonl, CountsBlankLinesAndEmptyTexts) {
  TempFolder folder;
  const auto file = folder.write("a.jsonl", "\n{\"text\": \"\"}\n  \t\r\n{\"text\": \"x\"}\n\n");
  const Read read = read_all(file);
  EXPECT_EQ(read.texts, std::vector<std::string>{"x"});
  EXPECT_EQ(read.counts.blank_lines, 3u);
  EXPECT_EQ(read.counts.empty_documents, 1u);
  EXPECT_EQ(read.counts.documents, 1u);
}

TEST(Jsonl, AcceptsCrlfByteOrderMarkAndMissingLastNewline) {
  TempFolder folder;
  const auto file =
      folder.write("a.jsonl", "\xEF\xBB\xBF{\"text\": \"x\"}\r\n{\"text\": \"y\\r\\n\"}");
  EXPECT_EQ(read_all(file).texts, (std::vector<std::string>{"x", "y\r\n"}));
}

TEST(Jsonl, NamesEveryBadLine) {
  TempFolder folder;
  const auto file =
      folder.write("a.jsonl",
                   "{\"text\": \"good\"}\n{\"text\": 3}\n{\"txt\": \"x\"}\n[1]\n{\"text\": \"x\"\n"
                   "{\"text\": \"\xFF\"}\n{\"text\": \"x\", \"domain\": 5}\n");
  const std::string text = error_of([&] { read_all(file); });
  const std::string name = file.string();
  EXPECT_NE(text.find("[data] \"text\" is not a string (" + name + ":2)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("[data] missing key \"text\" (" + name + ":3)"), std::string::npos) << text;
  EXPECT_NE(text.find("[data] expected a JSON object on each line (" + name + ":4)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[data] broken JSON: "), std::string::npos) << text;
  EXPECT_NE(text.find(name + ":5)"), std::string::npos) << text;
  EXPECT_NE(text.find("[data] text is not valid UTF-8 (" + name + ":6)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("[data] \"domain\" is not a string (" + name + ":7)"), std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
}

TEST(Jsonl, ShowsTwentyProblemsAndCountsTheRest) {
  TempFolder folder;
  std::string lines;
  for (int i = 0; i < 33; ++i) lines += "{}\n";
  const auto file = folder.write("a.jsonl", lines);
  const std::string text = error_of([&] { read_all(file); });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_NE(text.find(":20)"), std::string::npos);
  EXPECT_EQ(text.find(":21)"), std::string::npos);
  EXPECT_NE(text.find("and 13 more problems"), std::string::npos) << text;
}

TEST(Compression, ReadsGzipAndZstd) {
  TempFolder folder;
  std::string lines;
  for (int i = 0; i < 30000; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
  const std::string twice = gzip("{\"text\": \"x\"}\n") + gzip("{\"text\": \"y\"}\n");
  EXPECT_EQ(read_all(folder.write("a.jsonl.gz", gzip(lines))).texts.size(), 30000u);
  const Read read = read_all(folder.write("b.jsonl.zst", zstd(lines)));
  ASSERT_EQ(read.texts.size(), 30000u);
  EXPECT_EQ(read.texts.back(), "document 29999");
  EXPECT_EQ(read.sources.back(), "b");
  EXPECT_EQ(read_all(folder.write("c.jsonl.gz", twice)).texts,
            (std::vector<std::string>{"x", "y"}));
}

TEST(Compression, NamesTruncatedAndDamagedStreams) {
  TempFolder folder;
  std::string lines;
  for (int i = 0; i < 30000; ++i)
    lines += "{\"text\": \"document " + std::to_string(i * 7919) + "\"}\n";
  for (const auto& [name, packed] :
       {std::pair{"a.jsonl.gz", gzip(lines)}, {"a.jsonl.zst", zstd(lines)}}) {
    const auto file = folder.write(name, packed.substr(0, packed.size() - 9));
    const std::string text = error_of([&] { read_all(file); });
    EXPECT_NE(text.find("compressed stream is cut short (" + file.string() + ")"),
              std::string::npos)
        << text;
    const auto plain = folder.write(name, "{\"text\": \"not compressed\"}\n");
    const std::string damaged = error_of([&] { read_all(plain); });
    EXPECT_NE(damaged.find("damaged"), std::string::npos) << damaged;
    EXPECT_NE(damaged.find(plain.string()), std::string::npos) << damaged;
  }
}

TEST(TextFolder, NamesSourcesAndDomainsByFolder) {
  TempFolder folder;
  folder.write("in/b/x/two.txt", "two\r\nlines\rkept");
  folder.write("in/b/one.md", "\xEF\xBB\xBFone");
  folder.write("in/top.txt", "top");
  folder.write("in/.hidden/no.txt", "no");
  const Read read = read_all((folder / "in").string() + "/");
  EXPECT_EQ(read.texts, (std::vector<std::string>{"one", "two\nlines\rkept", "top"}));
  EXPECT_EQ(read.sources, (std::vector<std::string>{"b", "b/x", "in"}));
  EXPECT_EQ(read.domains, (std::vector<std::string>{"b", "b", "in"}));
}

TEST(TextFolder, NamesTheLineThatIsNotUtf8) {
  TempFolder folder;
  const auto file = folder.write("in/a.txt", "good\nbad \xC3(\n");
  const std::string text = error_of([&] { read_all(folder / "in"); });
  EXPECT_EQ(text, "[data] text is not valid UTF-8 (" + file.string() + ":2)");
}

TEST(Inputs, JsonlLeavesOtherFilesAside) {
  TempFolder folder;
  folder.write("in/web/a.jsonl", "{\"text\": \"x\"}\n");
  folder.write("in/web/a.valid.jsonl", "{\"text\": \"y\"}\n");
  folder.write("in/manifest.json", "{}");
  const auto files = list_inputs({folder / "in"});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "web/a.jsonl");
  EXPECT_FALSE(files[0].validation);
  EXPECT_TRUE(files[1].validation);
  EXPECT_EQ(files[1].source, "a");
}

TEST(Inputs, RefusesWhatIsNotText) {
  TempFolder folder;
  std::filesystem::create_directories(folder / "empty");
  EXPECT_NE(error_of([&] { list_inputs({folder / "empty"}); }).find("no text in this folder"),
            std::string::npos);
  EXPECT_NE(error_of([&] { list_inputs({folder / "gone"}); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { list_inputs({}); }).find("no input given"), std::string::npos);
  const auto json = folder.write("a.json", "{}");
  EXPECT_NE(error_of([&] { list_inputs({json}); }).find("got a .json file"), std::string::npos);
  folder.write("store/tokens.bin", "x");
  EXPECT_NE(error_of([&] { list_inputs({folder / "store"}); }).find("found a token store"),
            std::string::npos);
}

}  // namespace
}  // namespace smelt::data
