#include "smelt/budget/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "smelt/budget/layer_cost.h"

namespace smelt::budget {
namespace {

using arch::ModelConfig;

constexpr std::int64_t kSmallHidden = 512;
constexpr std::int64_t kCachedMultiple = 16;  // of a latent attention's cached vector
constexpr std::size_t kAlternatives = 8;
constexpr std::size_t kMostCandidates = 4'000'000;

double square_log(double ratio) {
  return std::log(ratio) * std::log(ratio);
}

/// Calls `use(n)` for the multiples of `step` in [low, high], or for `fixed` alone.
template <class Use>
void for_multiples(double low, double high, std::int64_t step, std::optional<std::int64_t> fixed,
                   Use use) {
  if (fixed) {
    use(*fixed);
    return;
  }
  constexpr double kSlack = 1e-9;
  const auto first = static_cast<std::int64_t>(std::ceil(low / static_cast<double>(step) - kSlack));
  for (std::int64_t n = std::max<std::int64_t>(1, first) * step;
       static_cast<double>(n) <= high * (1 + kSlack); n += step) {
    use(n);
  }
}

/// A candidate while searching: plain numbers, no copies of configs.  In latent attention
/// `head_dim` is the width of the cached vector (kv_lora_rank); in a dense model `expert_width`
/// that of its feed-forward.
struct Candidate {
  std::int64_t hidden, heads, kv_heads, head_dim, experts, expert_width;
  Mismatch off;
  double distance;
};

class Search {
 public:
  Search(const ModelConfig& baseline, const MatchOptions& options)
      : base_(baseline), options_(options), target_(count(baseline, options.attended)) {
    const bool small = baseline.hidden_size < kSmallHidden;
    hidden_step_ = options.hidden_multiple.value_or(small ? 2 : 8);
    width_step_ = options.expert_width_multiple.value_or(small ? 2 : 8);
    experts_step_ = options.experts_multiple.value_or(small ? 1 : 4);
    shape_ = baseline;
    shape_.num_hidden_layers = options.depth.value_or(baseline.num_hidden_layers);
    std::erase_if(shape_.mlp_only_layers,
                  [this](std::int64_t layer) { return layer >= shape_.num_hidden_layers; });
    if (options.visits > 1) shape_.loop = loop_of(shape_.num_hidden_layers);
    for (std::int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer) {
      const auto visits = static_cast<double>(shape_.visits_of(layer));
      (shape_.dense(layer) ? dense_ : sparse_).add(visits);
    }
    executed_ = dense_.executed + sparse_.executed;
  }

  MatchResult run() {
    limited_ = true;
    search();
    if (candidates_.empty()) {  // nothing near: the least bad of all
      limited_ = false;
      search();
    }
    return result();
  }

 private:
  struct Layers {
    double physical = 0, executed = 0;
    void add(double visits) {
      physical += 1;
      executed += visits;
    }
  };

  arch::Loop loop_of(std::int64_t layers) const {
    const auto span = static_cast<std::int64_t>(std::llround(
        options_.span <= 1 ? options_.span * static_cast<double>(layers) : options_.span));
    return arch::middle_loop(layers, std::max<std::int64_t>(1, span), options_.visits);
  }

  void search() {
    const std::int64_t own = base_.num_key_value_heads;
    if (base_.latent() || options_.fix_num_key_value_heads) {
      search_kv_heads(options_.fix_num_key_value_heads.value_or(own));
      return;
    }
    if (own % options_.kv_heads_multiple == 0) search_kv_heads(own);
    if (best_within(options_.tolerance_kv_cache) || best_within(wide_tolerance())) return;
    for (std::int64_t kv = options_.kv_heads_multiple; kv <= 2 * own * 4;
         kv += options_.kv_heads_multiple) {
      if (kv != own && (own % kv == 0 || kv % own == 0)) search_kv_heads(kv);
    }
  }

  double wide_tolerance() const {
    return std::max(options_.tolerance_kv_cache, options_.tolerance_kv_cache_wide);
  }

  /// The width that the cache is proportional to: a head, or the latent vector.
  std::int64_t cached_base() const { return base_.latent() ? base_.kv_lora_rank : base_.head_dim; }

