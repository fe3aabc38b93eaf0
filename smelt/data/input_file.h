// Bytes of a file, decompressed when its name ends in .gz or .zst, and the lines in them.
//
//   InputStream in("corpus.jsonl.zst");
//   while (auto line = in.next_line()) use(*line);
//   in.hash();    // of the compressed bytes
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "smelt/core/hash.h"

namespace smelt::data {

/// Turns compressed bytes into plain ones, piece by piece.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Appends what `input` decodes to.  Throws Error (without place) when the stream is damaged.
  virtual void decode(std::string_view input, std::string& output) = 0;
  /// False in the middle of a compressed frame.
  virtual bool complete() const = 0;
};

class InputStream {
 public:
  /// Throws Error naming the file when it cannot be opened.
  explicit InputStream(const std::filesystem::path& file);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// The next line without its LF; valid until the next call.  Throws Error for a stream that is
  /// damaged or cut short.
  std::optional<std::string_view> next_line();
  /// Everything that is left.
  std::string rest();
  /// Lines handed out so far.
  std::size_t line() const { return line_; }
  /// Hash of the bytes on disk, once all is read.
  std::string hash() const { return hasher_.digest(); }

 private:
  bool fill();

  std::string name_;
  int file_ = -1;
  bool ended_ = false;
  std::unique_ptr<Decoder> decoder_;
  std::string raw_, buffer_;
  std::size_t start_ = 0;  // of what is not handed out yet
  std::size_t line_ = 0;
  Hasher hasher_;
};

}  // namespace smelt::data
