#include "smelt/model/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/model/kernels.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// The part of a [N, heads, D] tensor that one call works on: `count` heads of one piece as [1,
/// count, n, D]. A key/value head is shared by its query heads through a stride of 0.
at::Tensor heads_of(const at::Tensor& x, const Piece& piece, std::int64_t first, std::int64_t count,
                    bool shared) {
  const std::int64_t dim = x.size(2);
  return x.as_strided({1, count, piece.length, dim}, {0, shared ? 0 : x.stride(1), x.stride(0), 1},
                      x.storage_offset() + piece.begin * x.stride(0) + first * x.stride(1));
}

/// logsumexp [heads, N] of the same part, [1, count, n].
at::Tensor rows_of(const at::Tensor& x, const Piece& piece, std::int64_t first,
                   std::int64_t count) {
  return x.as_strided({1, count, piece.length}, {0, x.stride(0), 1},
                      first * x.stride(0) + piece.begin);
}

/// One kernel call: query heads first … first + count - 1 of one piece; they share a key/value
/// head.
struct Call {
  Piece piece;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Longest first, so that threads end together.  Each head's numbers are its own, so how heads are
/// put into calls changes no bit.
std::vector<Call> plan_calls(std::span<const Piece> pieces, std::int64_t heads,
                             std::int64_t kv_heads) {
  const std::int64_t group = heads / kv_heads;
  std::int64_t longer = 0;
  for (const Piece& piece : pieces) longer += piece.length > 1;
  const bool split = longer * kv_heads < 4 * at::get_num_threads();
  const std::int64_t count = split ? 1 : group;
  std::vector<Call> calls;
  for (const Piece& piece : pieces) {
    if (piece.length == 1) continue;
    for (std::int64_t first = 0; first < heads; first += count) {
      calls.push_back({piece, first, count});
    }
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const Call& a, const Call& b) { return a.piece.length > b.piece.length; });
  return calls;
}

std::vector<std::int64_t> flatten(std::span<const Piece> pieces) {
  std::vector<std::int64_t> flat;
  for (const Piece& piece : pieces) {
    flat.push_back(piece.begin);
    flat.push_back(piece.length);
  }
  return flat;
}

/// Sums the query heads that share a key/value head: [N, heads, D] -> [N, kv_heads, D].
at::Tensor sum_groups(const at::Tensor& x, std::int64_t kv_heads) {
  if (x.size(1) == kv_heads) return x;
  return x.view({x.size(0), kv_heads, x.size(1) / kv_heads, x.size(2)}).sum(2);
}

struct Attention : Function<Attention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_in, const at::Tensor& k_in,
                            const at::Tensor& v_in, std::span<const Piece> pieces) {
    const at::Tensor q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
    const std::int64_t heads = q.size(1), kv_heads = k.size(1), group = heads / kv_heads;
    at::Tensor out = at::empty_like(q);
    at::Tensor lse = at::empty({heads, q.size(0)}, q.options());
    // The only key of a one-token piece has weight 1.
    for (const Piece& piece : pieces) {
      if (piece.length > 1) continue;
      heads_of(out, piece, 0, heads, false)
          .view({kv_heads, group, -1})
          .copy_(heads_of(v, piece, 0, kv_heads, false).view({kv_heads, 1, -1}));
    }
    const auto calls = plan_calls(pieces, heads, kv_heads);
    parallel_tasks(static_cast<std::int64_t>(calls.size()), [&](std::int64_t i) {
      const at::NoGradGuard no_grad;
      const auto& [piece, first, count] = calls[static_cast<std::size_t>(i)];
      const auto [part, part_lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          heads_of(q, piece, first, count, false), heads_of(k, piece, first / group, count, true),
          heads_of(v, piece, first / group, count, true), 0.0, true);
      heads_of(out, piece, first, count, false).copy_(part);
      rows_of(lse, piece, first, count).copy_(part_lse);
    });
    ctx->save_for_backward({q, k, v, out, lse});
    ctx->saved_data["pieces"] = flatten(pieces);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const at::Tensor grad = grads[0].contiguous();
    std::vector<Piece> pieces;
    const auto flat = ctx->saved_data["pieces"].toIntVector();
    for (std::size_t i = 0; i < flat.size(); i += 2) pieces.push_back({flat[i], flat[i + 1]});
    const std::int64_t heads = q.size(1), kv_heads = k.size(1), group = heads / kv_heads;
    at::Tensor dq = at::empty_like(q), dk = at::empty_like(q), dv = at::empty_like(q);
    for (const Piece& piece : pieces) {
      if (piece.length > 1) continue;
      heads_of(dq, piece, 0, heads, false).zero_();
      heads_of(dk, piece, 0, heads, false).zero_();
      heads_of(dv, piece, 0, heads, false).copy_(heads_of(grad, piece, 0, heads, false));
    }
    const auto calls = plan_calls(pieces, heads, kv_heads);
    parallel_tasks(static_cast<std::int64_t>(calls.size()), [&](std::int64_t i) {
      const at::NoGradGuard no_grad;
      const auto& [piece, first, count] = calls[static_cast<std::size_t>(i)];
      const auto [part_q, part_k, part_v] =
          at::_scaled_dot_product_flash_attention_for_cpu_backward(
              heads_of(grad, piece, first, count, false), heads_of(q, piece, first, count, false),
              heads_of(k, piece, first / group, count, true),
              heads_of(v, piece, first / group, count, true),
              heads_of(out, piece, first, count, false), rows_of(lse, piece, first, count), 0.0,
              true);
      heads_of(dq, piece, first, count, false).copy_(part_q);
      heads_of(dk, piece, first, count, false).copy_(part_k);
      heads_of(dv, piece, first, count, false).copy_(part_v);
    });
    return {dq, sum_groups(dk, kv_heads), sum_groups(dv, kv_heads), at::Tensor()};
  }
};

}  // namespace

