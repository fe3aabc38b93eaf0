#include "smelt/data/token_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "smelt/core/error.h"
#include "smelt/core/hash.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "token stores are little endian");

/// A whole file, mapped for reading.
class Mapping {
 public:
  Mapping(const fs::path& file, std::uint64_t expected) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      throw Error("data", std::string("cannot open file: ") + std::strerror(errno), file.string());
    struct stat status{};
    const bool known = ::fstat(fd, &status) == 0;
    size_ = known ? static_cast<std::size_t>(status.st_size) : 0;
    if (size_ == expected && size_ > 0)
      data_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    const int code = errno;
    ::close(fd);
    if (size_ != expected) {
      throw Error("data",
                  "expected " + std::to_string(expected) + " bytes, found " + std::to_string(size_),
                  file.string());
    }
    if (data_ == MAP_FAILED) {
      throw Error("data", std::string("cannot map file: ") + std::strerror(code), file.string());
    }
  }
  ~Mapping() {
    if (data_ && data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const void* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

struct FileEntry {
  std::uint64_t bytes = 0;
  std::string hash;
};

FileEntry file_entry(const Json& manifest, const char* name, const std::string& where) {
  const Json files = json_get<Json>(manifest, "files", where);
  const Json entry = json_get<Json>(files, name, where);
  return {json_get<std::uint64_t>(entry, "bytes", where),
          json_get<std::string>(entry, "hash", where)};
}

}  // namespace

struct TokenStore::State {
  fs::path folder;
  Json manifest;
  std::string fingerprint;
  std::int64_t vocab_size = 0;
  std::int32_t bos = 0, eos = 0;
  bool wide = false;  // u32
  std::vector<std::string> sources, domains;
  std::unique_ptr<Mapping> tokens_file, documents_file;
  std::uint64_t tokens = 0;
  std::span<const DocumentRecord> documents;
  std::array<std::vector<std::uint64_t>, kPoolCount> pools;
  std::array<std::uint64_t, kPoolCount> pool_tokens{};

  void read_manifest();
  void check_records();
  std::uint32_t token(std::uint64_t offset) const {
    return wide ? static_cast<const std::uint32_t*>(tokens_file->data())[offset]
                : static_cast<const std::uint16_t*>(tokens_file->data())[offset];
  }
};

void TokenStore::State::read_manifest() {
  const fs::path file = folder / "manifest.json";
  const std::string where = file.string();
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error("data", "no token store here", folder.string());
  if (!fs::exists(file, ignored)) {
    throw Error("data", "not a token store: it has no manifest.json", folder.string());
  }
  manifest = read_json(file);
  const auto schema = json_get<std::string>(manifest, "schema", where);
  if (schema != "smelt.store/1") {
    throw Error("data",
                "expected a token store of schema \"smelt.store/1\", got \"" + schema + "\"",
                where);
  }
  if (const auto version = json_get<std::int64_t>(manifest, "version", where); version != 1) {
    throw Error("data", "expected version 1, got " + std::to_string(version), where);
  }
  fingerprint = json_get<std::string>(manifest, "fingerprint", where);
  vocab_size = json_get<std::int64_t>(manifest, "vocab_size", where);
  bos = json_get<std::int32_t>(manifest, "bos", where);
  eos = json_get<std::int32_t>(manifest, "eos", where);
  tokens = json_get<std::uint64_t>(manifest, "tokens", where);
  const auto dtype = json_get<std::string>(manifest, "dtype", where);
  if (dtype != "u16" && dtype != "u32") {
    throw Error("data", "dtype: expected u16 or u32, got \"" + dtype + "\"", where);
  }
  wide = dtype == "u32";
  if (!wide && vocab_size > 65536) {
    throw Error("data", "a vocabulary of " + std::to_string(vocab_size) + " does not fit in u16",
                where);
  }
  const Json counts = json_get<Json>(manifest, "counts", where);
  for (const Json& line : json_get<Json>(counts, "sources", where)) {
    sources.push_back(json_get<std::string>(line, "name", where));
  }
  for (const Json& line : json_get<Json>(counts, "domains", where)) {
    domains.push_back(json_get<std::string>(line, "name", where));
  }
}

/// Documents must lie one after the other and fill the store.
void TokenStore::State::check_records() {
  const std::string where = (folder / "documents.bin").string();
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < documents.size(); ++i) {
    const DocumentRecord& record = documents[i];
    const bool known = record.source < sources.size() && record.domain < domains.size() &&
                       static_cast<int>(record.pool) < kPoolCount;
    if (!known || record.offset != next || record.length < 2 || record.length > tokens - next) {
      throw Error("data", "document " + std::to_string(i) + " is damaged", where);
    }
    next += record.length;
    const auto pool = static_cast<std::size_t>(record.pool);
    pools[pool].push_back(i);
    pool_tokens[pool] += record.length;
  }
  if (next != tokens) {
    throw Error("data",
                "documents hold " + std::to_string(next) + " tokens, the manifest says " +
                    std::to_string(tokens),
                where);
  }
}

