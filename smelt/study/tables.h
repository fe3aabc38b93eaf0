// Loss gaps of a study's pairs, per horizon, domain and document length.
#pragma once

#include <vector>

#include "smelt/core/json.h"
#include "smelt/law/loss_gap.h"
#include "smelt/study/results.h"

namespace smelt::study {

/// The gap at one horizon over all cells, with its spread over seeds.
law::LossGap pooled_gap(const std::vector<Endpoint>& endpoints, const StudySetup& setup,
                        std::int64_t horizon);

/// One entry per cell and horizon.
Json gaps_json(const std::vector<Endpoint>& endpoints, const StudySetup& setup);

/// One entry per cell, horizon and domain: losses averaged over seeds, gap per seed.
Json domains_json(const std::vector<Endpoint>& endpoints, const StudySetup& setup);

/// One entry per cell and length bucket, at the longest horizon.
Json lengths_json(const std::vector<Endpoint>& endpoints, const StudySetup& setup);

}  // namespace smelt::study
