#include "smelt/data/pools.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace smelt::data {
namespace {

/// Documents of one source with the same text, which stay together.
struct Group {
  std::vector<DocumentRecord*> documents;
  double tokens = 0;
};

std::vector<Group> groups_by_hash(std::vector<DocumentRecord*> documents) {
  std::stable_sort(documents.begin(), documents.end(),
                   [](const auto* a, const auto* b) { return a->hash < b->hash; });
  std::vector<Group> groups;
  for (DocumentRecord* document : documents) {
    if (groups.empty() || groups.back().documents.front()->hash != document->hash)
      groups.emplace_back();
    groups.back().documents.push_back(document);
    groups.back().tokens += static_cast<double>(document->length);
  }
  return groups;
}

/// Brings the first text of at most 1/20 of the source to the front, so that the one document which
/// tuning gets in any case does not cost a source much.  With 20 texts or more there is one.
void small_one_first(std::vector<Group>& groups, double tokens) {
  const auto small = [&](const Group& group) { return group.tokens <= tokens / kTuningMinimum; };
  const auto found = std::find_if(groups.begin(), groups.end(), small);
  if (found != groups.end()) std::rotate(groups.begin(), found, found + 1);
}

/// Takes groups from `next` on while that brings `wanted` nearer to 0, at least `minimum`, never
/// the last one.
void take(std::vector<Group>& groups, std::size_t& next, Pool pool, std::size_t minimum,
          double& wanted) {
  for (std::size_t taken = 0; next + 1 < groups.size(); ++taken, ++next) {
    const double tokens = groups[next].tokens;
    if (taken >= minimum && std::abs(wanted - tokens) >= std::abs(wanted)) return;
    for (DocumentRecord* document : groups[next].documents) document->pool = pool;
    wanted -= tokens;
  }
}

}  // namespace

void cut_pools(std::vector<DocumentRecord>& records, std::size_t sources,
               const PoolShares& shares) {
  std::vector<std::vector<DocumentRecord*>> by_source(sources);
  for (DocumentRecord& record : records) {
    if (record.pool == Pool::kValidation) continue;
    record.pool = Pool::kStable;
    by_source[record.source].push_back(&record);
  }
  double tuning_wanted = 0, decay_wanted = 0;  // tokens, carried over from source to source
  for (auto& documents : by_source) {
    const std::size_t count = documents.size();
    std::vector<Group> groups = groups_by_hash(std::move(documents));
    double tokens = 0;
    for (const Group& group : groups) tokens += group.tokens;
    std::size_t next = 0;
    if (shares.tuning > 0) {
      const double before = tuning_wanted += shares.tuning * tokens;
      const bool large = count >= kTuningMinimum;
      if (large) small_one_first(groups, tokens);
      take(groups, next, Pool::kTuning, large ? 1 : 0, tuning_wanted);
      tokens -= before - tuning_wanted;
    }
    if (shares.decay > 0) {
      decay_wanted += shares.decay * tokens;
      take(groups, next, Pool::kDecay, 0, decay_wanted);
    }
  }
}

}  // namespace smelt::data
