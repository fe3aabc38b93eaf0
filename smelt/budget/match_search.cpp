#include "smelt/budget/match_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "smelt/budget/layer_cost.h"

namespace smelt::budget {
namespace {

using arch::ModelConfig;

constexpr std::int64_t kSmallHidden = 512;
constexpr std::int64_t kCachedMultiple = 16;  // of a latent attention's cached vector
constexpr std::int64_t kMostGeometries = 20'000'000;
// Of each size in the search for the least bad, before it looks closer.
constexpr std::int64_t kMostHeadSizes = 40, kMostGroups = 20, kMostHidden = 60;

double square_log(double ratio) {
  return std::log(ratio) * std::log(ratio);
}

/// `smallest`, or for sizes from 8192 times that on the largest power of two that is at most a
/// 4096th of the size.
std::int64_t natural_step(std::int64_t size, std::int64_t smallest) {
  std::int64_t step = smallest;
  while (2 * step <= size / 4096) step *= 2;
  return step;
}

/// Sizes that are searched, in steps; the sizes that options give alone otherwise.
struct Steps {
  std::int64_t hidden, width, experts, head_dim;

  Steps(const ModelConfig& base, const MatchOptions& o) {
    const bool small = base.hidden_size < kSmallHidden;
    const std::int64_t base_width =
        base.num_experts > 0 ? base.moe_intermediate_size : base.intermediate_size;
    hidden = o.hidden_multiple.value_or(natural_step(base.hidden_size, small ? 2 : 8));
    width = o.expert_width_multiple.value_or(natural_step(base_width, small ? 2 : 8));
    experts = o.experts_multiple.value_or(natural_step(base.num_experts, small ? 1 : 4));
    if (const auto groups = base.kept.find("n_group");
        groups != base.kept.end() && groups->is_number_integer()) {
      experts = std::lcm(experts, std::max<std::int64_t>(1, groups->get<std::int64_t>()));
    }
    head_dim = o.head_dim_multiple.value_or(base.latent()
                                                ? natural_step(base.kv_lora_rank, kCachedMultiple)
                                                : natural_step(base.head_dim, 2));
  }
};

/// A width of the Baseline in proportion to the hidden size, in steps.
std::int64_t scaled(std::int64_t width, std::int64_t hidden, const ModelConfig& base,
                    std::int64_t step) {
  if (width == 0) return 0;
  const double exact = static_cast<double>(width) * static_cast<double>(hidden) /
                       static_cast<double>(base.hidden_size);
  return std::max<std::int64_t>(1, std::llround(exact / static_cast<double>(step))) * step;
}

/// The looped model's layers and loop; the sizes are the Baseline's.
ModelConfig shape_of(const ModelConfig& baseline, const MatchOptions& options) {
  ModelConfig shape = baseline;
  shape.loop.reset();
  const std::int64_t layers = options.depth.value_or(baseline.num_hidden_layers);
  shape.num_hidden_layers = layers;
  std::erase_if(shape.mlp_only_layers, [layers](std::int64_t layer) { return layer >= layers; });
  if (options.visits > 1) {
    const double span =
        options.span <= 1 ? options.span * static_cast<double>(layers) : options.span;
    shape.loop =
        arch::middle_loop(layers, std::max<std::int64_t>(1, std::llround(span)), options.visits);
  }
  return shape;
}

/// Sets the sizes that attention depends on.
void set_attention(ModelConfig& shape, const Candidate& c) {
  shape.num_attention_heads = c.heads;
  shape.num_key_value_heads = shape.latent() ? c.heads : c.kv_heads;
  (shape.latent() ? shape.kv_lora_rank : shape.head_dim) = c.head_dim;
}

void set_hidden(ModelConfig& shape, std::int64_t hidden, const ModelConfig& base,
                const MatchOptions& options, std::int64_t width_step) {
  shape.hidden_size = hidden;
  shape.shared_expert_intermediate_size =
      scaled(base.shared_expert_intermediate_size, hidden, base, width_step);
  shape.intermediate_size = options.fix_intermediate_size.value_or(
      scaled(base.intermediate_size, hidden, base, width_step));
}

/// What the search of one level leaves open: the level that it never got through is why nothing is
/// left.
enum class Level { kKvHeads, kHeadSize, kHeads, kHidden, kWidth, kExperts, kFound };

const char* nothing_left(Level level) {
  switch (level) {
    case Level::kKvHeads:
      return "no number of KV heads is a multiple of kv_heads and divides, or is a multiple of, "
             "the "
             "Baseline's: loosen the multiple of kv_heads";
    case Level::kHeadSize:
      return "no head size is left: loosen the bounds or the multiple of head_dim";
    case Level::kHeads:
      return "no number of query heads is a multiple of the KV heads and inside the bounds: loosen "
             "the bounds of group, the multiple of heads, or the fixed num_attention_heads";
    case Level::kHidden:
      return "no hidden size is left: loosen the bounds of hidden or query, the multiple of "
             "hidden, "
             "or the fixed num_attention_heads or head_dim";
    case Level::kWidth:
      return "no feed-forward width is left: loosen the bounds or the multiple of expert_width";
    case Level::kExperts:
    case Level::kFound:
      break;
  }
  return "no number of experts is left (at least num_experts_per_tok): loosen the bounds or the "
         "multiple of experts, max_experts, or the fixed num_experts";
}

/// Multiples of `step` in [low, high].
struct Multiples {
  std::int64_t first = 0, last = -1, step = 1;

