// Study folders made of formulas and noise, for the tests and for looking at a page: losses follow
// known laws, so that nothing of a training run is needed.
//
//   write_synthetic_study("out", quick_study());   // out/study.json, out/runs/*/metrics.jsonl
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "smelt/core/json.h"

namespace smelt::report::test {

struct SyntheticStudy {
  std::string name = "quick";
  std::vector<std::string> cells = {"tiny-e32"};
  int seeds = 3;
  std::vector<double> horizons = {600000, 1200000};  // tokens
  bool identifiable = false;
  int steps = 600;  // of a stable run
};

/// One cell, three seeds, two horizons: no law can be identified.
SyntheticStudy quick_study();
/// Six cells and four horizons with laws, frontier and CE Gain.
SyntheticStudy grid_study();

/// The study.json alone; the same values on every call.
Json synthetic_json(const SyntheticStudy& study);
void write_synthetic_study(const std::filesystem::path& folder, const SyntheticStudy& study);

}  // namespace smelt::report::test
