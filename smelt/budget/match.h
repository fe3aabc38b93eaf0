// Finds the looped model whose FLOPs per token, parameters and KV cache equal an unlooped
// Baseline's.
//
// The second visit is paid for with a narrower hidden size (FLOPs), the lost parameters come back
// as experts, the cache is restored with head size and KV heads (paper section 3).  Candidates are
// natural geometries near the Baseline's proportions; the answer is the one nearest to them within
// tolerance.
//
//   MatchResult result = match(baseline, {});
//   result.matched;   // a ModelConfig with `loop`
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/arch/model_config.h"
#include "smelt/budget/budget.h"
#include "smelt/core/fields.h"
#include "smelt/core/json.h"

namespace smelt::budget {

struct MatchOptions {
  std::int64_t visits = 2;
  double span = 0.5;  // fraction of the layers when at most 1, else layers
  double attended = kPaperAttended;
  double tolerance_flops = 0.005;
  double tolerance_parameters = 0.005;
  double tolerance_kv_cache = 0.01;
  double tolerance_kv_cache_wide =
      0.02;  // when nothing fits the first, and for other KV head counts
  std::int64_t head_dim_multiple = 2;
  std::optional<std::int64_t> hidden_multiple;  // default 8, below hidden 512: 2
  std::optional<std::int64_t> expert_width_multiple;
  std::optional<std::int64_t> experts_multiple;  // default 4, below hidden 512: 1
  std::optional<std::int64_t> max_experts;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"visits", "times the span runs", "", 1, 64}, self.visits);
    visit(Field{"span", "looped layers: a fraction of all when at most 1, else a number of layers",
                "", 1e-6, 1e6},
          self.span);
    visit(Field{"attended", "mean positions a token attends to under the segment mask", "positions",
                0},
          self.attended);
    visit(Field{"tolerance_flops", "largest relative mismatch of FLOPs per token", "", 0, 1},
          self.tolerance_flops);
    visit(Field{"tolerance_parameters", "largest relative mismatch of total parameters", "", 0, 1},
          self.tolerance_parameters);
    visit(Field{"tolerance_kv_cache", "largest relative mismatch of the KV cache", "", 0, 1},
          self.tolerance_kv_cache);
    visit(Field{"tolerance_kv_cache_wide",
                "the same when nothing fits, and with another number of KV heads", "", 0, 1},
          self.tolerance_kv_cache_wide);
    visit(Field{"head_dim_multiple", "head size is a multiple of this (even)", "", 2, 1024},
          self.head_dim_multiple);
    visit(Field{"hidden_multiple", "hidden size is a multiple of this", "", 1, 4096},
          self.hidden_multiple);
    visit(Field{"expert_width_multiple", "expert width is a multiple of this", "", 1, 4096},
          self.expert_width_multiple);
    visit(Field{"experts_multiple", "number of experts is a multiple of this", "", 1, 4096},
          self.experts_multiple);
    visit(Field{"max_experts", "largest number of experts", "", 1}, self.max_experts);
  }
};

/// A candidate with what it gives up.
struct Match {
  arch::ModelConfig config;
  Budget budget;
  Mismatch mismatch;
  double distance = 0;  // sum of squared logs of the proportions' ratios to the Baseline's
};

struct MatchResult {
  arch::ModelConfig baseline;
  Budget baseline_budget;
  Match best;
  bool within_tolerance = false;
  std::vector<Match> alternatives;  // Pareto set of the three mismatches and the distance
  std::vector<std::string> words;   // what cannot be met, what to loosen, an odd head size
};

/// Throws Error when the Baseline is looped, or the span or depth does not fit; no fitting geometry
/// is a result (`within_tolerance` false), not an error.
MatchResult match(const arch::ModelConfig& baseline, const MatchOptions& options);

/// Schema "smelt.match/1".
Json to_json(const MatchResult& result);

}  // namespace smelt::budget
