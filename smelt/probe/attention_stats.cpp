#include "smelt/probe/attention_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace smelt::probe {
namespace {

constexpr std::int64_t kTop = 8;
constexpr std::int64_t kBlock = 128;  // queries at a time

/// Queries first … first + rows - 1 of a piece against keys 0 … first + rows - 1.
struct MapBlock {
  std::int64_t first = 0, rows = 0, keys = 0;
  at::Tensor probabilities;  // [heads, rows, keys]
  at::Tensor
      ranks;  // [heads, rows, min(8, keys)] int64: the most attended keys, ties to the lower index
};

/// Most attended keys in order.  topk leaves the order of equal scores open, so a block with a tie
/// is sorted.
at::Tensor ranked_keys(const at::Tensor& scores) {
  const std::int64_t keys = scores.size(2), wanted = std::min(kTop, keys);
  const auto [values, order] = scores.topk(std::min(kTop + 1, keys), -1, true, true);
  const std::int64_t count = values.size(2);
  const at::Tensor earlier = values.narrow(2, 0, count - 1), later = values.narrow(2, 1, count - 1);
  const bool tie = earlier.eq(later).logical_and(later.isfinite()).any().item<bool>();
  const at::Tensor ranked =
      tie ? std::get<1>(scores.sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true)) : order;
  return ranked.narrow(2, 0, wanted);
}

MapBlock make_block(const QueryKey& layer, const model::Piece& piece, std::int64_t first,
                    bool ranks) {
  MapBlock block;
  block.first = first;
  block.rows = std::min(kBlock, piece.length - first);
  block.keys = first + block.rows;
  const std::int64_t heads = layer.q.size(1), kv_heads = layer.k.size(1), dim = layer.q.size(2);
  const std::int64_t group = heads / kv_heads;
  const at::Tensor q = layer.q.narrow(0, piece.begin + first, block.rows)
                           .reshape({block.rows, kv_heads, group, dim})
                           .permute({1, 2, 0, 3})
                           .reshape({kv_heads, group * block.rows, dim});
  const at::Tensor k = layer.k.narrow(0, piece.begin, block.keys).permute({1, 2, 0});
  const at::Tensor hidden =
      at::ones({block.rows, block.keys}, q.options().dtype(at::kBool)).triu(first + 1);
  const at::Tensor scores = q.bmm(k)
                                .mul_(1.0 / std::sqrt(static_cast<double>(dim)))
                                .view({heads, block.rows, block.keys})
                                .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  block.probabilities = scores.softmax(-1);
  if (ranks) block.ranks = ranked_keys(scores);
  return block;
}

/// per_query [heads, rows]: adds the sum over the block's queries with position >= `from`.
void add_rows(const at::Tensor& per_query, const MapBlock& block, std::int64_t from,
              std::int64_t document, Heads& heads) {
  const std::int64_t skip = std::clamp<std::int64_t>(from - block.first, 0, block.rows);
  const std::int64_t count = block.rows - skip;
  if (count == 0) return;
  const at::Tensor sums =
      per_query.narrow(1, skip, count).sum(1, false, at::kDouble).to(at::kCPU).contiguous();
  const double* values = sums.data_ptr<double>();
  for (std::size_t h = 0; h < heads.size(); ++h) {
    heads[h].add(document, values[h], static_cast<double>(count));
  }
}

/// Head h of `a` against head h of `b`.
void add_overlap(const MapBlock& a, const at::Tensor& b_probabilities, const at::Tensor& b_ranks,
                 std::int64_t document, Attended& attended) {
  add_rows(a.ranks.select(2, 0).eq(b_ranks.select(2, 0)), a, 1, document, attended.top1);
  add_rows(at::minimum(a.probabilities, b_probabilities).sum(-1), a, 1, document, attended.dist);
  if (a.keys <= kTop) return;
  const at::Tensor common = a.ranks.unsqueeze(3).eq(b_ranks.unsqueeze(2)).sum({2, 3});
  add_rows(common.to(at::kDouble).div(static_cast<double>(kTop)), a, kTop, document, attended.topk);
}

}  // namespace

void add_attention(const QueryKey& layer, const model::Piece& piece, std::int64_t document,
                   Heads& sink, Heads& sink_including_first, Attended* control) {
  const std::int64_t heads = layer.q.size(1);
  if (heads < 2) control = nullptr;  // no other head to compare with
  for (std::int64_t first = 0; first < piece.length; first += kBlock) {
    const MapBlock block = make_block(layer, piece, first, control != nullptr);
    const at::Tensor on_first = block.probabilities.select(2, 0);
    add_rows(on_first, block, 1, document, sink);
    add_rows(on_first, block, 0, document, sink_including_first);
    if (!control) continue;
    add_overlap(block, block.probabilities.roll(-(heads / 2), 0), block.ranks.roll(-(heads / 2), 0),
                document, *control);
  }
}

void add_attended(const QueryKey& a, const QueryKey& b, const model::Piece& piece,
                  std::int64_t document, Attended& attended) {
  for (std::int64_t first = 0; first < piece.length; first += kBlock) {
    const MapBlock block_a = make_block(a, piece, first, true);
    const MapBlock block_b = make_block(b, piece, first, true);
    add_overlap(block_a, block_b.probabilities, block_b.ranks, document, attended);
  }
}

}  // namespace smelt::probe
