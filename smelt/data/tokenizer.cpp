#include "smelt/data/tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/core/hash.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, sentencepiece's sign for a space

/// sentencepiece reports on stderr unless told otherwise.  The only public way to tell it is this
/// option.
void quiet() {
  sentencepiece::SentencePieceTrainer::MergeSpecsFromArgs(
      std::unordered_map<std::string, std::string>{{"minloglevel", "4"}}, nullptr, nullptr, nullptr)
      .IgnoreError();
}

/// Length of the valid UTF-8 character at the start of `text`, 0 when there is none (RFC 3629).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xC2   ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

/// Where the next stretch begins that the model does not see: its own space mark and bytes that are
/// not UTF-8, which it would not give back as they are, and newlines, at which pieces end anyway.
/// `length` is that stretch's.
std::size_t next_foreign(std::string_view text, std::size_t from, bool newlines,
                         std::size_t& length) {
  for (std::size_t i = from; i < text.size();) {
    const std::size_t size = character_length(text.substr(i));
    if (size == 0 || (newlines && text[i] == '\n') ||
        (size == 3 && text.substr(i, 3) == kSpaceMark)) {
      length = std::max<std::size_t>(size, 1);
      return i;
    }
    i += size;
  }
  length = 0;
  return text.size();
}

}  // namespace

struct Tokenizer::Model {
  sentencepiece::SentencePieceProcessor processor;
  std::string bytes;
  std::string hash;
  std::string name;
  std::vector<std::string> text_of;    // by id: the bytes it stands for
  std::vector<std::int32_t> byte_ids;  // by byte value; empty without byte fallback
  bool adds_space = false;             // the model puts a space in front of every text
  std::optional<std::int32_t>
      newline;  // id of "\n" where it is a symbol of its own: lines are encoded one by one

  void read_pieces();
  void find_newline();
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const;
};

void Tokenizer::Model::read_pieces() {
  const int size = processor.GetPieceSize();
  text_of.resize(static_cast<std::size_t>(size));
  std::vector<std::int32_t> found(256, -1);
  for (int id = 0; id < size; ++id) {
    std::string& text = text_of[static_cast<std::size_t>(id)];
    const std::string& piece = processor.IdToPiece(id);
    if (processor.IsControl(id)) continue;
    if (processor.IsUnknown(id)) {
      text = "\xEF\xBF\xBD";  // U+FFFD
    } else if (processor.IsByte(id)) {
      const int value = std::stoi(piece.substr(3, 2), nullptr, 16);  // "<0x0A>"
      text = std::string(1, static_cast<char>(value));
      found[static_cast<std::size_t>(value)] = id;
    } else {
      text = piece;
      for (auto at = text.find(kSpaceMark); at != std::string::npos;
           at = text.find(kSpaceMark, at)) {
        text.replace(at, kSpaceMark.size(), " ");
      }
    }
  }
  if (std::find(found.begin(), found.end(), -1) == found.end()) byte_ids = std::move(found);
  std::vector<std::string> pieces;
  processor.Encode("a", &pieces).IgnoreError();
  adds_space = !pieces.empty() && pieces.front().starts_with(kSpaceMark);
  find_newline();
}

/// Lines may be encoded one by one (faster on long documents) when no other piece holds a newline
/// and the model leaves the spaces around it alone.
void Tokenizer::Model::find_newline() {
  const auto holds_newline = [](const std::string& text) {
    return text.find('\n') != std::string::npos;
  };
  std::optional<std::int32_t> found;
  for (std::size_t id = 0; id < text_of.size(); ++id) {
    if (!holds_newline(text_of[id]) || processor.IsByte(static_cast<int>(id))) continue;
    if (found || text_of[id] != "\n") return;
    found = static_cast<std::int32_t>(id);
  }
  if (!found) return;
  std::vector<std::int32_t> whole, parts;
  encode_plain(" a  \n  b ", whole);
  encode_plain(" a  ", parts);
  parts.push_back(*found);
  encode_plain("  b ", parts);
  if (whole == parts) newline = found;
}

void Tokenizer::Model::encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::vector<int> found;
  const auto status = processor.Encode(absl::string_view(text.data(), text.size()), &found);
  if (!status.ok()) throw Error("data", "sentencepiece cannot encode: " + status.ToString(), name);
  ids.insert(ids.end(), found.begin(), found.end());
}

