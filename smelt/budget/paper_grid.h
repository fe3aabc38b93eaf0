// The figures that the paper publishes for its grid (2609.01343), against what the formulas of this
// folder give for the reconstructed geometries.
//
//   for (const PaperRow& row : paper_grid()) row.agrees();
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"
#include "smelt/budget/budget.h"

namespace smelt::budget {

/// One published figure, as printed, and the counted one.
struct PaperFigure {
  const char* name;               // "total", "active", "sparsity", "flops_ratio", "kv_ratio"
  std::string published;          // digits as printed; empty: not published
  std::optional<double> counted;  // parameters in 10^9
  bool expected_to_agree = true;  // false: S of the looped cells, whose control is not published
  /// Whether the counted figure rounds to the printed digits.
  bool agrees() const;
};

struct PaperRow {
  std::string name;                        // "200M-S95-smelt"
  std::optional<arch::ModelConfig> model;  // nothing where the figures determine no geometry
  Budget budget;
  std::vector<PaperFigure> figures;
  std::string words;  // why there is no geometry, with the numbers that clash

  bool agrees() const;
};

/// All 32 cells in the order of the paper's table, at t̄ = 392.  Sparsities are against the same
/// scale's Baseline with 8 experts, ratios against the Baseline of the same sparsity.
std::vector<PaperRow> paper_grid();

}  // namespace smelt::budget