  Multiples(double low, double high, std::int64_t of) : step(of) {
    constexpr double kSlack = 1e-9;
    constexpr double kMost = 1e15;
    const auto s = static_cast<double>(of);
    first = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(std::min(low, kMost) / s - kSlack)));
    last = static_cast<std::int64_t>(std::floor(std::clamp(high, 0.0, kMost) / s * (1 + kSlack)));
    first *= of;
    last *= of;
  }
  explicit Multiples(std::int64_t fixed) : first(fixed), last(fixed) {}

  bool empty() const { return first > last; }
  /// At most `most` of them, in equal steps.
  Multiples thinned(std::int64_t most) const {
    Multiples thin = *this;
    if (empty()) return thin;
    const std::int64_t count = (last - first) / step + 1;
    thin.step = step * ((count + most - 1) / most);
    thin.last = first + (last - first) / thin.step * thin.step;
    return thin;
  }
  /// Those within `reach` of `at`.
  Multiples near(std::int64_t at, std::int64_t reach) const {
    Multiples part = *this;
    const std::int64_t below = std::max<std::int64_t>(0, at - reach - first);
    part.first = first + (below + step - 1) / step * step;
    part.last = std::min(last, at + reach);
    return part;
  }
  /// The multiples on both sides of `x`, kept inside.
  std::array<std::int64_t, 2> around(double x) const {
    const auto s = static_cast<double>(step);
    const double inside = std::clamp(x, static_cast<double>(first), static_cast<double>(last));
    const auto below =
        std::clamp(static_cast<std::int64_t>(std::floor(inside / s)) * step, first, last);
    return {below, std::min(below + step, last)};
  }
};

