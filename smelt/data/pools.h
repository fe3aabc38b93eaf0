// Cuts training documents into pools: per source, in the order of their content hash, first
// `tuning`, then `decay`, the rest `stable`.  Shares are shares of tokens; what one source gets too
// much or too little of (documents are not cut) goes to the account of the next.
#pragma once

#include <vector>

#include "smelt/data/token_store.h"

namespace smelt::data {

struct PoolShares {
  double tuning = 0.01;
  double decay = 0.2;  // of what tuning leaves
};

/// A source with at least this many documents gives at least one to tuning (when its share is above
/// 0): the first in hash order that is no more than 1/20 of the source.
inline constexpr std::size_t kTuningMinimum = 20;

/// Sets the pool of every record that is not `validation`.  Equal texts get the same pool.
void cut_pools(std::vector<DocumentRecord>& records, std::size_t sources, const PoolShares& shares);

}  // namespace smelt::data
