#include "smelt/data/store_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <system_error>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::data {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kBufferBytes = 1 << 20;

[[noreturn]] void fail(const std::string& action, const fs::path& path, int code) {
  throw Error("data", action + ": " + std::strerror(code), path.string());
}

/// Removes folders aside whose writer is dead.
void remove_leftovers(const fs::path& folder) {
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  const std::string prefix = folder.filename().string() + ".partial-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string digits = name.substr(prefix.size());
    int process = 0;
    const auto end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, process).ptr != end || process <= 0) continue;
    if (process != ::getpid() && ::kill(process, 0) == 0) continue;
    fs::remove_all(entry.path(), ignored);
  }
}

/// Documents, tokens and bytes of text by pool.
using PoolSums = std::array<std::array<std::uint64_t, 3>, kPoolCount>;

void add_to(PoolSums& sums, const DocumentRecord& record) {
  auto& sum = sums[static_cast<std::size_t>(record.pool)];
  sum[0] += 1;
  sum[1] += record.length;
  sum[2] += record.text_bytes;
}

Json sums_json(const PoolSums& sums) {
  Json json = Json::object();
  for (const auto& [pool, name] : EnumNames<Pool>::kNames) {
    const auto& sum = sums[static_cast<std::size_t>(pool)];
    json[name] = Json{{"documents", sum[0]}, {"tokens", sum[1]}, {"text_bytes", sum[2]}};
  }
  return json;
}

Json counts_json(const std::vector<DocumentRecord>& records, const StoreNames& names) {
  PoolSums all{};
  std::vector<PoolSums> by_domain(names.domains.size()), by_source(names.sources.size());
  std::vector<std::uint16_t> domain_of(names.sources.size(), 0);
  for (const DocumentRecord& record : records) {
    add_to(all, record);
    add_to(by_domain[record.domain], record);
    add_to(by_source[record.source], record);
    domain_of[record.source] = record.domain;
  }
  Json domains = Json::array(), sources = Json::array();
  for (std::size_t i = 0; i < by_domain.size(); ++i) {
    domains.push_back(Json{{"name", names.domains[i]}, {"pools", sums_json(by_domain[i])}});
  }
  for (std::size_t i = 0; i < by_source.size(); ++i) {
    sources.push_back(Json{{"name", names.sources[i]},
                           {"domain", names.domains[domain_of[i]]},
                           {"pools", sums_json(by_source[i])}});
  }
  return Json{{"pools", sums_json(all)}, {"domains", domains}, {"sources", sources}};
}

Json file_json(std::uint64_t bytes, const std::string& hash) {
  return Json{{"bytes", bytes}, {"hash", hash}};
}

/// Puts `aside` where `folder` is or shall be.
void put_in_place(const fs::path& aside, const fs::path& folder) {
  if (::rename(aside.c_str(), folder.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST)
    fail("cannot rename the finished store", folder, errno);
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that cannot exchange two folders: the old one goes aside first.
    const fs::path old = aside.string() + ".old";
    if (::rename(folder.c_str(), old.c_str()) != 0 ||
        ::rename(aside.c_str(), folder.c_str()) != 0) {
      fail("cannot replace the old store", folder, errno);
    }
    fs::rename(old, aside);
  }
  std::error_code ignored;
  fs::remove_all(aside, ignored);
}

}  // namespace

StoreWriter::StoreWriter(const fs::path& folder, std::int64_t vocab_size, std::int32_t bos,
                         std::int32_t eos)
    : folder_(fs::absolute(folder).lexically_normal()),
      vocab_size_(vocab_size),
      bos_(bos),
      eos_(eos) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  if (vocab_size < 1 || vocab_size > std::numeric_limits<std::int32_t>::max()) {
    throw Error("data", "vocabulary of " + std::to_string(vocab_size) + " pieces is out of range");
  }
  for (const std::int32_t id : {bos, eos}) {
    if (id < 0 || id >= vocab_size) {
      throw Error("data", "BOS or EOS id " + std::to_string(id) + " is outside the vocabulary of " +
                              std::to_string(vocab_size));
    }
  }
  make_folder(folder_.parent_path());
  remove_leftovers(folder_);
  aside_ = folder_.string() + ".partial-" + std::to_string(::getpid());
  make_folder(aside_);
  const fs::path file = aside_ / "tokens.bin";
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) fail("cannot create file", file, errno);
}

