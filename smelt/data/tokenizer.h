// Text to token ids and back: a sentencepiece model, trained here or brought along.
//
//   Tokenizer tokenizer = Tokenizer::load("store");            // a .model file, or a folder that
//   holds one std::vector<std::int32_t> ids = tokenizer.encode("x = 1\n");   // no BOS, no EOS
//   tokenizer.decode(ids) == "x = 1\n";                        // byte for byte, for models trained
//   here
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::data {

/// Cheap to copy; every member is const and safe to call from several threads.
class Tokenizer {
 public:
  /// A sentencepiece `.model` file, or a folder (token store, checkpoint) with `tokenizer.model` in
  /// it. Throws Error when it is missing, broken, or a `tokenizer.json`.
  static Tokenizer load(const std::filesystem::path& path);
  /// From the bytes of such a file; `name` is used in messages.
  static Tokenizer from_bytes(std::string bytes, std::string_view name);

  /// Ids of a text, without BOS and EOS.  Any bytes are allowed: what is not UTF-8 becomes byte
  /// pieces where the model has them.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Text of ids; BOS, EOS and other control pieces give nothing.  Throws Error for an id outside
  /// [0, vocab_size).
  std::string decode(std::span<const std::int32_t> ids) const;
  /// Bytes that one id stands for (a token may be part of a character); "" for control pieces.
  std::string bytes_of(std::int32_t id) const;
  /// The piece as the model writes it: "<0x0A>", "▁the", "<s>".
  std::string piece(std::int32_t id) const;
  /// Whether the id is a byte-fallback piece.
  bool is_byte(std::int32_t id) const;

  std::int64_t vocab_size() const;
  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eos() const;
  /// The model file's content, and its 128-bit hash.
  const std::string& bytes() const;
  const std::string& hash() const;

 private:
  struct Model;
  explicit Tokenizer(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  std::shared_ptr<const Model> model_;
};

/// Gives the next line of training text (valid until the next call), or nothing at the end.
using LineSource = std::function<std::optional<std::string_view>()>;

/// Trains BPE with byte fallback, BOS and EOS: identity normalisation, split digits, whitespace
/// kept as it is, newline and tab as symbols of their own.  The same lines give the same model.
/// Throws Error when the text cannot fill `vocab_size` pieces.
Tokenizer train_tokenizer(const LineSource& next_line, std::int64_t vocab_size);

}  // namespace smelt::data