class Search {
 public:
  Search(const ModelConfig& baseline, const MatchOptions& options)
      : base_(baseline),
        options_(options),
        steps_(baseline, options),
        target_(count(baseline, options.attended)),
        shape_(shape_of(baseline, options)),
        found_(options, baseline.num_key_value_heads) {
    for (std::int64_t layer = 0; layer < shape_.num_hidden_layers; ++layer) {
      const auto visits = static_cast<double>(shape_.visits_of(layer));
      const bool dense = shape_.dense(layer);
      (dense ? dense_ : sparse_).add(visits);
      if (!dense && some_sparse_ < 0) some_sparse_ = layer;
      if (dense && some_dense_ < 0) some_dense_ = layer;
    }
    executed_ = dense_.executed + sparse_.executed;
    base_width_ = static_cast<double>(base_.num_experts > 0 ? base_.moe_intermediate_size
                                                            : base_.intermediate_size) /
                  static_cast<double>(base_.hidden_size);
    base_query_ = query_width(base_) / static_cast<double>(base_.hidden_size);
    if (base_.num_experts > 0 && sparse_.physical == 0) {
      throw Error("budget", fmt::format("depth: expected more layers than the Baseline's {} first "
                                        "dense ones, got {}: no layer with experts is left",
                                        dense_.physical, shape_.num_hidden_layers));
    }
  }

  Shortlist run() {
    for_kv_heads();
    if (!found_.nearest_wide) {  // nothing inside: the least bad of all
      limited_ = false;
      reached_ = Level::kKvHeads;
      for_kv_heads();
      if (thinned_) {  // … of large models in larger steps, then in all steps around what was found
        for (const auto& c : {found_.least_bad, found_.giving_up_one[0], found_.giving_up_one[1],
                              found_.giving_up_one[2]}) {
          if (!c) continue;
          focus_ = c;
          for_head_sizes(c->kv_heads);
        }
      }
    }
    if (!found_.least_bad) {
      throw Error("budget", std::string("no geometry at all: ") + nothing_left(reached_));
    }
    return std::move(found_);
  }

 private:
  struct Layers {
    double physical = 0, executed = 0;
    void add(double visits) {
      physical += 1;
      executed += visits;
    }
  };

  /// What attention, norms, shared experts and dense layers take of a budget.
  struct Fixed {
    double flops = 0, parameters = 0;
  };

  void reach(Level level) {
    reached_ = std::max(reached_, level);
    if (++geometries_ > kMostGeometries) {
      throw Error("budget", fmt::format("more than {} million geometries are inside the bounds: "
                                        "narrow the bounds of hidden, head_dim, group or "
                                        "expert_width, raise their multiples, or fix a size",
                                        kMostGeometries / 1'000'000));
    }
  }

  /// All of them in the limited search; else so many, or those around the focus.
  Multiples some_of(const Multiples& all, std::int64_t most, std::int64_t& coarse,
                    std::int64_t Candidate::* size) {
    if (limited_) return all;
    if (focus_) return size ? all.near((*focus_).*size, coarse) : all;
    const Multiples thin = all.thinned(most);
    coarse = std::max(coarse, thin.step);
    thinned_ = thinned_ || thin.step > all.step;
    return thin;
  }

  void for_kv_heads() {
    const std::int64_t own = base_.num_key_value_heads;
    if (base_.latent() || options_.fix_num_key_value_heads) {
      for_head_sizes(options_.fix_num_key_value_heads.value_or(own));
      return;
    }
    constexpr std::int64_t kMostTimes = 8;
    const std::int64_t step = options_.kv_heads_multiple;
    if (own % step == 0) for_head_sizes(own);
    if (limited_ && found_.nearest_wide) return;
    std::vector<std::int64_t> others;
    for (std::int64_t d = 1; d * d <= own; ++d) {
      if (own % d != 0) continue;
      others.push_back(d);
      others.push_back(own / d);
    }
    for (std::int64_t times = 2; times <= kMostTimes; ++times) others.push_back(times * own);
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    for (const std::int64_t kv : others) {
      if (kv != own && kv % step == 0) for_head_sizes(kv);
    }
  }

  /// The width that the cache is proportional to: a head, or the latent vector.
  double cached_base() const {
    return static_cast<double>(base_.latent() ? base_.kv_lora_rank : base_.head_dim);
  }

