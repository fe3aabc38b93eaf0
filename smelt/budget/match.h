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
  double span = 0.5;                  // fraction of the layers when at most 1, else layers
  std::optional<std::int64_t> depth;  // physical layers; default: the Baseline's
  double attended = kPaperAttended;

  double tolerance_flops = 0.005;
  double tolerance_parameters = 0.005;
  double tolerance_kv_cache = 0.01;
  double tolerance_kv_cache_wide = 0.02;  // when nothing fits, and for other KV head counts

  std::optional<std::int64_t> head_dim_multiple;  // default 2; of a latent vector 16
  std::optional<std::int64_t> hidden_multiple;    // default 8, below hidden 512: 2
  std::optional<std::int64_t> expert_width_multiple;
  std::optional<std::int64_t> experts_multiple;  // default 4, below hidden 512: 1
  std::optional<std::int64_t> heads_multiple;    // besides being a multiple of the KV heads
  std::int64_t kv_heads_multiple = 1;            // the tensor-parallel degree, say
  std::optional<std::int64_t> max_experts;

  // Natural geometries, as ratios to the Baseline's: lowest and highest.  A fixed size is not
  // bound.
  std::vector<double> bounds_hidden = {0.5, 1};
  std::vector<double> bounds_head_dim = {0.5, 2};
  std::vector<double> bounds_group = {0.5, 2};         // heads per KV head
  std::vector<double> bounds_query = {0.8, 1.3};       // query width / hidden
  std::vector<double> bounds_expert_width = {0.5, 2};  // expert width / hidden
  std::vector<double> bounds_experts = {1, 3.5};

  std::optional<std::int64_t> fix_hidden_size;
  std::optional<std::int64_t> fix_num_attention_heads;
  std::optional<std::int64_t> fix_num_key_value_heads;
  std::optional<std::int64_t> fix_head_dim;
  std::optional<std::int64_t> fix_num_experts;
  std::optional<std::int64_t> fix_moe_intermediate_size;
  std::optional<std::int64_t> fix_intermediate_size;  // of dense feed-forwards

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(Field{"visits", "times the span runs", "", 1, 64}, self.visits);
    visit(Field{"span", "looped layers: a fraction of all when at most 1, else a number of layers",
                "", 1e-6, 1e6},
          self.span);
    visit(Field{"depth", "physical layers of the looped model", "", 1, 1e4}, self.depth);
    visit(Field{"attended", "mean positions a token attends to under the segment mask", "positions",
                0, 1e12},
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
    visit(Field{"head_dim_multiple",
                "head size is a multiple of this (even; default 2, of a latent vector 16)", "", 2,
                4096},
          self.head_dim_multiple);
    visit(Field{"hidden_multiple", "hidden size is a multiple of this (default 8, below 512: 2)",
                "", 1, 4096},
          self.hidden_multiple);
    visit(Field{"expert_width_multiple", "expert width is a multiple of this", "", 1, 4096},
          self.expert_width_multiple);
    visit(Field{"experts_multiple", "number of experts is a multiple of this (default 4)", "", 1,
                4096},
          self.experts_multiple);
    visit(Field{"heads_multiple", "number of query heads is a multiple of this", "", 1, 4096},
          self.heads_multiple);
    visit(Field{"kv_heads_multiple", "number of KV heads is a multiple of this", "", 1, 4096},
          self.kv_heads_multiple);
    visit(Field{"max_experts", "largest number of experts", "", 1, 1e9}, self.max_experts);
    visit(Field{"bounds_hidden", "hidden size / the Baseline's: lowest, highest", "", 0, 100},
          self.bounds_hidden);
    visit(Field{"bounds_head_dim", "head size / the Baseline's", "", 0, 100}, self.bounds_head_dim);
    visit(Field{"bounds_group", "heads per KV head / the Baseline's", "", 0, 100},
          self.bounds_group);
    visit(Field{"bounds_query", "query width per hidden size / the Baseline's", "", 0, 100},
          self.bounds_query);
    visit(Field{"bounds_expert_width", "expert width per hidden size / the Baseline's", "", 0, 100},
          self.bounds_expert_width);
    visit(Field{"bounds_experts", "number of experts / the Baseline's", "", 0, 100},
          self.bounds_experts);
    visit(Field{"fix_hidden_size", "the hidden size", "", 1, 1e9}, self.fix_hidden_size);
    visit(Field{"fix_num_attention_heads", "the number of query heads", "", 1, 1e6},
          self.fix_num_attention_heads);
    visit(Field{"fix_num_key_value_heads", "the number of KV heads", "", 1, 1e6},
          self.fix_num_key_value_heads);
    visit(Field{"fix_head_dim", "the head size", "", 1, 1e6}, self.fix_head_dim);
    visit(Field{"fix_num_experts", "the number of experts", "", 1, 1e9}, self.fix_num_experts);
    visit(Field{"fix_moe_intermediate_size", "the width of an expert", "", 1, 1e9},
          self.fix_moe_intermediate_size);
    visit(Field{"fix_intermediate_size", "the width of a dense feed-forward", "", 1, 1e9},
          self.fix_intermediate_size);
  }
};

/// A geometry with what it gives up.
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
  /// Pareto set of the three mismatches and the distance; outside the tolerances, what meets two of
  /// the three budgets.
  std::vector<Match> alternatives;
  std::vector<std::string> words;  // what cannot be met, what to loosen, an odd head size
};

/// Adds a problem per option out of range or inconsistent.
void validate(const MatchOptions& options, Problems& problems);

/// Throws Error with every problem of the Baseline and the options: a looped Baseline, a span or
/// depth that does not fit, options for sizes that this kind of model does not have, fixed sizes
/// that contradict a multiple; and when not one geometry is inside the bounds.  No geometry inside
/// the tolerances is a result (`within_tolerance` false): the one with the smallest worst mismatch,
/// or of a dense Baseline the one that meets FLOPs and KV cache.
MatchResult match(const arch::ModelConfig& baseline, const MatchOptions& options);

/// Schema "smelt.match/1".
Json to_json(const MatchResult& result);

/// What an ablation of the recipe varies (paper section 5).
enum class Ablation { kSpan, kDepth, kVisits };

struct AblationRow {
  bool looped = true;  // false: an unlooped model of another depth
  std::int64_t layers = 0, looped_layers = 0, visits = 1;
  MatchResult match;
};

/// The grid of one ablation around `baseline`, every model matched to it: spans of 0 to all layers
/// in steps of a sixth; 8, 10, 12, 14 twelfths of its depth at half span, and unlooped models of 9,
/// 12, 15, 18 twelfths; 2, 3, 4 visits.  Thin and deep geometries need wider bounds than a pair
/// does: those that are at their defaults are widened to them.
std::vector<AblationRow> ablate(const arch::ModelConfig& baseline, Ablation what,
                                const MatchOptions& options);

}  // namespace smelt::budget

template <>
struct smelt::EnumNames<smelt::budget::Ablation> {
  static constexpr std::pair<smelt::budget::Ablation, const char*> kNames[] = {
      {smelt::budget::Ablation::kSpan, "span"},
      {smelt::budget::Ablation::kDepth, "depth"},
      {smelt::budget::Ablation::kVisits, "visits"}};
};
