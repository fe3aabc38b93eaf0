#include "smelt/budget/match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "smelt/budget/match_search.h"

namespace smelt::budget {
namespace {

using arch::ModelConfig;

constexpr std::size_t kAlternatives = 8;

/// A finished search as a result: the answer, its words, its alternatives.
class Answer {
 public:
  Answer(const ModelConfig& baseline, const MatchOptions& options)
      : base_(baseline), options_(options), found_(search(baseline, options)) {
    result_.baseline = baseline;
    result_.baseline_budget = count(baseline, options.attended);
  }

  MatchResult take() {
    const bool narrow = found_.nearest_narrow.has_value();
    kv_tolerance_ = narrow ? options_.tolerance_kv_cache : found_.wide_tolerance();
    result_.within_tolerance = narrow || found_.nearest_wide.has_value();
    best_ = narrow                     ? *found_.nearest_narrow
            : result_.within_tolerance ? *found_.nearest_wide
                                       : outside();
    result_.best = to_match(best_);
    add_mismatch_words();
    if (!base_.latent()) add_head_words();
    if (result_.within_tolerance) {
      add_pareto_set();
    } else {
      add_those_that_give_up_one();
    }
    return std::move(result_);
  }

 private:
  /// The least bad one; of a dense model, whose parameters cannot be met (it has no experts), one
  /// that meets the other two budgets.
  const Candidate& outside() const {
    const auto& without_parameters = found_.giving_up_one[1];
    return base_.num_experts == 0 && without_parameters ? *without_parameters : *found_.least_bad;
  }

  Match to_match(const Candidate& c) const {
    Match m;
    m.config = config_of(c, base_, options_);
    m.budget = count(m.config, options_.attended);
    m.mismatch = budget::mismatch(m.budget, result_.baseline_budget);
    m.distance = c.distance;
    return m;
  }

  void add_mismatch_words() {
    const Mismatch& off = result_.best.mismatch;
    const auto say = [this](const char* what, double by, double tolerance, const char* loosen) {
      if (std::abs(by) <= tolerance) return;
      result_.words.push_back(fmt::format("{} is off by {:+.2f} % (tolerance {:.2f} %): {}", what,
                                          100 * by, 100 * tolerance, loosen));
    };
    say("FLOPs per token", off.flops, options_.tolerance_flops,
        "loosen a multiple of expert_width or hidden, a bound or fixed size, or the tolerance of "
        "flops");
    say("total parameters", off.parameters, options_.tolerance_parameters,
        base_.num_experts == 0
            ? "a dense model has no experts that could win back what the narrower layers lose"
            : "loosen max_experts, the multiple of experts, the bounds of experts or expert_width, "
              "or the tolerance of parameters");
    say("KV cache", off.kv_cache, kv_tolerance_,
        "loosen the multiple of head_dim or kv_heads, the bounds of head_dim, or the tolerance of "
        "kv_cache");
    if (result_.within_tolerance && std::abs(off.kv_cache) > options_.tolerance_kv_cache) {
      result_.words.push_back(
          fmt::format("KV cache {:+.2f} %: nothing within {:.2f} %, so {:.2f} % was used",
                      100 * off.kv_cache, 100 * options_.tolerance_kv_cache, 100 * kv_tolerance_));
    }
  }

  void add_head_words() {
    const std::int64_t head_dim = result_.best.config.head_dim;
    if (head_dim % 8 == 0) return;
    std::string line = fmt::format("head_dim {} is no multiple of 8 (slower on GPUs)", head_dim);
    if (const auto& even = found_.multiple_of_8) {
      line += fmt::format(
          "; best multiple of 8: {} with FLOPs {:+.2f} %, parameters {:+.2f} %, KV {:+.2f} %",
          even->head_dim, 100 * even->off.flops, 100 * even->off.parameters,
          100 * even->off.kv_cache);
    }
    result_.words.push_back(line);
  }

