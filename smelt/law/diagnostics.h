// Where a fitted law misses, and which rows carry it.
//
//   Diagnostics d = diagnose(result.law, points);
//   d.residuals_by_ratio.back().mean;      // of ln loss at the largest D/F
#pragma once

#include <string>
#include <vector>

#include "smelt/law/endpoints.h"
#include "smelt/law/form.h"

namespace smelt::law {

/// Residuals predicted − actual of ln loss over some rows.
struct ResidualGroup {
  Range range;  // of D/F (D/N), or of S
  std::size_t points = 0;
  double mean = 0, rms = 0;
};

struct Leverage {
  std::string where;  // row, or the cell when it has no place
  double value = 0;   // of 1; the coefficients share their number among the rows
};

struct Diagnostics {
  std::vector<ResidualGroup> residuals_by_ratio;     // thirds of D/F (D/N, or C), smallest first
  std::vector<ResidualGroup> residuals_by_sparsity;  // per S, to two digits of 1 − S
  std::vector<Leverage> leverage;                    // the three largest
  std::vector<std::string> words;                    // a trend in the residuals, a row that decides
};

/// Throws Error when the law has no numbers.
Diagnostics diagnose(const Law& law, const std::vector<Point>& points);

Json to_json(const Diagnostics& diagnostics);

}  // namespace smelt::law
