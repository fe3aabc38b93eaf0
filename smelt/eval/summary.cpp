// Groups of scored documents, and the two files they are written to.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "smelt/core/csv.h"
#include "smelt/eval/evaluate.h"

namespace smelt::eval {
namespace {

constexpr std::int64_t kFirstBucket = 32, kLastBucket = 4096;

std::vector<GroupLoss> empty_buckets() {
  std::vector<GroupLoss> buckets;
  for (std::int64_t up_to = kFirstBucket; up_to <= kLastBucket; up_to *= 2) {
    buckets.push_back({.name = fmt::format("<={}", up_to), .up_to = up_to});
  }
  buckets.push_back({.name = fmt::format(">{}", kLastBucket)});
  return buckets;
}

std::size_t bucket_of(std::int64_t length) {
  std::size_t bucket = 0;
  for (std::int64_t up_to = kFirstBucket; up_to <= kLastBucket && length > up_to; up_to *= 2)
    ++bucket;
  return bucket;
}

Json group_json(const GroupLoss& group) {
  Json json = Json::object();
  if (!group.name.empty()) json["name"] = group.name;
  if (!group.domain.empty()) json["domain"] = group.domain;
  json["documents"] = group.documents;
  json["tokens"] = group.tokens;
  json["loss"] = group.tokens > 0 ? Json(group.loss()) : Json();
  return json;
}

Json groups_json(const std::vector<GroupLoss>& groups) {
  Json json = Json::array();
  for (const GroupLoss& group : groups) json.push_back(group_json(group));
  return json;
}

void drop_empty(std::vector<GroupLoss>& groups) {
  std::erase_if(groups, [](const GroupLoss& group) { return group.documents == 0; });
}

}  // namespace

void GroupLoss::add(const DocumentLoss& document) {
  ++documents;
  cut_documents += document.cut ? 1 : 0;
  tokens += document.tokens;
  nll_sum += document.nll_sum;
}

double GroupLoss::loss() const {
  return tokens > 0 ? nll_sum / static_cast<double>(tokens)
                    : std::numeric_limits<double>::quiet_NaN();
}

EvalResult summarize(std::vector<DocumentLoss> documents, const data::TokenStore& store,
                     const EvalOptions& options) {
  EvalResult result;
  result.options = options;
  result.store_fingerprint = store.fingerprint();
  result.source_names = store.sources();
  result.domain_names = store.domains();
  result.sources.resize(store.sources().size());
  result.domains.resize(store.domains().size());
  result.lengths = empty_buckets();
  double text_nll = 0;
  std::int64_t bytes = 0;
  bool bytes_known = true;
  for (const DocumentLoss& document : documents) {
    result.overall.add(document);
    GroupLoss& source = result.sources[document.source];
    source.name = store.sources()[document.source];
    source.domain = store.domains()[document.domain];
    source.add(document);
    GroupLoss& domain = result.domains[document.domain];
    domain.name = store.domains()[document.domain];
    domain.add(document);
    result.lengths[bucket_of(document.length)].add(document);
    text_nll += document.nll_sum - document.eos_nll;
    bytes += document.text_bytes;
    bytes_known = bytes_known && document.text_bytes > 0;
  }
  if (bytes_known && bytes > 0) result.nats_per_byte = text_nll / static_cast<double>(bytes);
  drop_empty(result.sources);
  drop_empty(result.domains);
  result.documents = std::move(documents);
  return result;
}

Json to_json(const EvalResult& result) {
  Json json = {{"schema", "smelt.eval/1"}};
  const Json options = fields_to_json(result.options);
  for (const auto& [name, value] : options.items()) json[name] = value;
  json["store"] = result.store_fingerprint;
  json["overall"] = group_json(result.overall);
  json["overall"]["cut_documents"] = result.overall.cut_documents;
  json["nats_per_byte"] = result.nats_per_byte ? Json(*result.nats_per_byte) : Json();
  json["sources"] = groups_json(result.sources);
  json["domains"] = groups_json(result.domains);
  json["lengths"] = Json::array();
  for (const GroupLoss& bucket : result.lengths) {
    Json entry = group_json(bucket);
    entry["up_to"] = bucket.up_to > 0 ? Json(bucket.up_to) : Json();
    entry["cut_documents"] = bucket.cut_documents;
    entry["cut"] = bucket.cut_documents > 0;
    json["lengths"].push_back(entry);
  }
  json["seconds"] = result.seconds;
  return json;
}

std::string documents_csv(const EvalResult& result) {
  Csv csv;
  csv.header = {"document", "source", "domain", "length", "tokens", "nll_sum"};
  for (const DocumentLoss& document : result.documents) {
    csv.rows.push_back({std::to_string(document.document), result.source_names[document.source],
                        result.domain_names[document.domain], std::to_string(document.length),
                        std::to_string(document.tokens), number_text(document.nll_sum)});
  }
  return to_text(csv);
}

}  // namespace smelt::eval