  void add_pareto_set() {
    std::vector<Candidate>& near = found_.near;
    std::erase_if(near, [this](const Candidate& c) {
      return c == best_ || found_.units(c, kv_tolerance_) > 2;
    });
    std::stable_sort(near.begin(), near.end(), [](const Candidate& a, const Candidate& b) {
      return a.distance < b.distance;
    });
    // Nearest first, so a kept one can only be beaten on a mismatch.
    std::vector<Candidate> front = {best_};
    for (const Candidate& c : near) {
      const bool beaten = std::any_of(front.begin(), front.end(), [&](const Candidate& f) {
        return f.distance <= c.distance && std::abs(f.off.flops) <= std::abs(c.off.flops) &&
               std::abs(f.off.parameters) <= std::abs(c.off.parameters) &&
               std::abs(f.off.kv_cache) <= std::abs(c.off.kv_cache);
      });
      if (!beaten) front.push_back(c);
      if (front.size() > kAlternatives) break;
    }
    for (std::size_t i = 1; i < front.size(); ++i) {
      result_.alternatives.push_back(to_match(front[i]));
    }
  }

  void add_those_that_give_up_one() {
    constexpr const char* kGivenUp[] = {"FLOPs per token", "total parameters", "KV cache"};
    constexpr double Mismatch::* kOff[] = {&Mismatch::flops, &Mismatch::parameters,
                                           &Mismatch::kv_cache};
    for (std::size_t i = 0; i < found_.giving_up_one.size(); ++i) {
      const auto& c = found_.giving_up_one[i];
      if (!c || *c == best_) continue;
      result_.alternatives.push_back(to_match(*c));
      result_.words.push_back(
          fmt::format("alternative {} is within tolerance but for the {} ({:+.2f} %)",
                      result_.alternatives.size(), kGivenUp[i],
                      100 * (result_.alternatives.back().mismatch.*kOff[i])));
    }
    if (*found_.least_bad == best_) return;
    result_.alternatives.push_back(to_match(*found_.least_bad));
    result_.words.push_back(
        fmt::format("alternative {} has the smallest worst mismatch", result_.alternatives.size()));
  }

