#include "smelt/model/moe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "smelt/core/error.h"
#include "smelt/model/kernels.h"
#include "smelt/model/projection.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kChunkRows = 64;
constexpr std::int64_t kBlockRows = 256;  // of one expert, that pass through it at a time

const float* data(const at::Tensor& tensor) {
  return tensor.const_data_ptr<float>();
}
float* mutable_data(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<float>();
}

/// The k largest of `scores` [E], largest first, of equal ones the lower index.
void choose(const float* scores, std::int64_t experts, std::int64_t k, std::int64_t* chosen) {
  std::int64_t found = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    if (found == k && scores[e] <= scores[chosen[k - 1]]) continue;
    std::int64_t at = found < k ? found++ : k - 1;
    for (; at > 0 && scores[chosen[at - 1]] < scores[e]; --at) chosen[at] = chosen[at - 1];
    chosen[at] = e;
  }
}

struct Route : Function<Route> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gate,
                               std::int64_t k, bool renormalise, const std::string& where,
                               const float* bias, const at::Tensor* given) {
    RECORD_FUNCTION("smelt::router", {});
    const std::int64_t n = x.size(0), experts = gate.size(0);
    at::Tensor probabilities =
        project(x, gate, Precision::kFp32);  // logits first, softmax in place
    at::Tensor weights = at::empty({n, k}, x.options());
    at::Tensor chosen = given ? *given : at::empty({n, k}, x.options().dtype(at::kLong));
    at::Tensor lse = at::empty({n}, x.options());
    float *p = mutable_data(probabilities), *w = mutable_data(weights), *sums = mutable_data(lse);
    auto* c = given ? nullptr : chosen.mutable_data_ptr<std::int64_t>();
    const auto* choice = chosen.const_data_ptr<std::int64_t>();
    parallel_chunks(n, kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* row = p + i * experts;
        if (!std::all_of(row, row + experts, [](float logit) { return std::isfinite(logit); })) {
          throw Error("model", "the router's logits are not finite", where);
        }
        if (c && !bias) choose(row, experts, k, c + i * k);
        sums[i] = softmax(row, experts);
        if (c && bias) {
          float* biased = scratch<struct Biased>(experts);
          for (std::int64_t e = 0; e < experts; ++e) biased[e] = row[e] + bias[e];
          choose(biased, experts, k, c + i * k);
        }
        float total = 0;
        for (std::int64_t j = 0; j < k; ++j) total += w[i * k + j] = row[choice[i * k + j]];
        if (!renormalise) continue;
        for (std::int64_t j = 0; j < k; ++j) w[i * k + j] /= total;
      }
    });
    ctx->save_for_backward({x, gate, probabilities, weights, chosen});
    ctx->saved_data["renormalise"] = renormalise;
    ctx->mark_non_differentiable({chosen});
    ctx->set_materialize_grads(false);
    return {probabilities, weights, chosen, lse};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::router backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &gate = saved[1], &probabilities = saved[2];
    const at::Tensor &weights = saved[3], &chosen = saved[4];
    const bool renormalise = ctx->saved_data["renormalise"].toBool();
    const auto plain = [](const at::Tensor& t) { return t.defined() ? t.contiguous() : t; };
    const at::Tensor dp = plain(grads[0]), dw = plain(grads[1]), dlse = plain(grads[3]);
    const std::int64_t n = x.size(0), experts = gate.size(0), k = weights.size(1);
    at::Tensor dlogits = dp.defined() ? dp.clone() : at::zeros_like(probabilities);
    const float *p = data(probabilities), *w = data(weights);
    const float* dw_data = dw.defined() ? data(dw) : nullptr;
    const float* dlse_data = dlse.defined() ? data(dlse) : nullptr;
    const auto* c = chosen.const_data_ptr<std::int64_t>();
    float* d = mutable_data(dlogits);
    parallel_chunks(n, kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* row = p + i * experts;
        float* out = d + i * experts;
        if (dw_data) {
          // w = p / Σp over the chosen: dp_j = (dw_j - Σ dw w) / Σp
          const float *up = dw_data + i * k, *own = w + i * k;
          float total = 1, mean = 0;
          if (renormalise) {
            total = 0;
            for (std::int64_t j = 0; j < k; ++j) total += row[c[i * k + j]];
            for (std::int64_t j = 0; j < k; ++j) mean += up[j] * own[j];
          }
          for (std::int64_t j = 0; j < k; ++j) out[c[i * k + j]] += (up[j] - mean) / total;
        }
        const float along = dot(out, row, experts);
        const float extra = dlse_data ? dlse_data[i] : 0.0f;
        for (std::int64_t e = 0; e < experts; ++e) out[e] = row[e] * (out[e] - along + extra);
      }
    });
    at::Tensor dx = at::empty_like(x), dgate = at::empty_like(gate);
    const std::int64_t hidden = x.size(1);
    linear_input_gradient(d, data(gate), mutable_data(dx), n, hidden, experts, Precision::kFp32);
    linear_weight_gradient(d, data(x), mutable_data(dgate), n, hidden, experts, Precision::kFp32);
    return {dx, dgate, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// Where each (token, choice) goes: rows sorted by expert.
struct Dispatch {
  at::Tensor offsets;      // [E + 1] int64: expert e has rows offsets[e] … offsets[e + 1] - 1
  at::Tensor assignments;  // [N · k] int64: the token · k + choice of each row
  at::Tensor rows;         // [N · k] int64: the row of each assignment
};

Dispatch sort_by_expert(const at::Tensor& experts, std::int64_t num_experts) {
  const std::int64_t assignments = experts.numel();
  Dispatch dispatch;
  dispatch.offsets = at::zeros({num_experts + 1}, at::kLong);
  dispatch.assignments = at::empty({assignments}, at::kLong);
  dispatch.rows = at::empty({assignments}, at::kLong);
  const auto* chosen = experts.const_data_ptr<std::int64_t>();
  auto* offsets = dispatch.offsets.mutable_data_ptr<std::int64_t>();
  auto* assigned = dispatch.assignments.mutable_data_ptr<std::int64_t>();
  auto* rows = dispatch.rows.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < assignments; ++i) ++offsets[chosen[i] + 1];
  for (std::int64_t e = 0; e < num_experts; ++e) offsets[e + 1] += offsets[e];
  std::vector<std::int64_t> next(offsets, offsets + num_experts);
  for (std::int64_t i = 0; i < assignments; ++i) {
    const std::int64_t row = next[static_cast<std::size_t>(chosen[i])]++;
    assigned[row] = i;
    rows[i] = row;
  }
  return dispatch;
}