  void search_kv_heads(std::int64_t kv_heads) {
    const auto dim = static_cast<double>(cached_base());
    const std::int64_t step = base_.latent() ? std::max(kCachedMultiple, options_.head_dim_multiple)
                                             : options_.head_dim_multiple;
    for_multiples(options_.bounds_head_dim[0] * dim, options_.bounds_head_dim[1] * dim, step,
                  options_.fix_head_dim, [&](std::int64_t head_dim) {
                    Candidate c{};
                    c.kv_heads = kv_heads;
                    c.head_dim = head_dim;
                    c.heads = kv_heads;  // whatever they are, the cache is the same
                    apply(c);
                    c.off.kv_cache =
                        attention_cost(shape_).cached * executed_ / target_.kv_elements_per_token -
                        1;
                    search_heads(c);
                  });
  }

  /// Sets the sizes that attention depends on in `shape_`.
  void apply(const Candidate& c) {
    shape_.num_key_value_heads = base_.latent() ? c.heads : c.kv_heads;
    shape_.num_attention_heads = c.heads;
    (base_.latent() ? shape_.kv_lora_rank : shape_.head_dim) = c.head_dim;
  }

  void search_heads(Candidate c) {
    // Far outside every tolerance nothing is worth looking at, unless nothing else was seen.
    if (limited_ && std::abs(c.off.kv_cache) > std::max(0.1, 3 * wide_tolerance())) return;
    const auto base_heads = static_cast<double>(base_.num_attention_heads);
    const double group =
        base_.latent() ? base_heads : base_heads / static_cast<double>(base_.num_key_value_heads);
    const std::int64_t per_group = base_.latent() ? 1 : c.kv_heads;
    const std::int64_t step =
        base_.latent() ? std::max<std::int64_t>(1, base_.num_attention_heads / 16) : 1;
    const double distance =
        square_log(static_cast<double>(c.head_dim) / static_cast<double>(cached_base())) +
        square_log(static_cast<double>(c.kv_heads) /
                   static_cast<double>(base_.num_key_value_heads));
    std::optional<std::int64_t> fixed;
    if (options_.fix_num_attention_heads) {
      if (*options_.fix_num_attention_heads % per_group != 0) return;
      fixed = *options_.fix_num_attention_heads / per_group;
    }
    for_multiples(options_.bounds_group[0] * group, options_.bounds_group[1] * group, step, fixed,
                  [&](std::int64_t heads_per_group) {
                    c.heads = heads_per_group * per_group;
                    if (c.heads % options_.heads_multiple.value_or(1) != 0) return;
                    c.distance =
                        distance + square_log(static_cast<double>(heads_per_group) / group);
                    apply(c);
                    search_hidden(c);
                  });
  }

  /// Query width / hidden.
  double query_share(const ModelConfig& m) const {
    return attention_cost(m).scores / 2 / static_cast<double>(m.hidden_size);
  }

  void search_hidden(Candidate c) {
    const auto base_hidden = static_cast<double>(base_.hidden_size);
    const double base_query = query_share(base_);
    const double q = attention_cost(shape_).scores / 2;
    const double low = std::max(options_.bounds_hidden[0] * base_hidden,
                                q / (options_.bounds_query[1] * base_query));
    const double high = std::min(options_.bounds_hidden[1] * base_hidden,
                                 q / (options_.bounds_query[0] * base_query));
    const double distance = c.distance;
    for_multiples(low, high, hidden_step_, options_.fix_hidden_size, [&](std::int64_t hidden) {
      c.hidden = hidden;
      c.distance = distance + square_log(q / static_cast<double>(hidden) / base_query);
      search_feed_forward(c);
    });
  }

  /// A width of the Baseline in proportion to the hidden size.
  std::int64_t scaled(std::int64_t width, std::int64_t hidden) const {
    if (width == 0) return 0;
    const double exact = static_cast<double>(width) * static_cast<double>(hidden) /
                         static_cast<double>(base_.hidden_size);
    const auto steps = std::llround(exact / static_cast<double>(width_step_));
    return std::max<std::int64_t>(1, steps) * width_step_;
  }

