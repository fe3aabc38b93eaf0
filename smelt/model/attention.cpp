#include "smelt/model/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/model/kernels.h"
#include "smelt/model/products.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kQueryRows =
    64;  // queries whose scores against all earlier keys exist at once

const float* data(const at::Tensor& tensor) {
  return tensor.const_data_ptr<float>();
}
float* mutable_data(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<float>();
}

/// One piece and one key/value head with the query heads that share it: what one task works on.
/// Longest first, so that threads end together.
struct Task {
  Piece piece;
  std::int64_t kv_head = 0;
};

std::vector<Task> plan_tasks(std::span<const Piece> pieces, std::int64_t kv_heads) {
  std::vector<Task> tasks;
  for (const Piece& piece : pieces) {
    for (std::int64_t head = 0; head < kv_heads; ++head) tasks.push_back({piece, head});
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.piece.length > b.piece.length; });
  return tasks;
}

/// Strides of [N, heads, D] and [N, kv_heads, D], and what follows from them.
struct Layout {
  std::int64_t heads, kv_heads, dim;

  std::int64_t group() const { return heads / kv_heads; }
  std::int64_t q_stride() const { return heads * dim; }
  std::int64_t kv_stride() const { return kv_heads * dim; }
  std::int64_t q_at(const Task& t, std::int64_t member) const {
    return t.piece.begin * q_stride() + (t.kv_head * group() + member) * dim;
  }
  std::int64_t kv_at(const Task& t) const { return t.piece.begin * kv_stride() + t.kv_head * dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(dim)); }
};

Layout layout_of(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(1), k.size(1), q.size(2)};
}

/// The keys or values of one head as columns: [n, D] with a stride -> [D, n].
void columns_of(const float* rows, std::int64_t stride, std::int64_t n, std::int64_t dim,
                float* columns) {
  transpose(rows, stride, columns, n, n, dim);
}

/// a [rows, D] · columns [D, n], of the first `keys` columns -> out [rows, keys]
void score(const float* a, std::int64_t stride, const float* columns, std::int64_t n, float* out,
           std::int64_t rows, std::int64_t keys, std::int64_t dim) {
  multiply({.m = rows,
            .n = keys,
            .k = dim,
            .a = a,
            .lda = stride,
            .b = columns,
            .ldb = n,
            .c = out,
            .ldc = keys});
}