/// A run of rows of one expert.
struct Block {
  std::int64_t expert = 0;
  std::int64_t begin = 0;
  std::int64_t rows = 0;
};

std::vector<Block> blocks_of(const Dispatch& dispatch) {
  std::vector<Block> blocks;
  const auto* offsets = dispatch.offsets.const_data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e + 1 < dispatch.offsets.size(0); ++e) {
    for (std::int64_t row = offsets[e]; row < offsets[e + 1]; row += kBlockRows) {
      blocks.push_back({e, row, std::min(kBlockRows, offsets[e + 1] - row)});
    }
  }
  return blocks;
}

/// Copies the rows of `x` [N, width] of the tokens that `assigned` names, times `scale`.
void gather(const float* x, const std::int64_t* assigned, float* to, std::int64_t rows,
            std::int64_t width, std::int64_t k, float scale = 1) {
  for (std::int64_t r = 0; r < rows; ++r, to += width) {
    const float* from = x + assigned[r] / k * width;
    if (scale == 1) {
      std::copy_n(from, width, to);
    } else {
      scale_into(to, from, scale, width);
    }
  }
}

struct Sizes {
  std::int64_t n, hidden, k, experts, inner;
};

Sizes sizes_of(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& down) {
  return {x.size(0), x.size(1), weights.size(1), down.size(0), down.size(2)};
}

