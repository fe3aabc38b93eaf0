// What a token store holds, by domain and by source: `smelt data show`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/data/token_store.h"

namespace smelt::data {

struct GroupSummary {
  std::string name;
  std::string domain;  // of a source; "" otherwise
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;  // BOS and EOS included
  std::uint64_t text_bytes = 0;
  std::array<std::uint64_t, kPoolCount> pool_documents{};
  std::array<std::uint64_t, kPoolCount> pool_tokens{};
  std::array<std::uint64_t, 4>
      length_percentiles{};  // tokens per document at 10, 50, 90, 99 % (nearest rank)

  /// Bytes of text per token of text (BOS and EOS do not count).
  double bytes_per_token() const;
};

struct StoreSummary {
  GroupSummary all;
  std::vector<GroupSummary> domains;
  std::vector<GroupSummary> sources;
};

StoreSummary summarize(const TokenStore& store);
Json to_json(const GroupSummary& group);

}  // namespace smelt::data