  void for_head_sizes(std::int64_t kv_heads) {
    reach(Level::kHeadSize);
    const double dim = cached_base();
    Candidate c;
    c.kv_heads = kv_heads;
    const Multiples sizes = options_.fix_head_dim
                                ? Multiples(*options_.fix_head_dim)
                                : Multiples(options_.bounds_head_dim[0] * dim,
                                            options_.bounds_head_dim[1] * dim, steps_.head_dim);
    const Multiples visited =
        some_of(sizes, kMostHeadSizes, coarse_.head_dim, &Candidate::head_dim);
    for (c.head_dim = visited.first; c.head_dim <= visited.last; c.head_dim += visited.step) {
      reach(Level::kHeads);
      c.heads = kv_heads;  // whatever they are, the cache is the same
      set_attention(shape_, c);
      c.off.kv_cache =
          attention_cost(shape_).cached * executed_ / target_.kv_elements_per_token - 1;
      if (worth_a_look(c)) for_heads(c);
    }
  }

  /// Whether this KV cache can still enter the shortlist.
  bool worth_a_look(const Candidate& c) const {
    const double off = std::abs(c.off.kv_cache), wide = found_.wide_tolerance();
    if (limited_) {
      return off <= 2 * wide || (c.head_dim % 8 == 0 && off <= std::max(0.1, 3 * wide));
    }
    return !found_.least_bad || found_.units(Candidate{.off = {.kv_cache = c.off.kv_cache}},
                                             wide) <= found_.units(*found_.least_bad, wide);
  }

  void for_heads(Candidate c) {
    const auto base_heads = static_cast<double>(base_.num_attention_heads);
    const std::int64_t per_group = base_.latent() ? 1 : c.kv_heads;
    const double group =
        base_.latent() ? base_heads : base_heads / static_cast<double>(base_.num_key_value_heads);
    std::int64_t step = base_.latent() ? std::max<std::int64_t>(1, base_.num_attention_heads / 16)
                                       : natural_step(static_cast<std::int64_t>(group), 1);
    if (options_.heads_multiple) {
      step = *options_.heads_multiple / std::gcd(*options_.heads_multiple, per_group);
    }
    const double distance = square_log(static_cast<double>(c.head_dim) / cached_base()) +
                            square_log(static_cast<double>(c.kv_heads) /
                                       static_cast<double>(base_.num_key_value_heads));
    Multiples groups(options_.bounds_group[0] * group, options_.bounds_group[1] * group, step);
    if (options_.fix_num_attention_heads) {
      if (*options_.fix_num_attention_heads % per_group != 0) return;
      groups = Multiples(*options_.fix_num_attention_heads / per_group);
    }
    if (focus_ && per_group == focus_->kv_heads) {
      groups = groups.near(focus_->heads / per_group, coarse_.group);
    } else {
      groups = some_of(groups, kMostGroups, coarse_.group, nullptr);
    }
    for (std::int64_t n = groups.first; n <= groups.last; n += groups.step) {
      reach(Level::kHidden);
      c.heads = n * per_group;
      c.distance = distance + square_log(static_cast<double>(n) / group);
      set_attention(shape_, c);
      for_hidden(c);
    }
  }

  static double query_width(const ModelConfig& m) { return attention_cost(m).scores / 2; }

  void for_hidden(Candidate c) {
    const auto base_hidden = static_cast<double>(base_.hidden_size);
    const double q = query_width(shape_);
    const Multiples sizes = options_.fix_hidden_size
                                ? Multiples(*options_.fix_hidden_size)
                                : Multiples(std::max(options_.bounds_hidden[0] * base_hidden,
                                                     q / (options_.bounds_query[1] * base_query_)),
                                            std::min(options_.bounds_hidden[1] * base_hidden,
                                                     q / (options_.bounds_query[0] * base_query_)),
                                            steps_.hidden);
    const double distance = c.distance;
    const Multiples visited = some_of(sizes, kMostHidden, coarse_.hidden, &Candidate::hidden);
    for (c.hidden = visited.first; c.hidden <= visited.last; c.hidden += visited.step) {
      reach(Level::kWidth);
      c.distance = distance + square_log(q / static_cast<double>(c.hidden) / base_query_);
      set_hidden(shape_, c.hidden, base_, options_, steps_.width);
      if (base_.num_experts == 0) {
        for_dense_widths(c);
      } else {
        for_expert_widths(c);
      }
    }
  }