struct Experts : Function<Experts> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& residual_in,
                            const at::Tensor& x_in, const at::Tensor& weights,
                            const at::Tensor& experts, const at::Tensor& gate_up,
                            const at::Tensor& down, double scale, Precision precision,
                            at::Tensor* write) {
    RECORD_FUNCTION("smelt::experts", {});
    const at::Tensor residual = residual_in.contiguous(), x = x_in.contiguous();
    const Sizes s = sizes_of(x, weights, down);
    const Dispatch dispatch = sort_by_expert(experts, s.experts);
    const std::int64_t total = dispatch.assignments.size(0);
    at::Tensor inner = at::empty({total, 2 * s.inner}, x.options());
    at::Tensor outputs = at::empty({total, s.hidden}, x.options());
    const auto* assigned = dispatch.assignments.const_data_ptr<std::int64_t>();
    const float *from = data(x), *w1 = data(gate_up), *w2 = data(down);
    float *h = mutable_data(inner), *y = mutable_data(outputs);
    const auto blocks = blocks_of(dispatch);
    parallel_tasks(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t i) {
      const Block& b = blocks[static_cast<std::size_t>(i)];
      float* rows = scratch<struct Rows>(b.rows * s.hidden);
      float* activation = scratch<struct Activation>(b.rows * s.inner);
      float* h_block = h + b.begin * 2 * s.inner;
      gather(from, assigned + b.begin, rows, b.rows, s.hidden, s.k);
      linear(rows, w1 + b.expert * 2 * s.inner * s.hidden, h_block, b.rows, s.hidden, 2 * s.inner,
             precision);
      for (std::int64_t r = 0; r < b.rows; ++r) {
        swiglu(h_block + r * 2 * s.inner, activation + r * s.inner, s.inner);
      }
      linear(activation, w2 + b.expert * s.hidden * s.inner, y + b.begin * s.hidden, b.rows,
             s.inner, s.hidden, precision);
    });
    at::Tensor out = at::empty_like(x);
    if (write) *write = at::empty_like(x);
    const auto* row_of = dispatch.rows.const_data_ptr<std::int64_t>();
    const float *base = data(residual), *w = data(weights);
    float *to = mutable_data(out), *copy = write ? mutable_data(*write) : nullptr;
    parallel_chunks(s.n, kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* sum = to + i * s.hidden;
        scale_into(sum, y + row_of[i * s.k] * s.hidden, w[i * s.k], s.hidden);
        for (std::int64_t j = 1; j < s.k; ++j) {
          add_scaled(sum, y + row_of[i * s.k + j] * s.hidden, w[i * s.k + j], s.hidden);
        }
        if (copy) std::copy_n(sum, s.hidden, copy + i * s.hidden);
        add_onto(sum, base + i * s.hidden, static_cast<float>(scale), s.hidden);
      }
    });
    ctx->save_for_backward(
        {x, weights, gate_up, down, inner, dispatch.offsets, dispatch.assignments, dispatch.rows});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["precision"] = static_cast<std::int64_t>(precision);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::experts backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1], &gate_up = saved[2], &down = saved[3];
    const Dispatch dispatch{saved[5], saved[6], saved[7]};
    const at::Tensor grad = grads[0].contiguous();
    const auto scale = static_cast<float>(ctx->saved_data["scale"].toDouble());
    const auto precision = static_cast<Precision>(ctx->saved_data["precision"].toInt());
    const Sizes s = sizes_of(x, weights, down);
    at::Tensor dgate_up = at::empty_like(gate_up), ddown = at::empty_like(down);
    at::Tensor dweights = at::empty_like(weights), dx = at::empty_like(x);
    at::Tensor drows = at::empty({dispatch.assignments.size(0), s.hidden}, x.options());
    const float *from = data(x), *up = data(grad), *w = data(weights), *h = data(saved[4]);
    const float *w1 = data(gate_up), *w2 = data(down);
    float *d1 = mutable_data(dgate_up), *d2 = mutable_data(ddown), *dw = mutable_data(dweights);
    float *dr = mutable_data(drows), *to = mutable_data(dx);
    const auto* offsets = dispatch.offsets.const_data_ptr<std::int64_t>();
    const auto* assigned = dispatch.assignments.const_data_ptr<std::int64_t>();
    const auto* row_of = dispatch.rows.const_data_ptr<std::int64_t>();

    parallel_tasks(s.experts, [&](std::int64_t e) {
      const float *w1e = w1 + e * 2 * s.inner * s.hidden, *w2e = w2 + e * s.hidden * s.inner;
      float *d1e = d1 + e * 2 * s.inner * s.hidden, *d2e = d2 + e * s.hidden * s.inner;
      if (offsets[e] == offsets[e + 1]) {
        std::fill_n(d1e, 2 * s.inner * s.hidden, 0.0f);
        std::fill_n(d2e, s.hidden * s.inner, 0.0f);
        return;
      }
      const std::int64_t most = std::min(kBlockRows, offsets[e + 1] - offsets[e]);
      float* rows = scratch<struct Rows>(most * s.hidden);
      float* g = scratch<struct Gradients>(most * s.hidden);
      float* da = scratch<struct ActivationGradients>(most * s.inner);
      float* activation = scratch<struct Activation>(most * s.inner);
      float* dh = scratch<struct InnerGradients>(most * 2 * s.inner);
      for (std::int64_t begin = offsets[e]; begin < offsets[e + 1]; begin += kBlockRows) {
        const std::int64_t count = std::min(kBlockRows, offsets[e + 1] - begin);
        const bool add = begin > offsets[e];
        gather(from, assigned + begin, rows, count, s.hidden, s.k);
        gather(up, assigned + begin, g, count, s.hidden, s.k, scale);
        linear_input_gradient(g, w2e, da, count, s.inner, s.hidden, precision);
        for (std::int64_t r = 0; r < count; ++r) {
          const std::int64_t a = assigned[begin + r];
          dw[a] = swiglu_backward(h + (begin + r) * 2 * s.inner, da + r * s.inner, w[a],
                                  dh + r * 2 * s.inner, activation + r * s.inner, s.inner);
        }
        linear_weight_gradient(g, activation, d2e, count, s.inner, s.hidden, precision, add);
        linear_weight_gradient(dh, rows, d1e, count, s.hidden, 2 * s.inner, precision, add);
        linear_input_gradient(dh, w1e, dr + begin * s.hidden, count, s.hidden, 2 * s.inner,
                              precision);
      }
    });
    parallel_chunks(s.n, kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* sum = to + i * s.hidden;
        std::copy_n(dr + row_of[i * s.k] * s.hidden, s.hidden, sum);
        for (std::int64_t j = 1; j < s.k; ++j) {
          add_scaled(sum, dr + row_of[i * s.k + j] * s.hidden, 1.0f, s.hidden);
        }
      }
    });
    return {grad,  dx,           dweights,     at::Tensor(), dgate_up,
            ddown, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Routed route(const at::Tensor& x, const at::Tensor& gate, std::int64_t top_k, bool renormalise,
             const std::string& where, const float* bias, const at::Tensor& experts) {
  const at::Tensor* given = experts.defined() ? &experts : nullptr;
  const auto out = Route::apply(x, gate, top_k, renormalise, where, bias, given);
  return {out[0], out[1], out[2], out[3]};
}

at::Tensor add_experts(const at::Tensor& residual, const at::Tensor& x, const Routed& routed,
                       const at::Tensor& gate_up, const at::Tensor& down, double scale,
                       Precision precision, at::Tensor* write) {
  return Experts::apply(residual, x, routed.weights, routed.experts, gate_up, down, scale,
                        precision, write);
}

}  // namespace smelt::model
