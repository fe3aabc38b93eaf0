// Content hashes (XXH3): file integrity, data fingerprints, names of random streams.
//
//   std::string digest = hash_file("model.safetensors");   // 32 hex digits
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace smelt {

/// 64-bit hash of a text.
std::uint64_t hash64(std::string_view text);

/// 128-bit hash as 32 hex digits.
std::string hash_bytes(const void* data, std::size_t size);
std::string hash_text(std::string_view text);

/// 128-bit hash of a file's content; throws Error when it cannot be read.
std::string hash_file(const std::filesystem::path& file);

/// 128-bit hash of data that comes in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void update(const void* data, std::size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// 32 hex digits of everything so far.
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