  Fixed fixed_costs() const {
    const AttentionCost a = attention_cost(shape_);
    const auto h = static_cast<double>(shape_.hidden_size);
    Fixed fixed;
    fixed.flops = 6 * executed_ * (a.query + a.key_value + a.output + a.scores * options_.attended);
    fixed.parameters = (dense_.physical + sparse_.physical) *
                       (a.query + a.key_value + a.output + a.norms + a.biases + 2 * h);
    if (base_.num_experts == 0) return fixed;
    const FeedForwardCost sparse = feed_forward_cost(shape_, some_sparse_);
    // The routing biases grow with the experts and are counted with them.
    const double biases = sparse.biases - (base_.router_bias ? sparse.experts : 0);
    fixed.flops += 6 * sparse_.executed * sparse.shared;
    fixed.parameters += sparse_.physical * (sparse.shared + biases);
    if (some_dense_ >= 0) {
      const FeedForwardCost f = feed_forward_cost(shape_, some_dense_);
      fixed.flops += 6 * dense_.executed * f.dense;
      fixed.parameters += dense_.physical * (f.dense + f.biases);
    }
    return fixed;
  }

  Multiples widths(std::int64_t hidden, std::optional<std::int64_t> fixed) const {
    if (fixed) return Multiples(*fixed);
    const double exact = base_width_ * static_cast<double>(hidden);
    return {options_.bounds_expert_width[0] * exact, options_.bounds_expert_width[1] * exact,
            steps_.width};
  }

  /// Zeros of two straight lines f0 + f1·x and p0 + p1·x (mismatches in units of tolerance), and
  /// where the larger of the two is smallest.
  static std::array<double, 3> extremes(double f0, double f1, double p0, double p1) {
    return {-f0 / f1, -p0 / p1, -(f0 + p0) / (f1 + p1)};
  }

  double flops_units() const {
    return target_.flops_per_token * std::max(options_.tolerance_flops, 1e-12);
  }
  double parameter_units() const {
    return target_.parameters_total * std::max(options_.tolerance_parameters, 1e-12);
  }

  /// A dense model has no experts that win parameters back.
  void for_dense_widths(Candidate c) {
    const Fixed fixed = fixed_costs();
    const Multiples all = widths(c.hidden, options_.fix_intermediate_size);
    if (all.empty()) return;
    shape_.intermediate_size = 1;
    const FeedForwardCost one = feed_forward_cost(shape_, 0);
    const double h = static_cast<double>(c.hidden);
    const double constant = shape_.mlp_bias ? h : 0;  // of the biases
    const double per_width = one.dense + one.biases - constant;
    const double distance = c.distance;
    const auto consider = [&](std::int64_t width) {
      reach(Level::kFound);
      const auto i = static_cast<double>(width);
      c.expert_width = width;
      c.off.flops =
          (fixed.flops + 6 * dense_.executed * one.dense * i) / target_.flops_per_token - 1;
      c.off.parameters = (fixed.parameters + dense_.physical * (per_width * i + constant)) /
                             target_.parameters_total -
                         1;
      c.distance = distance + square_log(i / h / base_width_);
      found_.add(c);
    };
    const double f1 = 6 * dense_.executed * one.dense, f0 = fixed.flops - target_.flops_per_token;
    const double p1 = dense_.physical * per_width;
    const double p0 = fixed.parameters + dense_.physical * constant - target_.parameters_total;
    if (limited_) {
      const double f = 2 * flops_units(), p = 2 * parameter_units();
      const Multiples inside(
          std::max({static_cast<double>(all.first), (-f0 - f) / f1, (-p0 - p) / p1}),
          std::min({static_cast<double>(all.last), (-f0 + f) / f1, (-p0 + p) / p1}), all.step);
      for (std::int64_t w = inside.first; w <= inside.last; w += inside.step) consider(w);
      return;
    }
    for (const double x : extremes(f0 / flops_units(), f1 / flops_units(), p0 / parameter_units(),
                                   p1 / parameter_units())) {
      for (const std::int64_t width : all.around(x)) consider(width);
    }
  }