  /// Expert width and count: the parameters fix the count for each width, the FLOPs choose the
  /// width.  Shared experts and dense layers keep their proportion to the hidden size.
  void search_feed_forward(Candidate c) {
    shape_.hidden_size = c.hidden;
    shape_.shared_expert_intermediate_size =
        scaled(base_.shared_expert_intermediate_size, c.hidden);
    shape_.intermediate_size = scaled(base_.intermediate_size, c.hidden);
    const AttentionCost a = attention_cost(shape_);
    const auto h = static_cast<double>(c.hidden);
    Fixed fixed;
    fixed.flops = 6 * executed_ * (a.query + a.key_value + a.output + a.scores * options_.attended);
    fixed.parameters = (dense_.physical + sparse_.physical) *
                       (a.query + a.key_value + a.output + a.norms + a.biases + 2 * h);
    if (base_.num_experts == 0) {
      search_dense_width(c, fixed);
      return;
    }
    for (std::int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer) {
      if (!shape_.dense(layer)) {
        const double shared = feed_forward_cost(shape_, layer).shared;
        fixed.flops += 6 * sparse_.executed * shared;
        fixed.parameters += sparse_.physical * shared;
        break;
      }
    }
    if (dense_.physical > 0) {
      const FeedForwardCost f = feed_forward_cost(shape_, shape_.mlp_only_layers.front());
      fixed.flops += 6 * dense_.executed * f.dense;
      fixed.parameters += dense_.physical * (f.dense + f.biases);
    }
    search_experts(c, fixed);
  }

  /// What attention, norms, shared experts and dense layers take of a budget.
  struct Fixed {
    double flops = 0, parameters = 0;
  };

  void search_experts(Candidate c, const Fixed& fixed) {
    const auto h = static_cast<double>(c.hidden);
    const auto top_k = static_cast<double>(base_.num_experts_per_tok);
    const double per_expert = base_.router_bias ? 1 : 0;
    const double base_width =
        static_cast<double>(base_.moe_intermediate_size) / static_cast<double>(base_.hidden_size);
    const double distance = c.distance;
    const auto flops_at = [&](double i, double e) {
      return fixed.flops + 6 * sparse_.executed * (h * e + top_k * 3 * h * i);
    };
    const auto consider = [&](std::int64_t width, std::int64_t experts) {
      const auto i = static_cast<double>(width), e = static_cast<double>(experts);
      const double ratio = e / static_cast<double>(base_.num_experts);
      if (experts < base_.num_experts_per_tok) return;
      if (!options_.fix_num_experts &&
          (ratio < options_.bounds_experts[0] || ratio > options_.bounds_experts[1])) {
        return;
      }
      if (options_.max_experts && experts > *options_.max_experts) return;
      c.expert_width = width;
      c.experts = experts;
      c.off.flops = flops_at(i, e) / target_.flops_per_token - 1;
      c.off.parameters = (fixed.parameters + sparse_.physical * (h + 3 * h * i + per_expert) * e) /
                             target_.parameters_total -
                         1;
      c.distance = distance + square_log(i / h / base_width);
      keep(c);
    };
    const double flops_limit = std::max(0.05, 4 * options_.tolerance_flops);
    for_multiples(
        options_.bounds_expert_width[0] * base_width * h,
        options_.bounds_expert_width[1] * base_width * h, width_step_,
        options_.fix_moe_intermediate_size, [&](std::int64_t width) {
          if (options_.fix_num_experts) return consider(width, *options_.fix_num_experts);
          const auto i = static_cast<double>(width);
          const double exact = (target_.parameters_total - fixed.parameters) /
                               (sparse_.physical * (h + 3 * h * i + per_expert));
          // Skip widths whose FLOPs are hopeless whatever the count rounds to.
          const double flops = flops_at(i, std::max(0.0, exact));
          if (limited_ && std::abs(flops / target_.flops_per_token - 1) > flops_limit) return;
          const auto step = static_cast<double>(experts_step_);
          const auto below = static_cast<std::int64_t>(std::floor(exact / step)) * experts_step_;
          consider(width, below);
          consider(width, below + experts_step_);
          if (limited_) return;
          // No count near the exact one is allowed: the nearest that is.
          const auto most = static_cast<double>(
              options_.max_experts.value_or(std::numeric_limits<std::int64_t>::max()));
          const auto base = static_cast<double>(base_.num_experts);
          consider(width, static_cast<std::int64_t>(std::floor(
                              std::min(most, options_.bounds_experts[1] * base) / step)) *
                              experts_step_);
          consider(width,
                   static_cast<std::int64_t>(std::ceil(options_.bounds_experts[0] * base / step)) *
                       experts_step_);
        });
  }

