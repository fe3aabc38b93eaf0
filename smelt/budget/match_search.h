// How the candidates of a match are enumerated.
//
// Nested: KV heads → head size → query heads → hidden size → expert width → experts.  The first two
// fix the KV cache; then the parameters fix the number of experts for each width, and the FLOPs the
// width.
//
//   const Shortlist found = search(baseline, options);
#pragma once

#include "smelt/budget/match.h"
#include "smelt/budget/shortlist.h"

namespace smelt::budget {

/// The Baseline with the candidate's sizes, the looped model's layers and its loop; shared experts
/// and dense layers keep their proportion to the hidden size.
arch::ModelConfig config_of(const Candidate& c, const arch::ModelConfig& baseline,
                            const MatchOptions& options);

/// Both must be valid.  Throws Error when not one geometry is left, which says what leaves none,
/// when more than 20 million are, and when the loop does not fit into the layers.
Shortlist search(const arch::ModelConfig& baseline, const MatchOptions& options);

}  // namespace smelt::budget
