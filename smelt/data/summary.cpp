#include "smelt/data/summary.h"

#include <algorithm>

namespace smelt::data {
namespace {

constexpr std::array<unsigned, 4> kPercents = {10, 50, 90, 99};

/// A group while documents are counted.
struct Counting {
  GroupSummary summary;
  std::vector<std::uint64_t> lengths;

  void add(const DocumentRecord& record) {
    const auto pool = static_cast<std::size_t>(record.pool);
    summary.documents += 1;
    summary.tokens += record.length;
    summary.text_bytes += record.text_bytes;
    summary.pool_documents[pool] += 1;
    summary.pool_tokens[pool] += record.length;
    lengths.push_back(record.length);
  }

  GroupSummary finish() {
    std::sort(lengths.begin(), lengths.end());
    for (std::size_t i = 0; i < kPercents.size() && !lengths.empty(); ++i) {
      const std::size_t rank = (lengths.size() * kPercents[i] + 99) / 100;  // nearest rank, 1-based
      summary.length_percentiles[i] = lengths[std::max<std::size_t>(rank, 1) - 1];
    }
    return summary;
  }
};

}  // namespace

double GroupSummary::bytes_per_token() const {
  const std::uint64_t text_tokens = tokens - 2 * documents;
  return text_tokens == 0 ? 0 : static_cast<double>(text_bytes) / static_cast<double>(text_tokens);
}

StoreSummary summarize(const TokenStore& store) {
  Counting all;
  std::vector<Counting> domains(store.domains().size()), sources(store.sources().size());
  all.summary.name = "all";
  for (std::size_t i = 0; i < domains.size(); ++i) domains[i].summary.name = store.domains()[i];
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].summary.name = store.sources()[i];
  for (const DocumentRecord& record : store.documents()) {
    all.add(record);
    domains[record.domain].add(record);
    sources[record.source].add(record);
    sources[record.source].summary.domain = store.domains()[record.domain];
  }
  StoreSummary summary{all.finish(), {}, {}};
  for (Counting& domain : domains) summary.domains.push_back(domain.finish());
  for (Counting& source : sources) summary.sources.push_back(source.finish());
  return summary;
}

Json to_json(const GroupSummary& group) {
  Json json = {{"name", group.name}};
  if (!group.domain.empty()) json["domain"] = group.domain;
  json["documents"] = group.documents;
  json["tokens"] = group.tokens;
  json["text_bytes"] = group.text_bytes;
  json["bytes_per_token"] = group.bytes_per_token();
  for (std::size_t i = 0; i < kPercents.size(); ++i) {
    json["tokens_per_document"]["p" + std::to_string(kPercents[i])] = group.length_percentiles[i];
  }
  for (const auto& [pool, name] : EnumNames<Pool>::kNames) {
    const auto i = static_cast<std::size_t>(pool);
    json["pools"][name] =
        Json{{"documents", group.pool_documents[i]}, {"tokens", group.pool_tokens[i]}};
  }
  return json;
}

}  // namespace smelt::data