struct Attention : Function<Attention> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_in, const at::Tensor& k_in,
                            const at::Tensor& v_in, std::span<const Piece> pieces) {
    RECORD_FUNCTION("smelt::attention", {});
    const at::Tensor q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
    const Layout at = layout_of(q, k);
    at::Tensor out = at::empty_like(q);
    at::Tensor lse = at::empty({at.heads, q.size(0)}, q.options());
    const float *qs = data(q), *ks = data(k), *vs = data(v);
    float *to = mutable_data(out), *sums = mutable_data(lse);
    const auto tasks = plan_tasks(pieces, at.kv_heads);
    parallel_tasks(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      const std::int64_t n = task.piece.length;
      float* keys = scratch<struct Keys>(at.dim * n);
      float* scores = scratch<struct Scores>(std::min(kQueryRows, n) * n);
      columns_of(ks + at.kv_at(task), at.kv_stride(), n, at.dim, keys);
      for (std::int64_t member = 0; member < at.group(); ++member) {
        const std::int64_t own = at.q_at(task, member);
        float* lse_row = sums + (task.kv_head * at.group() + member) * q.size(0) + task.piece.begin;
        for (std::int64_t first = 0; first < n; first += kQueryRows) {
          const std::int64_t rows = std::min(kQueryRows, n - first), seen = first + rows;
          score(qs + own + first * at.q_stride(), at.q_stride(), keys, n, scores, rows, seen,
                at.dim);
          for (std::int64_t r = 0; r < rows; ++r) {
            lse_row[first + r] = scaled_softmax(scores + r * seen, first + r + 1, seen, at.scale());
          }
          multiply({.m = rows,
                    .n = at.dim,
                    .k = seen,
                    .a = scores,
                    .lda = seen,
                    .b = vs + at.kv_at(task),
                    .ldb = at.kv_stride(),
                    .c = to + own + first * at.q_stride(),
                    .ldc = at.q_stride()});
        }
      }
    });
    ctx->save_for_backward({q, k, v, out, lse});
    std::vector<std::int64_t> flat;
    for (const Piece& piece : pieces) flat.insert(flat.end(), {piece.begin, piece.length});
    ctx->saved_data["pieces"] = flat;
    return out;
  }

  // With P = exp(scale · QKᵀ - lse) and δ_i = dO_i · O_i:
  //   dV = Pᵀ dO,  dS = scale · P ∘ (dO Vᵀ - δ),  dQ = dS K,  dK = dSᵀ Q
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::attention backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const at::Tensor grad = grads[0].contiguous();
    std::vector<Piece> pieces;
    const auto flat = ctx->saved_data["pieces"].toIntVector();
    for (std::size_t i = 0; i < flat.size(); i += 2) pieces.push_back({flat[i], flat[i + 1]});
    const Layout at = layout_of(q, k);
    at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
    const float *qs = data(q), *ks = data(k), *vs = data(v), *os = data(out), *up = data(grad);
    const float* sums = data(lse);
    float *dqs = mutable_data(dq), *dks = mutable_data(dk), *dvs = mutable_data(dv);
    const auto tasks = plan_tasks(pieces, at.kv_heads);
    parallel_tasks(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      const std::int64_t n = task.piece.length, kv = at.kv_at(task);
      float* keys = scratch<struct Keys>(at.dim * n);
      float* values = scratch<struct Values>(at.dim * n);
      float* p = scratch<struct Scores>(std::min(kQueryRows, n) * n);
      float* ds = scratch<struct Slopes>(std::min(kQueryRows, n) * n);
      columns_of(ks + kv, at.kv_stride(), n, at.dim, keys);
      columns_of(vs + kv, at.kv_stride(), n, at.dim, values);
      for (std::int64_t r = 0; r < n; ++r) {
        std::fill_n(dks + kv + r * at.kv_stride(), at.dim, 0.0f);
        std::fill_n(dvs + kv + r * at.kv_stride(), at.dim, 0.0f);
      }
      for (std::int64_t member = 0; member < at.group(); ++member) {
        const float* lse_row =
            sums + (task.kv_head * at.group() + member) * q.size(0) + task.piece.begin;
        for (std::int64_t first = 0; first < n; first += kQueryRows) {
          const std::int64_t rows = std::min(kQueryRows, n - first), seen = first + rows;
          const std::int64_t own = at.q_at(task, member) + first * at.q_stride();
          score(qs + own, at.q_stride(), keys, n, p, rows, seen, at.dim);
          score(up + own, at.q_stride(), values, n, ds, rows, seen, at.dim);
          for (std::int64_t r = 0; r < rows; ++r) {
            const float* row_up = up + own + r * at.q_stride();
            const float delta = dot(row_up, os + own + r * at.q_stride(), at.dim);
            scaled_softmax_backward(p + r * seen, ds + r * seen, first + r + 1, seen, at.scale(),
                                    lse_row[first + r], delta);
          }
          const auto to_keys = [&](const float* weights, const float* rows_of_q, float* sum) {
            multiply({.m = seen,
                      .n = at.dim,
                      .k = rows,
                      .a = weights,
                      .lda = seen,
                      .a_transposed = true,
                      .b = rows_of_q,
                      .ldb = at.q_stride(),
                      .c = sum,
                      .ldc = at.kv_stride(),
                      .add = true});
          };
          to_keys(p, up + own, dvs + kv);
          to_keys(ds, qs + own, dks + kv);
          multiply({.m = rows,
                    .n = at.dim,
                    .k = seen,
                    .a = ds,
                    .lda = seen,
                    .b = ks + kv,
                    .ldb = at.kv_stride(),
                    .c = dqs + own,
                    .ldc = at.q_stride()});
        }
      }
    });
    return {dq, dk, dv, at::Tensor()};
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
