#include "smelt/law/subsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "smelt/core/parallel.h"
#include "smelt/core/philox.h"
#include "smelt/law/gain.h"

namespace smelt::law {

std::vector<Point> with_losses(std::vector<Point> points, const std::vector<double>& losses) {
  if (points.size() != losses.size()) {
    throw Error("law",
                fmt::format("{} losses of a subset for {} points", losses.size(), points.size()));
  }
  for (std::size_t i = 0; i < points.size(); ++i) points[i].loss = losses[i];
  return points;
}

std::vector<Subset> quartiles(const std::vector<Subset>& subsets,
                              const std::vector<Point>& reference,
                              const std::vector<Point>& target) {
  constexpr std::size_t kParts = 4;
  if (subsets.size() < kParts) {
    throw Error("law", fmt::format("quartiles need 4 subsets or more, got {}", subsets.size()));
  }
  using Key = std::tuple<std::string, double, std::int64_t>;
  std::map<Key, std::size_t> row_of;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    row_of[{reference[i].cell, reference[i].tokens, reference[i].seed}] = i;
  }
  std::vector<Subset> parts;
  for (const char* name : {"quartile 1 (lowest loss)", "quartile 2", "quartile 3", "quartile 4"}) {
    parts.push_back(
        {name, std::vector<double>(reference.size()), std::vector<double>(target.size())});
  }
  // Means of `losses` over the subsets in the order of the reference's losses in row `rank_row`.
  const auto fill = [&](std::size_t rank_row, auto losses, auto put) {
    std::vector<std::size_t> order(subsets.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return subsets[a].reference[rank_row] < subsets[b].reference[rank_row];
    });
    std::size_t begin = 0;
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t size = subsets.size() / kParts + (part < subsets.size() % kParts ? 1 : 0);
      double mean = 0;
      for (std::size_t i = begin; i < begin + size; ++i) {
        mean += losses(subsets[order[i]]) / static_cast<double>(size);
      }
      put(parts[part], mean);
      begin += size;
    }
  };
  for (std::size_t i = 0; i < reference.size(); ++i) {
    fill(
        i, [i](const Subset& s) { return s.reference[i]; },
        [i](Subset& part, double mean) { part.reference[i] = mean; });
  }
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto partner = row_of.find({target[i].cell, target[i].tokens, target[i].seed});
    if (partner == row_of.end()) {
      throw Error("law", "quartiles: no row of the reference with this cell, tokens and seed",
                  target[i].where);
    }
    fill(
        partner->second, [i](const Subset& s) { return s.target[i]; },
        [i](Subset& part, double mean) { part.target[i] = mean; });
  }
  return parts;
}

SubsetLaws::SubsetLaws(const std::vector<Point>& points, const Form& form,
                       const FitOptions& options)
    : design_(make_design(points, form, options)), points_(points) {}

std::optional<std::vector<double>> SubsetLaws::refit(const std::vector<double>& whole) const {
  return refit(whole, std::vector<double>(design_.problem.x.size(), 1.0));
}

/// `counts`: how often each row of the problem counts.
std::optional<std::vector<double>> SubsetLaws::refit(const std::vector<double>& whole,
                                                     const std::vector<double>& counts) const {
  Problem problem = design_.problem;
  const Form& form = *problem.form;
  for (std::size_t i = 0; i < counts.size(); ++i) problem.weight[i] *= counts[i];
  for (std::size_t c = 0; c < whole.size(); ++c) {
    const auto unknown = form.unknown_of(c);
    if (unknown && *unknown > form.amplitudes) problem.held[*unknown] = whole[c];
  }
  std::size_t free = 0;
  for (const auto& held : problem.held) free += held ? 0 : 1;
  if (distinct_points(problem) < free) return std::nullopt;
  const SearchResult found = search(problem, StartGrid(problem), 1);
  if (!faults_of(problem, found.best, jacobian_shape(problem, found.best)).empty()) {
    return std::nullopt;
  }
  return found.best.coefficients;
}

Draws SubsetLaws::refit_draws(const Draws& whole, Unit unit, unsigned threads) const {
  Draws own;
  own.key = whole.key;
  own.drawn.resize(whole.drawn.size());
  own.left_out.resize(whole.left_out.size());
  const std::size_t units = whole.key.names.size();
  const auto place = unit_numbers(points_, design_.order, *design_.problem.form, unit, whole.key);
  const auto by_row = [&](const std::vector<double>& counts) {
    std::vector<double> rows;
    for (const std::size_t u : place) rows.push_back(counts[u]);
    return rows;
  };
  const Philox random = draw_generator(whole.key.seed);
  parallel_for(
      own.drawn.size(),
      [&](std::size_t draw) {
        if (!whole.drawn[draw]) return;
        own.drawn[draw] = refit(*whole.drawn[draw], by_row(draw_counts(random, draw, units)));
      },
      threads);
  parallel_for(
      own.left_out.size(),
      [&](std::size_t out) {
        if (!whole.left_out[out]) return;
        std::vector<double> counts(units, 1.0);
        counts[out] = 0;
        own.left_out[out] = refit(*whole.left_out[out], by_row(counts));
      },
      threads);
  return own;
}

}  // namespace smelt::law
