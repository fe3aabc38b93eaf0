#include "smelt/budget/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace smelt::budget {
namespace {

using arch::ModelConfig;

/// Bounds of natural geometries, as ratios to the Baseline's.
constexpr double kHiddenMin = 0.5, kHiddenMax = 1.0;
constexpr double kHeadDimMin = 0.5, kHeadDimMax = 2.0;
constexpr double kGroupMin = 0.5, kGroupMax = 2.0;    // heads per KV head
constexpr double kQueryMin = 0.8, kQueryMax = 1.3;    // query width / hidden
constexpr double kExpertMin = 0.5, kExpertMax = 2.0;  // expert width / hidden
constexpr double kExpertsMin = 1.0, kExpertsMax = 3.5;
constexpr std::int64_t kSmallHidden = 512;
constexpr std::size_t kAlternatives = 8;

double square_log(double ratio) {
  return std::log(ratio) * std::log(ratio);
}

/// Calls `use(n)` for the multiples of `step` in [low, high].
template <class Use>
void for_multiples(double low, double high, std::int64_t step, Use use) {
  constexpr double kSlack = 1e-9;
  const auto first = static_cast<std::int64_t>(std::ceil(low / static_cast<double>(step) - kSlack));
  for (std::int64_t n = std::max<std::int64_t>(1, first) * step;
       static_cast<double>(n) <= high * (1 + kSlack); n += step) {
    use(n);
  }
}

/// A candidate while searching: plain numbers, no copies of configs.
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
    const double layers = static_cast<double>(baseline.num_hidden_layers);
    const auto span = static_cast<std::int64_t>(
        std::llround(options.span <= 1 ? options.span * layers : options.span));
    loop_ = arch::middle_loop(baseline.num_hidden_layers, std::max<std::int64_t>(1, span),
                              options.visits);
    executed_ = layers + static_cast<double>((options.visits - 1) * (loop_.last - loop_.first + 1));
  }

  MatchResult run() {
    search_kv_heads(base_.num_key_value_heads);
    if (!best_within(options_.tolerance_kv_cache) &&
        !best_within(options_.tolerance_kv_cache_wide)) {
      const std::int64_t own = base_.num_key_value_heads;
      for (std::int64_t kv = 1; kv <= 2 * own * 4; ++kv) {
        if (kv != own && (own % kv == 0 || kv % own == 0)) search_kv_heads(kv);
      }
    }
    return result();
  }

 private:
  void search_kv_heads(std::int64_t kv_heads) {
    const double dim = static_cast<double>(base_.head_dim);
    for_multiples(kHeadDimMin * dim, kHeadDimMax * dim, options_.head_dim_multiple,
                  [&](std::int64_t head_dim) {
                    const double kv = 2.0 * static_cast<double>(kv_heads * head_dim) * executed_ /
                                          target_.kv_elements_per_token -
                                      1;
                    search_heads(kv_heads, head_dim, kv);
                  });
  }

  void search_heads(std::int64_t kv_heads, std::int64_t head_dim, double kv_mismatch) {
    // Far outside every tolerance nothing is worth looking at, unless nothing else was seen.
    const double limit = std::max(0.1, 3 * options_.tolerance_kv_cache_wide);
    if (std::abs(kv_mismatch) > limit) return;
    const double group = static_cast<double>(base_.num_attention_heads) /
                         static_cast<double>(base_.num_key_value_heads);
    for_multiples(kGroupMin * group, kGroupMax * group, 1, [&](std::int64_t heads_per_kv) {
      Candidate c{};
      c.kv_heads = kv_heads;
      c.head_dim = head_dim;
      c.heads = heads_per_kv * kv_heads;
      c.off.kv_cache = kv_mismatch;
      c.distance = square_log(static_cast<double>(head_dim) / static_cast<double>(base_.head_dim)) +
                   square_log(static_cast<double>(heads_per_kv) / group) +
                   square_log(static_cast<double>(kv_heads) /
                              static_cast<double>(base_.num_key_value_heads));
      search_hidden(c);
    });
  }

  void search_hidden(Candidate c) {
    const double base_hidden = static_cast<double>(base_.hidden_size);
    const double base_query = static_cast<double>(base_.query_width()) / base_hidden;
    const double q = static_cast<double>(c.heads * c.head_dim);
    const double low = std::max(kHiddenMin * base_hidden, q / (kQueryMax * base_query));
    const double high = std::min(kHiddenMax * base_hidden, q / (kQueryMin * base_query));
    const double distance = c.distance;
    for_multiples(low, high, hidden_step_, [&](std::int64_t hidden) {
      c.hidden = hidden;
      c.distance = distance + square_log(q / static_cast<double>(hidden) / base_query);
      search_experts(c);
    });
  }

  /// Expert width and count: the parameters fix the count for each width, the FLOPs choose the
  /// width.
  void search_experts(Candidate c) {
    const double h = static_cast<double>(c.hidden);
    const double q = static_cast<double>(c.heads * c.head_dim);
    const double kv = static_cast<double>(c.kv_heads * c.head_dim);
    const double layers = static_cast<double>(base_.num_hidden_layers);
    const double top_k = static_cast<double>(base_.num_experts_per_tok);
    const double attention = 2 * h * q + 2 * h * kv;
    const double norms = 2 * h + (base_.qk_norm ? 2 * static_cast<double>(c.head_dim) : 0);
    const double scores = 12 * q * options_.attended * executed_;
    const double base_width =
        static_cast<double>(base_.moe_intermediate_size) / static_cast<double>(base_.hidden_size);
    const double distance = c.distance;

    const auto consider = [&](std::int64_t width, std::int64_t experts) {
      const double i = static_cast<double>(width), e = static_cast<double>(experts);
      const double ratio = e / static_cast<double>(base_.num_experts);
      if (ratio < kExpertsMin || ratio > kExpertsMax || experts < base_.num_experts_per_tok) return;
      if (options_.max_experts && experts > *options_.max_experts) return;
      c.expert_width = width;
      c.experts = experts;
      const double flops = 6 * executed_ * (attention + h * e + top_k * 3 * h * i) + scores;
      const double parameters = layers * (attention + norms + h * e + 3 * h * i * e);
      c.off.flops = flops / target_.flops_per_token - 1;
      c.off.parameters = parameters / target_.parameters_total - 1;
      c.distance = distance + square_log(i / h / base_width);
      keep(c);
    };

    for_multiples(
        kExpertMin * base_width * h, kExpertMax * base_width * h, width_step_,
        [&](std::int64_t width) {
          const double i = static_cast<double>(width);
          const double exact =
              (target_.parameters_total / layers - attention - norms) / (h + 3 * h * i);
          // Skip widths whose FLOPs are hopeless whatever the count rounds to.
          const double flops = 6 * executed_ * (attention + h * exact + top_k * 3 * h * i) + scores;
          const double limit = std::max(0.05, 4 * options_.tolerance_flops);
          if (std::abs(flops / target_.flops_per_token - 1) > limit) return;
          const auto step = static_cast<double>(experts_step_);
          const auto below = static_cast<std::int64_t>(std::floor(exact / step)) * experts_step_;
          consider(width, below);
          consider(width, below + experts_step_);
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

  void keep(const Candidate& c) { candidates_.push_back(c); }

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

  const Candidate* least_bad() const {
    const Candidate* best = nullptr;
    for (const Candidate& c : candidates_) {
      if (!best || units(c, options_.tolerance_kv_cache_wide) <
                       units(*best, options_.tolerance_kv_cache_wide)) {
        best = &c;
      }
    }
    return best;
  }

  Match to_match(const Candidate& c) const {
    Match m;
    m.config = base_;
    m.config.hidden_size = c.hidden;
    m.config.num_attention_heads = c.heads;
    m.config.num_key_value_heads = c.kv_heads;
    m.config.head_dim = c.head_dim;
    m.config.num_experts = c.experts;
    m.config.moe_intermediate_size = c.expert_width;
    m.config.loop = loop_;
    m.budget = count(m.config, options_.attended);
    m.mismatch = budget::mismatch(m.budget, target_);
    m.distance = c.distance;
    return m;
  }

  MatchResult result() const {
    MatchResult r;
    r.baseline = base_;
    r.baseline_budget = target_;
    double kv_tolerance = options_.tolerance_kv_cache;
    const Candidate* best = best_within(kv_tolerance);
    if (!best) {
      kv_tolerance = options_.tolerance_kv_cache_wide;
      best = best_within(kv_tolerance);
    }
    r.within_tolerance = best != nullptr;
    if (!best) best = least_bad();
    if (!best) {
      throw Error("budget",
                  "no geometry near the Baseline's proportions: loosen a multiple or max_experts");
    }
    r.best = to_match(*best);
    add_words(r, kv_tolerance);
    add_alternatives(r, *best, kv_tolerance);
    return r;
  }

  void add_words(MatchResult& r, double kv_tolerance) const {
    const auto say = [&r](const char* what, double off, double tolerance, const char* loosen) {
      if (std::abs(off) <= tolerance) return;
      r.words.push_back(fmt::format("{} is off by {:+.2f} % (tolerance {:.2f} %): loosen {}", what,
                                    100 * off, 100 * tolerance, loosen));
    };
    say("FLOPs per token", r.best.mismatch.flops, options_.tolerance_flops,
        "expert_width_multiple, hidden_multiple or tolerance_flops");
    say("total parameters", r.best.mismatch.parameters, options_.tolerance_parameters,
        "experts_multiple, max_experts or tolerance_parameters");
    say("KV cache", r.best.mismatch.kv_cache, kv_tolerance,
        "head_dim_multiple or tolerance_kv_cache");
    if (r.within_tolerance && kv_tolerance > options_.tolerance_kv_cache) {
      r.words.push_back(fmt::format(
          "KV cache {:+.2f} %: nothing within {:.2f} %, so {:.2f} % was used",
          100 * r.best.mismatch.kv_cache, 100 * options_.tolerance_kv_cache, 100 * kv_tolerance));
    }
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

  void add_alternatives(MatchResult& r, const Candidate& best, double kv_tolerance) const {
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
  arch::Loop loop_;
  double executed_ = 0;
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

MatchResult match(const ModelConfig& baseline, const MatchOptions& options) {
  if (baseline.visits() > 1) {
    throw Error("budget", "the Baseline of a match must not be looped, got visits = " +
                              std::to_string(baseline.visits()));
  }
  Problems problems("budget");
  check_fields(options, problems);
  arch::validate(baseline, problems);
  if (options.head_dim_multiple % 2 != 0) {
    problems.add("head_dim_multiple: expected an even number, got " +
                 std::to_string(options.head_dim_multiple));
  }
  problems.throw_if_any();
  ModelConfig plain = baseline;
  plain.loop.reset();
  return Search(plain, options).run();
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