  /// The numbers of experts that are allowed.
  Multiples expert_counts() const {
    if (options_.fix_num_experts) return Multiples(*options_.fix_num_experts);
    const auto base = static_cast<double>(base_.num_experts);
    const auto most = static_cast<double>(
        options_.max_experts.value_or(std::numeric_limits<std::int64_t>::max()));
    return {
        std::max(options_.bounds_experts[0] * base, static_cast<double>(base_.num_experts_per_tok)),
        std::min(options_.bounds_experts[1] * base, most), steps_.experts};
  }

  /// With A = (parameters − fixed) / layers, a width i wants A / (h + 3·h·i + bias) experts, and
  /// the FLOPs are fixed + 6·layers·h·(experts + 3·k·i): few wide experts or many narrow ones.
  void for_expert_widths(Candidate c) {
    const Fixed fixed = fixed_costs();
    const Multiples all = widths(c.hidden, options_.fix_moe_intermediate_size);
    if (all.empty()) return;
    reach(Level::kExperts);
    const Multiples counts = expert_counts();
    if (counts.empty() || counts.last < base_.num_experts_per_tok) return;
    const auto h = static_cast<double>(c.hidden);
    const auto top_k = static_cast<double>(base_.num_experts_per_tok);
    const double bias = base_.router_bias ? 1 : 0;
    const double distance = c.distance;
    const double wanted = (target_.parameters_total - fixed.parameters) / sparse_.physical;
    const double rate = 6 * sparse_.executed * h;
    const auto consider = [&](std::int64_t width, std::int64_t experts) {
      reach(Level::kFound);
      if (experts < base_.num_experts_per_tok) return;
      const auto i = static_cast<double>(width), e = static_cast<double>(experts);
      c.expert_width = width;
      c.experts = experts;
      c.off.flops = (fixed.flops + rate * (e + top_k * 3 * i)) / target_.flops_per_token - 1;
      c.off.parameters = (fixed.parameters + sparse_.physical * (h + 3 * h * i + bias) * e) /
                             target_.parameters_total -
                         1;
      c.distance = distance + square_log(i / h / base_width_);
      found_.add(c);
    };
    const auto count_for = [&](double i) { return wanted / (h + 3 * h * i + bias); };
    const auto near_count = [&](std::int64_t width) {
      for (const std::int64_t e : counts.around(count_for(static_cast<double>(width)))) {
        consider(width, e);
      }
    };
    // FLOPs = T  ⇔  k·u² − (k·(h + bias) + (T − fixed) / (6·layers))·u + h·A = 0, u = h + 3·h·i +
    // bias.
    const auto widths_for = [&](double flops) -> std::optional<std::array<double, 2>> {
      const double b = top_k * (h + bias) + (flops - fixed.flops) / (6 * sparse_.executed);
      const double inside = b * b - 4 * top_k * h * wanted;
      if (wanted <= 0 || b <= 0 || inside < 0) return std::nullopt;
      const double root = std::sqrt(inside);
      const auto width = [&](double u) { return (u - h - bias) / (3 * h); };
      return std::array{width((b - root) / (2 * top_k)), width((b + root) / (2 * top_k))};
    };
    const double fu = flops_units(), pu = parameter_units();
    const auto consider_between = [&](double low, double high, const auto& use) {
      const Multiples inside(std::max(static_cast<double>(all.first), low),
                             std::min(static_cast<double>(all.last), high), all.step);
      for (std::int64_t w = inside.first; w <= inside.last; w += inside.step) use(w);
    };
    if (limited_ && options_.fix_num_experts) {
      const auto e = static_cast<double>(*options_.fix_num_experts);
      const double f0 = fixed.flops + rate * e - target_.flops_per_token, f1 = rate * top_k * 3;
      consider_between((-f0 - 2 * fu) / f1, (-f0 + 2 * fu) / f1,
                       [&](std::int64_t w) { consider(w, *options_.fix_num_experts); });
      return;
    }
    if (limited_) {
      // Rounding the count moves the FLOPs too.
      const double slack = 2 * fu + rate * static_cast<double>(steps_.experts);
      const auto outer = widths_for(target_.flops_per_token + slack);
      if (!outer) return;
      const auto inner = widths_for(target_.flops_per_token - slack);
      if (inner) {
        consider_between((*outer)[0], (*inner)[0], near_count);
        consider_between((*inner)[1], (*outer)[1], near_count);
      } else {
        consider_between((*outer)[0], (*outer)[1], near_count);
      }
      return;
    }
    if (const auto exact = widths_for(target_.flops_per_token)) {
      for (const double x : *exact) {
        for (const std::int64_t width : all.around(x)) near_count(width);
      }
    }
    for (const std::int64_t e : {counts.first, counts.last}) {
      const auto n = static_cast<double>(e);
      const double f0 = fixed.flops + rate * n - target_.flops_per_token, f1 = rate * top_k * 3;
      const double p0 = sparse_.physical * ((h + bias) * n - wanted);
      const double p1 = sparse_.physical * 3 * h * n;
      for (const double x : extremes(f0 / fu, f1 / fu, p0 / pu, p1 / pu)) {
        for (const std::int64_t width : all.around(x)) consider(width, e);
      }
    }
    for (const std::int64_t width : {all.first, all.last}) {
      const auto i = static_cast<double>(width);
      const double f0 = fixed.flops + rate * top_k * 3 * i - target_.flops_per_token;
      const double p0 = -sparse_.physical * wanted, p1 = sparse_.physical * (h + 3 * h * i + bias);
      for (const double x : extremes(f0 / fu, rate / fu, p0 / pu, p1 / pu)) {
        for (const std::int64_t e : counts.around(x)) consider(width, e);
      }
    }
  }

