// Text documents out of JSONL files and folders of plain text, .gz and .zst read transparently.
//
//   JSONL   one object per line: "text", and optionally "source", "domain", "id"; blank lines are
//   skipped text    one file = one document; CRLF becomes LF, a byte order mark is dropped
//
// A folder with a .jsonl file in it is read as JSONL (other files are left aside), else every file
// is a text. By default the source is the JSONL file's name or the text file's folder, the domain
// the top sub-folder of the input, or the input's own name.  A file named *.valid.* holds
// validation documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::data {

struct InputFile {
  std::filesystem::path path;
  std::string name;  // relative to the input; what messages and fingerprints use
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds
  bool jsonl = false;
  bool validation = false;
  std::string source;  // defaults
  std::string domain;
};

/// Every file of the inputs, each input's in the order of their names.  Throws Error for inputs
/// that are missing or hold nothing, and for a tokenizer or model file given as text.
std::vector<InputFile> list_inputs(const std::vector<std::filesystem::path>& inputs);

struct TextDocument {
  std::string_view text;  // valid UTF-8, valid during the call only
  std::string_view source;
  std::string_view domain;
};

struct ReadCounts {
  std::uint64_t documents = 0;
  std::uint64_t blank_lines = 0;
  std::uint64_t empty_documents = 0;  // no text at all: skipped
  std::string hash;                   // of the file as it is on disk
};

/// Calls `visit` for every document of a file.  Throws one Error with the first 20 problems and the
/// number of the others: broken JSON, "text" missing or not a string, text that is not UTF-8, a
/// compressed stream cut short.
ReadCounts read_documents(const InputFile& file,
                          const std::function<void(const TextDocument&)>& visit);

/// Content hash of a document: decides held-out documents, pools and duplicates.
std::uint64_t content_hash(std::string_view text);

}  // namespace smelt::data