  const ModelConfig& base_;
  const MatchOptions& options_;
  Shortlist found_;
  double kv_tolerance_ = 0;
  Candidate best_;
  MatchResult result_;
};

/// What the options ask of a model that has no such size, or that its own sizes forbid.
void check_against(const ModelConfig& baseline, const MatchOptions& o, Problems& problems) {
  if (baseline.visits() > 1) {
    problems.add(fmt::format("the Baseline of a match must not be looped, got visits = {}",
                             baseline.visits()));
  }
  const auto refuse = [&problems](bool given, const char* option, const char* why) {
    if (given) problems.add(std::string(option) + ": " + why);
  };
  if (baseline.latent()) {
    const char* why = "latent attention caches one vector and has no KV heads of its own";
    refuse(o.fix_num_key_value_heads.has_value(), "fix_num_key_value_heads", why);
    refuse(o.kv_heads_multiple != 1, "kv_heads_multiple", why);
  }
  if (baseline.num_experts == 0) {
    const char* why = "a dense model has no experts";
    refuse(o.fix_num_experts.has_value(), "fix_num_experts", why);
    refuse(o.max_experts.has_value(), "max_experts", why);
    refuse(o.experts_multiple.has_value(), "experts_multiple", why);
    refuse(o.bounds_experts != MatchOptions{}.bounds_experts, "bounds_experts", why);
    refuse(o.fix_moe_intermediate_size.has_value(), "fix_moe_intermediate_size",
           "a dense model has no experts; its width is intermediate_size");
  } else {
    refuse(o.fix_intermediate_size && baseline.mlp_only_layers.empty(), "fix_intermediate_size",
           "no feed-forward of the Baseline is dense");
    const auto enough = [&](const char* option, std::optional<std::int64_t> experts) {
      if (!experts || *experts >= baseline.num_experts_per_tok) return;
      problems.add(fmt::format("{}: expected at least num_experts_per_tok = {}, got {}", option,
                               baseline.num_experts_per_tok, *experts));
    };
    enough("fix_num_experts", o.fix_num_experts);
    enough("max_experts", o.max_experts);
  }
  const std::int64_t layers = o.depth.value_or(baseline.num_hidden_layers);
  if (o.visits > 1 && o.span > static_cast<double>(layers)) {
    problems.add(fmt::format("span: expected at most the {} layers, got {}", layers, o.span));
  }
}

/// Throws Error with every problem of both.
void check(const ModelConfig& baseline, const MatchOptions& options) {
  Problems problems("budget");
  validate(options, problems);
  arch::validate(baseline, problems);
  if (problems.empty()) check_against(baseline, options, problems);
  problems.throw_if_any();
}

Json match_json(const Match& m) {
  return {{"config", arch::to_json(m.config)},
          {"mismatch", to_json(m.mismatch)},
          {"distance", m.distance},
          {"flops_per_token", m.budget.flops_per_token},
          {"parameters", m.budget.parameters_total},
          {"kv_elements_per_token", m.budget.kv_elements_per_token}};
}

}  // namespace

void validate(const MatchOptions& o, Problems& problems) {
  check_fields(o, problems);
  MatchOptions::visit_fields(o, [&](const Field& field, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<double>>) {
      if (value.size() == 2 && value[0] > 0 && value[0] <= value[1]) return;
      problems.add(fmt::format("{}: expected two ratios above 0, the lower one first, got [{}]",
                               field.name, fmt::join(value, ", ")));
    }
  });
  if (o.span > 1 && o.span != std::floor(o.span)) {
    problems.add(fmt::format(
        "span: expected a fraction up to 1 or a whole number of layers, got {}", o.span));
  }
  const auto even = [&problems](const char* name, std::optional<std::int64_t> value) {
    if (!value || *value % 2 == 0) return;
    problems.add(fmt::format("{}: expected an even number, got {}", name, *value));
  };
  even("head_dim_multiple", o.head_dim_multiple);
  even("fix_head_dim", o.fix_head_dim);
  // A multiple that is asked for binds a fixed size too.
  const auto agree = [&problems](const char* fixed_name, std::optional<std::int64_t> fixed,
                                 const char* multiple_name, std::optional<std::int64_t> multiple) {
    if (!fixed || !multiple || *multiple < 1 || *fixed % *multiple == 0) return;
    problems.add(fmt::format("{}: expected a multiple of {} = {}, got {}", fixed_name,
                             multiple_name, *multiple, *fixed));
  };
  agree("fix_hidden_size", o.fix_hidden_size, "hidden_multiple", o.hidden_multiple);
  agree("fix_head_dim", o.fix_head_dim, "head_dim_multiple", o.head_dim_multiple);
  agree("fix_num_attention_heads", o.fix_num_attention_heads, "heads_multiple", o.heads_multiple);
  agree("fix_num_attention_heads", o.fix_num_attention_heads, "fix_num_key_value_heads",
        o.fix_num_key_value_heads);
  agree("fix_num_key_value_heads", o.fix_num_key_value_heads, "kv_heads_multiple",
        o.kv_heads_multiple);
  agree("fix_num_experts", o.fix_num_experts, "experts_multiple", o.experts_multiple);
  agree("fix_moe_intermediate_size", o.fix_moe_intermediate_size, "expert_width_multiple",
        o.expert_width_multiple);
  agree("fix_intermediate_size", o.fix_intermediate_size, "expert_width_multiple",
        o.expert_width_multiple);
  if (o.fix_num_experts && o.max_experts && *o.fix_num_experts > *o.max_experts) {
    problems.add(fmt::format("fix_num_experts: expected at most max_experts = {}, got {}",
                             *o.max_experts, *o.fix_num_experts));
  }
}

MatchResult match(const ModelConfig& baseline, const MatchOptions& options) {
  check(baseline, options);
  ModelConfig plain = baseline;
  plain.loop.reset();
  return Answer(plain, options).take();
}

std::vector<AblationRow> ablate(const ModelConfig& baseline, Ablation what,
                                const MatchOptions& options) {
  check(baseline, options);
  ModelConfig plain = baseline;
  plain.loop.reset();
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
    const bool seen = std::any_of(rows.begin(), rows.end(), [&row](const AblationRow& other) {
      return other.layers == row.layers && other.looped_layers == row.looped_layers &&
             other.visits == row.visits;
    });
    if (seen) return;  // a shallow model's parts round to the same
    MatchOptions own = options;
    own.depth = depth;
    own.visits = row.visits;
    own.span = static_cast<double>(std::max<std::int64_t>(2, looped));  // a number of layers
    if (looped == 1) own.span = 1.0 / static_cast<double>(depth);
    const MatchOptions usual;
    const auto widen = [](std::vector<double>& bounds, const std::vector<double>& by_default,
                          double low, double high) {
      if (bounds == by_default) bounds = {low * bounds[0], high * bounds[1]};  // the user's stay
    };
    widen(own.bounds_hidden, usual.bounds_hidden, 0.8, 1.4);
    widen(own.bounds_head_dim, usual.bounds_head_dim, 0.5, 1);
    widen(own.bounds_experts, usual.bounds_experts, 0.5, 2);
    row.match = Answer(plain, own).take();
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
