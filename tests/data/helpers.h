// What the tests of smelt/data share: a folder that goes away, small texts, small stores.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/core/hash.h"
#include "smelt/data/store_writer.h"
#include "smelt/data/token_store.h"

namespace smelt::data {

/// A fresh folder, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "smelt-data-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(std::string_view name, std::string_view content) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The text of the Error that `work` throws, "" when it throws none.
template <class Work>
std::string error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// One document of a hand-made store: its tokens without BOS (1) and EOS (2).
struct HandMade {
  std::vector<std::int32_t> tokens;
  Pool pool = Pool::kStable;
};

/// A store of hand-made documents, all of one source; the "tokenizer" is a text.
inline TokenStore make_store(const std::filesystem::path& folder,
                             const std::vector<HandMade>& documents,
                             std::int64_t vocab_size = 1000) {
  StoreWriter writer(folder, vocab_size, 1, 2);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    DocumentRecord record;
    record.hash = hash64("document " + std::to_string(i));
    record.text_bytes = 3 * documents[i].tokens.size();
    record.pool = documents[i].pool;
    writer.add(record, documents[i].tokens);
  }
  writer.finish({{"source"}, {"domain"}}, "not a model", Json::object());
  return TokenStore::open(folder);
}

/// `count` documents of 0 … 39 tokens; every token of the store has another id (from 3 on), so that
/// a test can tell where a token came from.
inline std::vector<HandMade> distinct_documents(int count, Pool pool = Pool::kStable) {
  std::vector<HandMade> documents;
  std::int32_t next = 3;
  for (int d = 0; d < count; ++d) {
    HandMade document{{}, pool};
    for (int i = 0; i < (d * 7 + d * d) % 40; ++i) document.tokens.push_back(next++);
    documents.push_back(document);
  }
  return documents;
}

/// English-like text of about `words` words, another one for each `seed`.
inline std::string sample_text(int words, unsigned seed) {
  static const char* const kWords[] = {"the",   "loop",    "of",     "a",       "model",   "runs",
                                       "twice", "over",    "its",    "middle",  "layers",  "and",
                                       "every", "token",   "pays",   "for",     "that",    "price",
                                       "in",    "compute", "memory", "routing", "experts", "while"};
  std::string text;
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (int i = 0; i < words; ++i) {
    state = state * 1664525u + 1013904223u;
    text += kWords[(state >> 16) % std::size(kWords)];
    text += (state >> 24) % 11 == 0 ? ".\n" : " ";
  }
  return text;
}

}  // namespace smelt::data
