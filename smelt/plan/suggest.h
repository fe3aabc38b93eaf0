// A grid for a budget: cells on which a law can be told, and the horizons that the budget pays for.
//
//   study.scales = suggest_scales(study);
//   study.horizons = horizons_for(study, make_plan(study, attended, vocab_size), 1e18);
#pragma once

#include <vector>

#include "smelt/plan/plan.h"

namespace smelt::plan {

/// The study's own scales where they make six cells of at least two scales and (unless all are
/// dense) two sparsities; else three scales of its largest one's shape (half, 0.7 and whole width),
/// each with half, once and twice its experts, or six widths of a dense one.
std::vector<Scale> suggest_scales(const StudyConfig& study);

/// Horizons that spend `flops` on the cells of `plan` and the study's seeds and rates: four, each
/// twice the one before, decays of a twentieth of the last.  Throws Error when the budget pays for
/// less than 8 steps of the first, or for more than 1e9 of the last.
HorizonOptions horizons_for(const StudyConfig& study, const Plan& plan, double flops);

/// [[scale]] tables and [horizons] as a study's file has them.
std::string to_toml(const std::vector<Scale>& scales, const HorizonOptions& horizons);

}  // namespace smelt::plan