  /// A dense model has no experts that win parameters back: the width meets the FLOPs.
  void search_dense_width(Candidate c, const Fixed& fixed) {
    const auto h = static_cast<double>(c.hidden);
    const double base_width =
        static_cast<double>(base_.intermediate_size) / static_cast<double>(base_.hidden_size);
    const double distance = c.distance;
    for_multiples(
        options_.bounds_expert_width[0] * base_width * h,
        options_.bounds_expert_width[1] * base_width * h, width_step_, std::nullopt,
        [&](std::int64_t width) {
          shape_.intermediate_size = width;
          const FeedForwardCost f = feed_forward_cost(shape_, 0);
          c.expert_width = width;
          c.off.flops = (fixed.flops + 6 * dense_.executed * f.dense) / target_.flops_per_token - 1;
          c.off.parameters = (fixed.parameters + dense_.physical * (f.dense + f.biases)) /
                                 target_.parameters_total -
                             1;
          c.distance = distance + square_log(static_cast<double>(width) / h / base_width);
          if (std::abs(c.off.flops) <= std::max(0.05, 4 * options_.tolerance_flops) || !limited_) {
            keep(c);
          }
        });
  }

  /// Worst mismatch in units of tolerance; at most 1 is inside.
  double units(const Candidate& c, double kv_tolerance) const {
    const auto unit = [](double off, double tolerance) {
      return std::abs(off) / std::max(tolerance, 1e-12);
    };
    return std::max({unit(c.off.flops, options_.tolerance_flops),
                     unit(c.off.parameters, options_.tolerance_parameters),
                     unit(c.off.kv_cache, kv_tolerance)});
  }

  /// Without limits only the least bad is of use.
  void keep(const Candidate& c) {
    if (candidates_.empty() || (limited_ && candidates_.size() < kMostCandidates)) {
      candidates_.push_back(c);
    } else if (units(c, wide_tolerance()) < units(candidates_.back(), wide_tolerance())) {
      candidates_.back() = c;
    }
  }

  /// Nearest to the Baseline's proportions inside the box; equal distances by mismatch, then by
  /// size.
  const Candidate* best_within(double kv_tolerance) const {
    const Candidate* best = nullptr;
    for (const Candidate& c : candidates_) {
      if (units(c, kv_tolerance) > 1) continue;
      if (!best || std::pair(c.distance, units(c, kv_tolerance)) <
                       std::pair(best->distance, units(*best, kv_tolerance))) {
        best = &c;
      }
    }
    return best;
  }

  /// Smallest worst mismatch; of a dense model, whose parameters cannot be met, the nearest one
  /// that meets the other two.
  const Candidate* least_bad() const {
    const Candidate* best = nullptr;
    if (base_.num_experts == 0) {
      for (const Candidate& c : candidates_) {
        if (std::abs(c.off.flops) > options_.tolerance_flops ||
            std::abs(c.off.kv_cache) > wide_tolerance()) {
          continue;
        }
        if (!best || c.distance < best->distance) best = &c;
      }
      if (best) return best;
    }
    for (const Candidate& c : candidates_) {
      if (!best || units(c, wide_tolerance()) < units(*best, wide_tolerance())) best = &c;
    }
    return best;
  }

  Match to_match(const Candidate& c) {
    apply(c);
    Match m;
    m.config = shape_;
    m.config.hidden_size = c.hidden;
    m.config.shared_expert_intermediate_size =
        scaled(base_.shared_expert_intermediate_size, c.hidden);
    if (base_.num_experts == 0) {
      m.config.intermediate_size = c.expert_width;
    } else {
      m.config.intermediate_size = scaled(base_.intermediate_size, c.hidden);
      m.config.num_experts = c.experts;
      m.config.moe_intermediate_size = c.expert_width;
    }
    m.budget = count(m.config, options_.attended);
    m.mismatch = budget::mismatch(m.budget, target_);
    m.distance = c.distance;
    return m;
  }

  MatchResult result() {
    MatchResult r;
    r.baseline = base_;
    r.baseline_budget = target_;
    double kv_tolerance = options_.tolerance_kv_cache;
    const Candidate* best = best_within(kv_tolerance);
    if (!best) {
      kv_tolerance = wide_tolerance();
      best = best_within(kv_tolerance);
    }
    r.within_tolerance = best != nullptr;
    if (!best) best = least_bad();
    if (!best) {
      throw Error(
          "budget",
          "no geometry at all within the bounds, multiples and fixed sizes given: loosen one "
          "of them");
    }
    r.best = to_match(*best);
    add_words(r, kv_tolerance);
    add_alternatives(r, *best, kv_tolerance);
    return r;
  }

