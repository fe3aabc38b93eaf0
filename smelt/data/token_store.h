// A token store: a folder with every document as token ids, cut into pools once and for all.
//
//   tokens.bin      u16 or u32 ids; each document is BOS, its tokens, EOS
//   documents.bin   one DocumentRecord per document
//   manifest.json   schema "smelt.store/1": counts, hashes, names, build options
//   tokenizer.model
//
//   TokenStore store = TokenStore::open("data/quick");
//   for (std::uint64_t d : store.documents_of(Pool::kValidation)) use(store.document_tokens(d));
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/json.h"
#include "smelt/data/tokenizer.h"

namespace smelt::data {

/// What a document is for.  Disjoint; decided at build by content hash.
enum class Pool : std::uint8_t {
  kStable,      // training before the decay
  kDecay,       // fresh tokens for decay branches
  kTuning,      // never trained on: learning-rate trials are scored on it
  kValidation,  // never trained on: endpoints are scored on it
};
inline constexpr int kPoolCount = 4;

/// One line of documents.bin (40 bytes, little endian).
struct DocumentRecord {
  std::uint64_t offset = 0;      // first token in tokens.bin, counted in tokens
  std::uint64_t length = 0;      // tokens, BOS and EOS included
  std::uint64_t hash = 0;        // content hash of the text
  std::uint64_t text_bytes = 0;  // UTF-8 bytes of the text
  std::uint32_t source = 0;      // index into sources()
  std::uint16_t domain = 0;      // index into domains()
  Pool pool = Pool::kStable;
  std::uint8_t reserved = 0;
};
static_assert(sizeof(DocumentRecord) == 40);

/// A store opened for reading (memory-mapped).  Cheap to copy; safe to read from several threads.
class TokenStore {
 public:
  /// Throws Error when something is missing or version, sizes and counts do not agree.
  static TokenStore open(const std::filesystem::path& folder);

  std::span<const DocumentRecord> documents() const;
  /// Indices of a pool's documents, ascending.
  const std::vector<std::uint64_t>& documents_of(Pool pool) const;
  std::uint64_t token_count() const;
  std::uint64_t token_count(Pool pool) const;
  /// Copies tokens [offset, offset + out.size()) of tokens.bin.
  void copy_tokens(std::uint64_t offset, std::span<std::int32_t> out) const;
  /// BOS, tokens, EOS.
  std::vector<std::int32_t> document_tokens(std::uint64_t document) const;

  const std::vector<std::string>& sources()
      const;  // names; "name" or, if shared by domains, several times
  const std::vector<std::string>& domains() const;
  std::int64_t vocab_size() const;
  std::int32_t bos() const;
  std::int32_t eos() const;
  /// Hash over tokens, documents and tokenizer (32 hex digits).
  const std::string& fingerprint() const;
  const Json& manifest() const;
  const std::filesystem::path& folder() const;
  /// The tokenizer in the folder (loaded at each call).
  Tokenizer tokenizer() const;

  /// Reads everything: content hashes, ids below vocab_size, BOS and EOS at document edges, no
  /// validation or tuning text in training.  Throws one Error with all problems ("tokens.bin: token
  /// id 70000 at offset 12 …").
  void verify() const;

 private:
  struct State;
  explicit TokenStore(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace smelt::data

template <>
struct smelt::EnumNames<smelt::data::Pool> {
  static constexpr std::pair<smelt::data::Pool, const char*> kNames[] = {
      {smelt::data::Pool::kStable, "stable"},
      {smelt::data::Pool::kDecay, "decay"},
      {smelt::data::Pool::kTuning, "tuning"},
      {smelt::data::Pool::kValidation, "validation"}};
};
