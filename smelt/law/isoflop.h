// IsoFLOP parabolas (2203.15556, approach 2): at each compute the size of least loss, and how it
// grows with compute.
//
//   Isoflop result = isoflop(points, find_form("chinchilla"));
//   result.size_exponent;        // a of N* ~ C^a; nothing with fewer than two minima
//
// Known to be biased on wide or off-centre grids of sizes: it stands beside a fitted law, not in
// its place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/law/endpoints.h"

namespace smelt::law {

/// Rows of nearly equal compute.
struct IsoflopBin {
  double compute = 0;  // geometric mean, FLOPs
  std::size_t points = 0;
  Range sizes;  // N, or F where the form counts FLOPs per token
  /// Of the parabola of the loss in ln size; nothing where it has none inside the sizes.
  std::optional<double> size, tokens, loss;
  std::string words;  // why there is no minimum, or what to mind
};

struct Isoflop {
  std::vector<IsoflopBin> bins;  // by compute
  /// Slopes of ln size and ln tokens of the minima on ln compute; their sum is 1.
  std::optional<double> size_exponent, tokens_exponent;
  std::optional<double> exponent_error;  // standard error, with three minima or more
  std::vector<std::string> words;
};

/// Throws Error for a form without tokens.
Isoflop isoflop(const std::vector<Point>& points, const Form& form);

Json to_json(const Isoflop& result);

}  // namespace smelt::law
