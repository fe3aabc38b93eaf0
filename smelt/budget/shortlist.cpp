#include "smelt/budget/shortlist.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace smelt::budget {
namespace {

constexpr std::size_t kMostNear = 1 << 20;

}  // namespace

Shortlist::Shortlist(const MatchOptions& options, std::int64_t base_kv_heads)
    : options_(options),
      base_kv_heads_(base_kv_heads),
      wide_(std::max(options.tolerance_kv_cache, options.tolerance_kv_cache_wide)) {}

std::array<double, 3> Shortlist::sorted_units(const Candidate& c, double kv_tolerance) const {
  const auto unit = [](double off, double tolerance) {
    return std::abs(off) / std::max(tolerance, 1e-12);
  };
  std::array<double, 3> units = {unit(c.off.flops, options_.tolerance_flops),
                                 unit(c.off.parameters, options_.tolerance_parameters),
                                 unit(c.off.kv_cache, kv_tolerance)};
  std::sort(units.begin(), units.end(), std::greater<>());
  return units;
}

void Shortlist::add(const Candidate& c) {
  const auto keep_nearest = [&](std::optional<Candidate>& best, double tolerance) {
    const double u = units(c, tolerance);
    if (u <= 1 &&
        (!best || std::pair(c.distance, u) < std::pair(best->distance, units(*best, tolerance)))) {
      best = c;
    }
  };
  keep_nearest(nearest_wide, wide_);
  if (c.kv_heads == base_kv_heads_) keep_nearest(nearest_narrow, options_.tolerance_kv_cache);

  const auto badness = [this](const Candidate& x) {
    const auto units = sorted_units(x, wide_);
    return std::array{units[0], std::max(1.0, units[1]), std::max(1.0, units[2]), x.distance};
  };
  const auto keep_least_bad = [&](std::optional<Candidate>& best) {
    if (!best || badness(c) < badness(*best)) best = c;
  };
  keep_least_bad(least_bad);
  if (c.head_dim % 8 == 0) keep_least_bad(multiple_of_8);

  const bool inside[3] = {std::abs(c.off.flops) <= options_.tolerance_flops,
                          std::abs(c.off.parameters) <= options_.tolerance_parameters,
                          std::abs(c.off.kv_cache) <= wide_};
  const auto give_up = [&](std::size_t i, bool others, double Mismatch::* off) {
    auto& best = giving_up_one[i];
    const auto loss = [off](const Candidate& x) {
      return std::pair(std::floor(100 * std::abs(x.off.*off)), x.distance);
    };
    if (others && (!best || loss(c) < loss(*best))) best = c;
  };
  give_up(0, inside[1] && inside[2], &Mismatch::flops);
  give_up(1, inside[0] && inside[2], &Mismatch::parameters);
  give_up(2, inside[0] && inside[1], &Mismatch::kv_cache);

  if (units(c, wide_) > 2) return;
  if (near.size() >= kMostNear) {
    const auto middle = near.begin() + static_cast<std::ptrdiff_t>(kMostNear / 2);
    std::nth_element(near.begin(), middle, near.end(), [](const Candidate& a, const Candidate& b) {
      return a.distance < b.distance;
    });
    near.erase(middle, near.end());
  }
  near.push_back(c);
}

}  // namespace smelt::budget