TokenStore TokenStore::open(const fs::path& folder) {
  auto state = std::make_shared<State>();
  state->folder = folder;
  state->read_manifest();
  const std::string where = (folder / "manifest.json").string();
  const auto count = json_get<std::uint64_t>(state->manifest, "documents", where);
  const std::uint64_t token_bytes = state->tokens * (state->wide ? 4 : 2);
  if (file_entry(state->manifest, "tokens.bin", where).bytes != token_bytes ||
      file_entry(state->manifest, "documents.bin", where).bytes != count * sizeof(DocumentRecord)) {
    throw Error("data", "counts and file sizes do not agree", where);
  }
  state->tokens_file = std::make_unique<Mapping>(folder / "tokens.bin", token_bytes);
  state->documents_file =
      std::make_unique<Mapping>(folder / "documents.bin", count * sizeof(DocumentRecord));
  state->documents = {static_cast<const DocumentRecord*>(state->documents_file->data()), count};
  state->check_records();
  return TokenStore(std::move(state));
}

std::span<const DocumentRecord> TokenStore::documents() const {
  return state_->documents;
}
const std::vector<std::uint64_t>& TokenStore::documents_of(Pool pool) const {
  return state_->pools[static_cast<std::size_t>(pool)];
}
std::uint64_t TokenStore::token_count() const {
  return state_->tokens;
}
std::uint64_t TokenStore::token_count(Pool pool) const {
  return state_->pool_tokens[static_cast<std::size_t>(pool)];
}

void TokenStore::copy_tokens(std::uint64_t offset, std::span<std::int32_t> out) const {
  if (offset > state_->tokens || out.size() > state_->tokens - offset) {
    throw Error("data",
                "tokens " + std::to_string(offset) + " … " + std::to_string(offset + out.size()) +
                    " are outside the store's " + std::to_string(state_->tokens),
                state_->folder.string());
  }
  const auto limit = static_cast<std::uint32_t>(state_->vocab_size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t id = state_->token(offset + i);
    if (id >= limit) {
      throw Error("data",
                  "token id " + std::to_string(id) + " at offset " + std::to_string(offset + i) +
                      " is outside the vocabulary of " + std::to_string(limit),
                  (state_->folder / "tokens.bin").string());
    }
    out[i] = static_cast<std::int32_t>(id);
  }
}

std::vector<std::int32_t> TokenStore::document_tokens(std::uint64_t document) const {
  if (document >= state_->documents.size()) {
    throw Error("data",
                "no document " + std::to_string(document) + " among " +
                    std::to_string(state_->documents.size()),
                state_->folder.string());
  }
  const DocumentRecord& record = state_->documents[document];
  std::vector<std::int32_t> tokens(record.length);
  copy_tokens(record.offset, tokens);
  return tokens;
}

const std::vector<std::string>& TokenStore::sources() const {
  return state_->sources;
}
const std::vector<std::string>& TokenStore::domains() const {
  return state_->domains;
}
std::int64_t TokenStore::vocab_size() const {
  return state_->vocab_size;
}
std::int32_t TokenStore::bos() const {
  return state_->bos;
}
std::int32_t TokenStore::eos() const {
  return state_->eos;
}
const std::string& TokenStore::fingerprint() const {
  return state_->fingerprint;
}
const Json& TokenStore::manifest() const {
  return state_->manifest;
}
const fs::path& TokenStore::folder() const {
  return state_->folder;
}
Tokenizer TokenStore::tokenizer() const {
  return Tokenizer::load(state_->folder);
}

void TokenStore::verify() const {
  const State& store = *state_;
  Problems problems("data", store.folder.string());
  const std::string manifest_name = (store.folder / "manifest.json").string();
  const std::string tokens_name = (store.folder / "tokens.bin").string();
  for (const char* name : {"tokens.bin", "documents.bin", "tokenizer.model"}) {
    const std::string file = (store.folder / name).string();
    const FileEntry entry = file_entry(store.manifest, name, manifest_name);
    try {
      if (const std::string hash = hash_file(file); hash != entry.hash) {
        problems.add(
            "content does not match the manifest: hash " + hash + " instead of " + entry.hash,
            file);
      }
    } catch (const Error& error) {
      problems.add(error.what());
    }
  }
  for (std::uint64_t i = 0; i < store.tokens; ++i) {
    if (store.token(i) < static_cast<std::uint64_t>(store.vocab_size)) continue;
    problems.add("token id " + std::to_string(store.token(i)) + " at offset " + std::to_string(i) +
                     " is outside the vocabulary of " + std::to_string(store.vocab_size),
                 tokens_name);
    break;
  }
  std::unordered_set<std::uint64_t> trained;
  for (const DocumentRecord& record : store.documents) {
    if (record.pool == Pool::kStable || record.pool == Pool::kDecay) trained.insert(record.hash);
  }
  for (std::uint64_t i = 0; i < store.documents.size(); ++i) {
    const DocumentRecord& record = store.documents[i];
    const std::uint64_t last = record.offset + record.length - 1;
    if (store.token(record.offset) != static_cast<std::uint32_t>(store.bos) ||
        store.token(last) != static_cast<std::uint32_t>(store.eos)) {
      problems.add("document " + std::to_string(i) + " does not begin with BOS and end with EOS",
                   tokens_name);
      break;
    }
  }
  std::uint64_t leaked = 0;
  for (const DocumentRecord& record : store.documents) {
    const bool held_out = record.pool == Pool::kValidation || record.pool == Pool::kTuning;
    if (held_out && trained.contains(record.hash)) ++leaked;
  }
  if (leaked > 0) {
    problems.add(std::to_string(leaked) + " held-out documents are also in a training pool",
                 (store.folder / "documents.bin").string());
  }
  problems.throw_if_any();
}

}  // namespace smelt::data