StoreWriter::~StoreWriter() {
  if (file_ >= 0) ::close(file_);
  std::error_code ignored;
  if (!finished_) fs::remove_all(aside_, ignored);
}

void StoreWriter::add(DocumentRecord record, std::span<const std::int32_t> tokens) {
  const bool wide = vocab_size_ > 65536;
  const auto put = [&](std::int32_t id) {
    if (id < 0 || id >= vocab_size_) {
      throw Error("data",
                  "token id " + std::to_string(id) + " of document " +
                      std::to_string(records_.size()) + " is outside the vocabulary of " +
                      std::to_string(vocab_size_),
                  folder_.string());
    }
    const auto value = static_cast<std::uint32_t>(id);
    for (int byte = 0; byte < (wide ? 4 : 2); ++byte) {
      buffer_.push_back(static_cast<char>((value >> (8 * byte)) & 0xFF));
    }
  };
  record.offset = tokens_;
  record.length = tokens.size() + 2;
  put(bos_);
  for (const std::int32_t id : tokens) put(id);
  put(eos_);
  tokens_ += record.length;
  records_.push_back(record);
  if (buffer_.size() >= kBufferBytes) flush();
}

void StoreWriter::flush() {
  hasher_.update(buffer_.data(), buffer_.size());
  for (std::size_t written = 0; written < buffer_.size();) {
    const ssize_t n = ::write(file_, buffer_.data() + written, buffer_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write file", folder_ / "tokens.bin", errno);
    written += static_cast<std::size_t>(n);
  }
  buffer_.clear();
}

void StoreWriter::finish(const StoreNames& names, const std::string& tokenizer_model,
                         const Json& extra) {
  if (records_.empty()) throw Error("data", "no documents to store", folder_.string());
  flush();
  if (::fsync(file_) != 0) fail("cannot write file", folder_ / "tokens.bin", errno);
  const std::string_view documents(reinterpret_cast<const char*>(records_.data()),
                                   records_.size() * sizeof(DocumentRecord));
  const std::string tokens_hash = hasher_.digest(), documents_hash = hash_text(documents);
  const std::string tokenizer_hash = hash_text(tokenizer_model);

  std::uint64_t text_bytes = 0;
  for (const DocumentRecord& record : records_) text_bytes += record.text_bytes;
  Json manifest = Json::object();
  manifest["schema"] = "smelt.store/1";
  manifest["version"] = 1;
  manifest["fingerprint"] = hash_text("smelt.store/1 " + tokens_hash + " " + documents_hash + " " +
                                      tokenizer_hash + " " + std::to_string(vocab_size_));
  manifest["dtype"] = vocab_size_ > 65536 ? "u32" : "u16";
  manifest["vocab_size"] = vocab_size_;
  manifest["bos"] = bos_;
  manifest["eos"] = eos_;
  manifest["documents"] = records_.size();
  manifest["tokens"] = tokens_;
  manifest["text_bytes"] = text_bytes;
  manifest["tokenizer"] = "tokenizer.model";
  manifest["files"] =
      Json{{"tokens.bin", file_json(tokens_ * (vocab_size_ > 65536 ? 4 : 2), tokens_hash)},
           {"documents.bin", file_json(documents.size(), documents_hash)},
           {"tokenizer.model", file_json(tokenizer_model.size(), tokenizer_hash)}};
  manifest["counts"] = counts_json(records_, names);
  manifest.update(extra);

  write_file_atomic(aside_ / "documents.bin", documents);
  write_file_atomic(aside_ / "tokenizer.model", tokenizer_model);
  write_file_atomic(aside_ / "manifest.json", to_text(manifest));
  sync_to_disk(aside_);
  put_in_place(aside_, folder_);
  finished_ = true;
  sync_to_disk(folder_.parent_path());
}

}  // namespace smelt::data
