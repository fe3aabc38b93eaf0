#include "smelt/core/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <vector>

#include "smelt/core/error.h"

namespace smelt {
namespace {

std::string to_hex(XXH128_hash_t hash) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text.data();
}

}  // namespace

std::uint64_t hash64(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

std::string hash_bytes(const void* data, std::size_t size) {
  return to_hex(XXH3_128bits(data, size));
}

std::string hash_text(std::string_view text) {
  return hash_bytes(text.data(), text.size());
}

std::string hash_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error("core", "cannot open file", file.string());
  Hasher hasher;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hasher.update(buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) throw Error("core", "cannot read file", file.string());
  return hasher.digest();
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(new State) {
  XXH3_128bits_reset(&state_->xxh);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(const void* data, std::size_t size) {
  XXH3_128bits_update(&state_->xxh, data, size);
}

std::string Hasher::digest() const {
  return to_hex(XXH3_128bits_digest(&state_->xxh));
}

}  // namespace smelt