  void add_words(MatchResult& r, double kv_tolerance) const {
    const auto say = [&r](const char* what, double off, double tolerance, const char* loosen) {
      if (std::abs(off) <= tolerance) return;
      r.words.push_back(fmt::format("{} is off by {:+.2f} % (tolerance {:.2f} %): {}", what,
                                    100 * off, 100 * tolerance, loosen));
    };
    say("FLOPs per token", r.best.mismatch.flops, options_.tolerance_flops,
        "loosen a multiple of expert_width or hidden, a bound or fixed size, or the tolerance of "
        "flops");
    say("total parameters", r.best.mismatch.parameters, options_.tolerance_parameters,
        base_.num_experts == 0
            ? "a dense model has no experts that could win back what the narrower layers lose"
            : "loosen max_experts, the multiple of experts, the bounds of experts or expert_width, "
              "or the tolerance of parameters");
    say("KV cache", r.best.mismatch.kv_cache, kv_tolerance,
        "loosen the multiple of head_dim or kv_heads, the bounds of head_dim, or the tolerance of "
        "kv_cache");
    if (r.within_tolerance && kv_tolerance > options_.tolerance_kv_cache) {
      r.words.push_back(fmt::format(
          "KV cache {:+.2f} %: nothing within {:.2f} %, so {:.2f} % was used",
          100 * r.best.mismatch.kv_cache, 100 * options_.tolerance_kv_cache, 100 * kv_tolerance));
    }
    if (!base_.latent()) add_head_words(r, kv_tolerance);
  }

  void add_head_words(MatchResult& r, double kv_tolerance) const {
    const std::int64_t head_dim = r.best.config.head_dim;
    if (head_dim % 8 == 0) return;
    const Candidate* even = nullptr;
    for (const Candidate& c : candidates_) {
      if (c.head_dim % 8 == 0 && (!even || units(c, kv_tolerance) < units(*even, kv_tolerance))) {
        even = &c;
      }
    }
    std::string line = fmt::format("head_dim {} is no multiple of 8 (slower on GPUs)", head_dim);
    if (even) {
      line += fmt::format(
          "; best multiple of 8: {} with FLOPs {:+.2f} %, parameters {:+.2f} %, KV {:+.2f} %",
          even->head_dim, 100 * even->off.flops, 100 * even->off.parameters,
          100 * even->off.kv_cache);
    }
    r.words.push_back(line);
  }

  void add_alternatives(MatchResult& r, const Candidate& best, double kv_tolerance) {
    std::vector<const Candidate*> near;
    for (const Candidate& c : candidates_) {
      if (&c != &best && units(c, kv_tolerance) <= 2) near.push_back(&c);
    }
    std::sort(near.begin(), near.end(),
              [](const Candidate* a, const Candidate* b) { return a->distance < b->distance; });
    // Nearest first, so a kept one can only be beaten on a mismatch.
    std::vector<const Candidate*> front = {&best};
    for (const Candidate* c : near) {
      const bool beaten = std::any_of(front.begin(), front.end(), [&](const Candidate* f) {
        return f->distance <= c->distance && std::abs(f->off.flops) <= std::abs(c->off.flops) &&
               std::abs(f->off.parameters) <= std::abs(c->off.parameters) &&
               std::abs(f->off.kv_cache) <= std::abs(c->off.kv_cache);
      });
      if (!beaten) front.push_back(c);
      if (front.size() > kAlternatives) break;
    }
    for (std::size_t i = 1; i < front.size(); ++i) r.alternatives.push_back(to_match(*front[i]));
  }