Tokenizer Tokenizer::load(const fs::path& path) {
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(path, ignored)) {
    file = path / "tokenizer.model";
    if (!fs::exists(file, ignored) && fs::exists(path / "tokenizer.json", ignored)) {
      file = path / "tokenizer.json";
    }
  }
  if (file.extension() == ".json") {
    throw Error("data",
                "a Hugging Face tokenizer.json cannot be used, only a sentencepiece .model file",
                file.string());
  }
  return from_bytes(read_file(file), file.string());
}

Tokenizer Tokenizer::from_bytes(std::string bytes, std::string_view name) {
  quiet();
  auto model = std::make_shared<Model>();
  model->name = name;
  const auto status = bytes.empty() ? sentencepiece::util::Status(
                                          sentencepiece::util::StatusCode::kInternal, "empty")
                                    : model->processor.LoadFromSerializedProto(bytes);
  if (!status.ok() || model->processor.GetPieceSize() == 0) {
    throw Error("data", "not a sentencepiece model", name);
  }
  model->hash = hash_text(bytes);
  model->bytes = std::move(bytes);
  model->read_pieces();
  return Tokenizer(std::move(model));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  if (model_->byte_ids.empty() || model_->adds_space) {
    model_->encode_plain(text, ids);
    return ids;
  }
  for (std::size_t from = 0; from < text.size();) {
    std::size_t length = 0;
    const std::size_t foreign = next_foreign(text, from, model_->newline.has_value(), length);
    model_->encode_plain(text.substr(from, foreign - from), ids);
    if (length == 1 && text[foreign] == '\n') {
      ids.push_back(*model_->newline);
      from = foreign + 1;
      continue;
    }
    for (const char c : text.substr(foreign, length)) {
      ids.push_back(model_->byte_ids[static_cast<unsigned char>(c)]);
    }
    from = foreign + length;
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  bool first = true;
  for (const std::int32_t id : ids) {
    std::string bytes = bytes_of(id);
    if (bytes.empty()) continue;
    if (first && model_->adds_space && bytes.front() == ' ') bytes.erase(0, 1);
    first = false;
    text += bytes;
  }
  return text;
}

std::string Tokenizer::bytes_of(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw Error("data",
                "token id " + std::to_string(id) + " is outside the vocabulary of " +
                    std::to_string(vocab_size()),
                model_->name);
  }
  return model_->text_of[static_cast<std::size_t>(id)];
}

std::string Tokenizer::piece(std::int32_t id) const {
  bytes_of(id);  // checks the range
  return model_->processor.IdToPiece(id);
}

bool Tokenizer::is_byte(std::int32_t id) const {
  return id >= 0 && id < vocab_size() && model_->processor.IsByte(id);
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(model_->text_of.size());
}

std::optional<std::int32_t> Tokenizer::bos() const {
  const int id = model_->processor.bos_id();
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

std::optional<std::int32_t> Tokenizer::eos() const {
  const int id = model_->processor.eos_id();
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

const std::string& Tokenizer::bytes() const {
  return model_->bytes;
}
const std::string& Tokenizer::hash() const {
  return model_->hash;
}

namespace {

/// Hands the lines of a LineSource to sentencepiece.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const LineSource& next) : next_(next) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    const auto line = next_();
    done_ = !line;
    value_ = line ? std::string(*line) : std::string();
  }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const LineSource& next_;
  std::string value_;
  bool done_ = false;
};

/// sentencepiece's "Internal: src/trainer.cc(…) [(…)] Vocabulary size too high (8192). …" without
/// its place.
std::string plain_reason(const std::string& text) {
  const auto end = text.rfind("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace

Tokenizer train_tokenizer(const LineSource& next_line, std::int64_t vocab_size) {
  quiet();
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"user_defined_symbols", "\n,\t"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"max_sentence_length", "65536"},
      {"num_threads", "1"},
      {"minloglevel", "4"},
  };
  Lines lines(next_line);
  if (lines.done()) throw Error("data", "no text to train a tokenizer on");
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &bytes);
  if (!status.ok()) {
    throw Error("data", "cannot train a tokenizer of " + std::to_string(vocab_size) +
                            " pieces: " + plain_reason(status.ToString()));
  }
  return Tokenizer::from_bytes(std::move(bytes), "the trained tokenizer");
}

}  // namespace smelt::data