  const ModelConfig& base_;
  const MatchOptions& options_;
  const Steps steps_;
  const Budget target_;
  ModelConfig shape_;  // the candidate at hand; loop, depth and kinds of layers are fixed
  Shortlist found_;
  Layers dense_, sparse_;
  std::int64_t some_sparse_ = -1, some_dense_ = -1;  // a layer of each kind
  double executed_ = 0, base_width_ = 0, base_query_ = 0;
  bool limited_ = true, thinned_ = false;
  struct {
    std::int64_t head_dim = 0, group = 0, hidden = 0;
  } coarse_;  // largest steps of a thinned search
  std::optional<Candidate> focus_;
  Level reached_ = Level::kKvHeads;
  std::int64_t geometries_ = 0;
};

}  // namespace

ModelConfig config_of(const Candidate& c, const ModelConfig& baseline,
                      const MatchOptions& options) {
  ModelConfig config = shape_of(baseline, options);
  set_attention(config, c);
  set_hidden(config, c.hidden, baseline, options, Steps(baseline, options).width);
  if (baseline.num_experts == 0) {
    config.intermediate_size = c.expert_width;
  } else {
    config.num_experts = c.experts;
    config.moe_intermediate_size = c.expert_width;
  }
  return config;
}

Shortlist search(const ModelConfig& baseline, const MatchOptions& options) {
  return Search(baseline, options).run();
}

}  // namespace smelt::budget