  const ModelConfig& base_;
  const MatchOptions& options_;
  Budget target_;
  ModelConfig shape_;  // the candidate at hand; loop, depth and kinds of layers are fixed
  Layers dense_, sparse_;
  double executed_ = 0;
  bool limited_ = true;
  std::int64_t hidden_step_ = 8, width_step_ = 8, experts_step_ = 4;
  std::vector<Candidate> candidates_;
};

Json match_json(const Match& m) {
  return {{"config", arch::to_json(m.config)},
          {"mismatch", to_json(m.mismatch)},
          {"distance", m.distance},
          {"flops_per_token", m.budget.flops_per_token},
          {"parameters", m.budget.parameters_total},
          {"kv_elements_per_token", m.budget.kv_elements_per_token}};
}

}  // namespace

void validate(const MatchOptions& options, Problems& problems) {
  check_fields(options, problems);
  MatchOptions::visit_fields(options, [&](const Field& field, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<double>>) {
      if (value.size() == 2 && value[0] > 0 && value[0] <= value[1]) return;
      problems.add(fmt::format("{}: expected two ratios above 0, the lower one first, got [{}]",
                               field.name, fmt::join(value, ", ")));
    }
  });
  const auto even = [&problems](const char* name, std::int64_t value) {
    if (value % 2 == 0) return;
    problems.add(fmt::format("{}: expected an even number, got {}", name, value));
  };
  even("head_dim_multiple", options.head_dim_multiple);
  even("fix_head_dim", options.fix_head_dim.value_or(0));
}

MatchResult match(const ModelConfig& baseline, const MatchOptions& options) {
  if (baseline.visits() > 1) {
    throw Error("budget", "the Baseline of a match must not be looped, got visits = " +
                              std::to_string(baseline.visits()));
  }
  Problems problems("budget");
  validate(options, problems);
  arch::validate(baseline, problems);
  problems.throw_if_any();
  ModelConfig plain = baseline;
  plain.loop.reset();
  return Search(plain, options).run();
}

std::vector<AblationRow> ablate(const ModelConfig& baseline, Ablation what,
                                const MatchOptions& options) {
  const std::int64_t layers = baseline.num_hidden_layers;
  const auto part = [layers](std::int64_t twelfths) {
    const double exact = static_cast<double>(layers * twelfths) / 12;
    return std::max<std::int64_t>(1, std::llround(exact));
  };
  std::vector<AblationRow> rows;
  const auto add = [&](std::int64_t depth, std::int64_t looped, std::int64_t visits) {
    AblationRow row;
    row.looped = looped > 0;
    row.layers = depth;
    row.looped_layers = looped;
    row.visits = row.looped ? visits : 1;
    MatchOptions own = options;
    own.depth = depth;
    own.visits = row.visits;
    own.span = static_cast<double>(std::max<std::int64_t>(2, looped));  // a number of layers
    if (looped == 1) own.span = 1.0 / static_cast<double>(depth);
    own.bounds_hidden = {0.8 * options.bounds_hidden[0], 1.4 * options.bounds_hidden[1]};
    own.bounds_head_dim = {0.5 * options.bounds_head_dim[0], options.bounds_head_dim[1]};
    own.bounds_experts = {0.5 * options.bounds_experts[0], 2 * options.bounds_experts[1]};
    row.match = match(baseline, own);
    rows.push_back(std::move(row));
  };
  switch (what) {
    case Ablation::kSpan:
      for (const std::int64_t twelfths : {0, 2, 4, 6, 8, 10, 12}) {
        add(layers, twelfths == 0 ? 0 : part(twelfths), 2);
      }
      break;
    case Ablation::kDepth:
      for (const std::int64_t twelfths : {9, 12, 15, 18}) add(part(twelfths), 0, 1);
      for (const std::int64_t twelfths : {8, 10, 12, 14}) {
        const std::int64_t depth = part(twelfths);
        add(depth, std::max<std::int64_t>(1, depth / 2), 2);
      }
      break;
    case Ablation::kVisits:
      add(layers, 0, 1);
      for (const std::int64_t visits : {2, 3, 4}) {
        add(layers, std::max<std::int64_t>(1, layers / 2), visits);
      }
      break;
  }
  return rows;
}

Json to_json(const MatchResult& r) {
  Json alternatives = Json::array();
  for (const Match& m : r.alternatives) alternatives.push_back(match_json(m));
  return {
      {"schema", "smelt.match/1"},
      {"baseline", arch::to_json(r.baseline)},
      {"matched", arch::to_json(r.best.config)},
      {"mismatch", to_json(r.best.mismatch)},
      {"within_tolerance", r.within_tolerance},
      {"budget", {{"baseline", to_json(r.baseline_budget)}, {"matched", to_json(r.best.budget)}}},
      {"alternatives", alternatives},
      {"words", r.words}};
}

}  // namespace smelt::budget