Rotary make_rotary(const arch::ModelConfig& config, const at::Tensor& positions) {
  const std::int64_t half = config.head_dim / 2;
  const std::int64_t count = positions.numel() == 0 ? 1 : positions.max().item<std::int64_t>() + 1;
  Rotary rotary{at::empty({count, half}), at::empty({count, half}), positions};
  auto* cosine = rotary.cosine.mutable_data_ptr<float>();
  auto* sine = rotary.sine.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(
        config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    for (std::int64_t p = 0; p < count; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      cosine[p * half + i] = static_cast<float>(std::cos(angle));
      sine[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return rotary;
}

Rotary at_positions(const Rotary& tables, const at::Tensor& positions) {
  if (positions.numel() > 0 && positions.max().item<std::int64_t>() >= tables.cosine.size(0)) {
    throw Error("model", fmt::format("position {} is beyond the rotary table of {}",
                                     positions.max().item<std::int64_t>(), tables.cosine.size(0)));
  }
  return {tables.cosine, tables.sine, positions};
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     std::span<const Piece> pieces) {
  return Attention::apply(q, k, v, pieces);
}

at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::NoGradGuard no_grad;
  const std::int64_t n = q.size(0), m = k.size(0), heads = q.size(1), kv_heads = k.size(1);
  if (n > m) {
    throw Error("model", fmt::format("{} queries for {} cached keys", n, m));
  }
  // [n, heads, D] -> [kv_heads, group, n, D], keys shared within a group.
  const std::int64_t group = heads / kv_heads, dim = q.size(2);
  const auto queries = q.reshape({n, kv_heads, group, dim}).permute({1, 2, 0, 3});
  const auto keys = k.permute({1, 0, 2}).unsqueeze(1).expand({kv_heads, group, m, dim});
  const auto values = v.permute({1, 0, 2}).unsqueeze(1).expand({kv_heads, group, m, dim});
  std::optional<at::Tensor> mask;
  if (n > 1 && n < m) {
    mask = at::full({n, m}, -std::numeric_limits<float>::infinity(), q.options()).triu(m - n + 1);
  }
  const auto out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      queries, keys, values, 0.0, n > 1 && n == m, mask));
  return out.permute({2, 0, 1, 3}).reshape({n, heads, dim});
}

at::Tensor attention_map(const at::Tensor& q, const at::Tensor& k) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(1)));
  const at::Tensor mask = at::ones({q.size(0), k.size(0)}, q.options().dtype(at::kBool)).triu(1);
  return (at::mm(q, k.t()) * scale)
      .masked_fill(mask, -std::numeric_limits<float>::infinity())
      .softmax(1);
}

}  // namespace smelt::model
