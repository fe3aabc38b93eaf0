// Writes a token store: tokens as they come, the rest at the end, all of it in a folder aside that
// is renamed when it is complete.
//
//   StoreWriter writer("data/quick", vocab_size, bos, eos);
//   writer.add(record, tokens);            // record.offset and .length are filled in
//   writer.finish(manifest, tokenizer);    // now data/quick is there
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smelt/core/hash.h"
#include "smelt/data/token_store.h"

namespace smelt::data {

struct StoreNames {
  std::vector<std::string> sources;
  std::vector<std::string> domains;
};

class StoreWriter {
 public:
  /// Ids are u16 up to 65536 pieces, else u32.  Left-overs of killed writers of the same store are
  /// removed.
  StoreWriter(const std::filesystem::path& folder, std::int64_t vocab_size, std::int32_t bos,
              std::int32_t eos);
  ~StoreWriter();  // removes the folder aside, unless finished
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// Writes BOS, `tokens`, EOS.  Throws Error for an id outside [0, vocab_size), and when the disk
  /// is full.
  void add(DocumentRecord record, std::span<const std::int32_t> tokens);
  /// Every record so far; pools may be set until `finish`.
  std::vector<DocumentRecord>& records() { return records_; }
  /// Completes the store and puts it in place of what was at `folder`.  `extra` is appended to the
  /// manifest.
  void finish(const StoreNames& names, const std::string& tokenizer_model, const Json& extra);

 private:
  void flush();

  std::filesystem::path folder_, aside_;
  std::int64_t vocab_size_;
  std::int32_t bos_, eos_;
  int file_ = -1;
  bool finished_ = false;
  std::uint64_t tokens_ = 0;
  std::vector<char> buffer_;
  Hasher hasher_;
  std::vector<DocumentRecord> records_;
};

}  // namespace smelt::data
