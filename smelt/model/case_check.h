// Known answers: runs a numerical case and measures how far this build, machine and device are from
// it.
//
// A case is a folder with config.json, model.safetensors, tokens.json, expected.json and
// expected.safetensors (schema "smelt-case-1"): loss, NLL of every token, logits, router choices,
// auxiliary losses and every gradient, in fp64 from the stored fp32 weights.  Tolerances are those
// an fp32 program meets.
//
//   CaseResult result = check_case("tests/data/cases/baseline");
//   if (!result.passed) for (const std::string& line : result.problems) …
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/json.h"
#include "smelt/model/decoder.h"

namespace smelt::model {

struct Tolerance {
  double logits = 1e-4;         // largest absolute difference
  double per_token_nll = 1e-4;  // largest absolute difference
  double loss = 1e-5;           // absolute; also of the objective
  double gradients = 1e-4;      // per tensor: largest difference / largest expected value
  double grad_norm = 1e-4;      // relative
  double auxiliary = 1e-4;      // lb_loss, z_loss: absolute, relative above 1
  /// A gradient tensor whose largest expected value is below this share of the largest of all is
  /// measured against that share.
  double small_gradient = 1e-3;
};

struct CaseResult {
  std::string name;     // the folder's name
  bool passed = false;  // everything was compared and is within tolerance
  std::string note;     // why there was nothing to check (a probe case), else empty
  /// Largest difference per kind of value, in the measure of its tolerance ("experts": tokens with
  /// another set).
  std::vector<std::pair<std::string, double>> worst;
  std::vector<std::string> problems;  // one line each
};

/// Runs one case.  Never throws for a bad case: a missing or broken file is a problem that names
/// it.
CaseResult check_case(const std::filesystem::path& folder, const Tolerance& tolerance = {});

/// The same for a given decoder instead of the folder's weights (a deliberately wrong one, in
/// tests).
CaseResult check_case(const std::filesystem::path& folder, const Decoder& decoder,
                      const Tolerance& tolerance = {});

/// {"case", "passed", "worst": {…}, "problems": […]}; `passed` is null where there was nothing to
/// check.
Json to_json(const CaseResult& result);

/// A case's tokens.json as a batch.
Batch read_case_batch(const std::filesystem::path& folder, std::int64_t vocab_size);

}  // namespace smelt::model
