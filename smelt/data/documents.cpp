#include "smelt/data/documents.h"

#include <simdjson.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "smelt/core/error.h"
#include "smelt/core/hash.h"
#include "smelt/data/input_file.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kShownProblems = 20;

/// "a/b.valid.jsonl.zst" → {"a/b", ".valid.jsonl"}: the name without compression, type and mark.
struct NameParts {
  std::string stem;
  bool jsonl = false;
  bool validation = false;
};

NameParts split_name(const std::string& file_name) {
  NameParts parts;
  fs::path name = file_name;
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  parts.jsonl = name.extension() == ".jsonl" || name.extension() == ".ndjson";
  parts.validation = file_name.find(".valid.") != std::string::npos;
  parts.stem = name.stem().string();
  if (const auto mark = parts.stem.find(".valid"); parts.validation && mark != std::string::npos) {
    parts.stem.resize(mark);
  }
  return parts;
}

InputFile describe(const fs::path& file, const std::string& name) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) {
    throw Error("data", std::string("cannot read input: ") + std::strerror(errno), file.string());
  }
  const NameParts parts = split_name(file.filename().string());
  InputFile input;
  input.path = file;
  input.name = name;
  input.bytes = static_cast<std::uint64_t>(status.st_size);
  input.modified = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  input.jsonl = parts.jsonl;
  input.validation = parts.validation;
  input.source = parts.stem;
  input.domain = parts.stem;
  return input;
}

/// Fills in the default source and domain of a file at `relative` below the input folder.
void name_by_folder(InputFile& input, const fs::path& folder, const fs::path& relative) {
  const std::string own_name =
      fs::absolute(folder / "x").lexically_normal().parent_path().filename();
  const fs::path parent = relative.parent_path();
  input.domain = parent.empty() ? own_name : parent.begin()->string();
  if (!input.jsonl) input.source = parent.empty() ? own_name : parent.generic_string();
}

std::vector<InputFile> list_folder(const fs::path& folder) {
  std::vector<InputFile> files;
  std::error_code code;
  fs::recursive_directory_iterator walk(folder, code), end;
  if (code) throw Error("data", "cannot list folder: " + code.message(), folder.string());
  for (; walk != end; walk.increment(code)) {
    if (code) throw Error("data", "cannot list folder: " + code.message(), folder.string());
    const std::string own = walk->path().filename().string();
    if (own.starts_with('.')) {
      if (walk->is_directory()) walk.disable_recursion_pending();
      continue;
    }
    if (walk->is_symlink() || !walk->is_regular_file()) continue;
    const fs::path relative = walk->path().lexically_relative(folder);
    files.push_back(describe(walk->path(), relative.generic_string()));
    name_by_folder(files.back(), folder, relative);
  }
  const auto is_jsonl = [](const InputFile& file) { return file.jsonl; };
  if (std::any_of(files.begin(), files.end(), is_jsonl)) {
    std::erase_if(files, [](const InputFile& file) { return !file.jsonl; });
  }
  std::sort(files.begin(), files.end(),
            [](const InputFile& a, const InputFile& b) { return a.name < b.name; });
  if (files.empty()) throw Error("data", "no text in this folder", folder.string());
  return files;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Collects the problems of one file, the first few in words.
class FileProblems {
 public:
  explicit FileProblems(const InputFile& file)
      : file_(file), problems_("data", file.path.string()) {}
  void add(std::size_t line, const std::string& message) {
    if (++count_ > kShownProblems) return;
    problems_.add(message, file_.path.string() + (line ? ":" + std::to_string(line) : ""));
  }
  /// A finished line of another error.
  void add(const Error& error) { stopped_ = error.what(); }
  void throw_if_any() {
    std::vector<std::string> lines = problems_.lines();
    if (count_ > kShownProblems) {
      lines.push_back("[data] and " + std::to_string(count_ - kShownProblems) +
                      " more problems of this kind (" + file_.path.string() + ")");
    }
    if (!stopped_.empty()) lines.push_back(stopped_);
    if (!lines.empty()) throw Error(lines);
  }

 private:
  const InputFile& file_;
  Problems problems_;
  std::size_t count_ = 0;
  std::string stopped_;
};

/// An optional string member; a wrong type is a problem.
std::string_view string_member(simdjson::dom::object object, const char* key,
                               std::string_view otherwise, std::string& problem) {
  simdjson::dom::element value;
  if (object[key].get(value) != simdjson::SUCCESS || value.is_null()) return otherwise;
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) {
    problem = std::string("\"") + key + "\" is not a string";
  } else if (text.empty()) {
    return otherwise;
  }
  return text;
}

/// The document of one JSON line, or a problem in words.
TextDocument parse_line(simdjson::dom::parser& parser, std::string_view line, const InputFile& file,
                        std::string& problem) {
  simdjson::dom::element root;
  if (const auto code = parser.parse(line.data(), line.size()).get(root); code) {
    problem = code == simdjson::UTF8_ERROR
                  ? "text is not valid UTF-8"
                  : std::string("broken JSON: ") + simdjson::error_message(code);
    return {};
  }
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) {
    problem = "expected a JSON object on each line";
    return {};
  }
  TextDocument document;
  simdjson::dom::element text;
  if (object["text"].get(text) != simdjson::SUCCESS) {
    problem = "missing key \"text\"";
  } else if (text.get(document.text) != simdjson::SUCCESS) {
    problem = "\"text\" is not a string";
  }
  if (problem.empty()) document.source = string_member(object, "source", file.source, problem);
  if (problem.empty()) document.domain = string_member(object, "domain", file.domain, problem);
  return document;
}

void read_jsonl(const InputFile& file, InputStream& in, ReadCounts& counts, FileProblems& problems,
                const std::function<void(const TextDocument&)>& visit) {
  simdjson::dom::parser parser;
  while (const auto found = in.next_line()) {
    std::string_view line = *found;
    if (in.line() == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (is_blank(line)) {
      ++counts.blank_lines;
      continue;
    }
    std::string problem;
    const TextDocument document = parse_line(parser, line, file, problem);
    if (!problem.empty()) {
      problems.add(in.line(), problem);
    } else if (document.text.empty()) {
      ++counts.empty_documents;
    } else {
      ++counts.documents;
      visit(document);
    }
  }
}

/// CRLF → LF, without a byte order mark.
std::string plain_text(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  std::size_t to = 0;
  for (std::size_t from = 0; from < text.size(); ++from) {
    if (text[from] == '\r' && from + 1 < text.size() && text[from + 1] == '\n') continue;
    text[to++] = text[from];
  }
  text.resize(to);
  return text;
}

/// Line of the first byte that is not part of valid UTF-8, or 0.
std::size_t first_bad_line(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return 0;
  std::size_t line = 1, start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (!simdjson::validate_utf8(text.data() + start, end - start)) return line;
    start = end + 1;
    ++line;
  }
  return line;
}

}  // namespace

std::vector<InputFile> list_inputs(const std::vector<fs::path>& inputs) {
  if (inputs.empty()) throw Error("data", "no input given");
  std::vector<InputFile> files;
  for (const fs::path& input : inputs) {
    std::error_code ignored;
    if (fs::is_directory(input, ignored)) {
      if (fs::exists(input / "tokens.bin", ignored)) {
        throw Error("data", "expected text, found a token store", input.string());
      }
      const auto found = list_folder(input);
      files.insert(files.end(), found.begin(), found.end());
      continue;
    }
    const std::string extension = input.extension().string();
    if (extension == ".bin" || extension == ".model" || extension == ".json") {
      throw Error("data", "expected JSONL (.jsonl) or plain text, got a " + extension + " file",
                  input.string());
    }
    files.push_back(describe(input, input.filename().string()));
  }
  return files;
}

ReadCounts read_documents(const InputFile& file,
                          const std::function<void(const TextDocument&)>& visit) {
  ReadCounts counts;
  FileProblems problems(file);
  InputStream in(file.path);
  try {
    if (file.jsonl) {
      read_jsonl(file, in, counts, problems, visit);
    } else {
      const std::string text = plain_text(in.rest());
      if (const std::size_t line = first_bad_line(text)) {
        problems.add(line, "text is not valid UTF-8");
      } else if (text.empty()) {
        ++counts.empty_documents;
      } else {
        ++counts.documents;
        visit({text, file.source, file.domain});
      }
    }
  } catch (const Error& error) {
    problems.add(error);
  }
  problems.throw_if_any();
  counts.hash = in.hash();
  return counts;
}

std::uint64_t content_hash(std::string_view text) {
  return hash64(text);
}

}  // namespace smelt::data
