#include "smelt/model/projection.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "smelt/model/kernels.h"
#include "smelt/model/products.h"
#include "smelt/model/threads.h"

namespace smelt::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kChunkRows = 64;

const float* data(const at::Tensor& tensor) {
  return tensor.const_data_ptr<float>();
}
float* mutable_data(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<float>();
}

/// Adds up per-chunk partial sums [chunks, width] in chunk order.
at::Tensor sum_chunks(const at::Tensor& partials) {
  at::Tensor sum = at::zeros({partials.size(1)}, partials.options());
  for (std::int64_t i = 0; i < partials.size(0); ++i) {
    add_scaled(mutable_data(sum), data(partials) + i * partials.size(1), 1.0f, partials.size(1));
  }
  return sum;
}

std::int64_t chunk_count(std::int64_t rows) {
  return (rows + kChunkRows - 1) / kChunkRows;
}

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& weight,
                            double eps) {
    RECORD_FUNCTION("smelt::rms norm", {});
    const at::Tensor x = x_in.contiguous();
    at::Tensor y = at::empty_like(x);
    const std::int64_t width = x.size(1);
    const float *from = data(x), *w = data(weight);
    float* to = mutable_data(y);
    parallel_chunks(x.size(0), kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      model::rms_norm(from + begin * width, w, to + begin * width, end - begin, width,
                      static_cast<float>(eps));
    });
    ctx->save_for_backward({x, weight});
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::rms norm backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    const auto eps = static_cast<float>(ctx->saved_data["eps"].toDouble());
    const std::int64_t width = x.size(1);
    at::Tensor dx = at::empty_like(x);
    at::Tensor partials = at::zeros({chunk_count(x.size(0)), width}, x.options());
    const float *from = data(x), *w = data(weight), *d = data(dy);
    float *to = mutable_data(dx), *sums = mutable_data(partials);
    parallel_chunks(x.size(0), kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      rms_norm_backward(from + begin * width, w, d + begin * width, to + begin * width,
                        sums + begin / kChunkRows * width, end - begin, width, eps);
    });
    return {dx, sum_chunks(partials), at::Tensor()};
  }
};

/// One token's heads, normed and rotated, from raw [heads · D] to out.
void norm_and_rotate(const float* raw, const float* norm, float* out, std::int64_t heads,
                     std::int64_t dim, float eps, const float* cosine, const float* sine) {
  if (norm) {
    rms_norm(raw, norm, out, heads, dim, eps);
  } else {
    std::copy_n(raw, heads * dim, out);
  }
  for (std::int64_t h = 0; h < heads; ++h) rotate(out + h * dim, cosine, sine, dim / 2);
}

/// The way back, in place on `d` [heads · D]; `scratch` [heads · D].
void norm_and_rotate_backward(const float* raw, const float* norm, float* d, float* scratch,
                              float* dnorm, std::int64_t heads, std::int64_t dim, float eps,
                              const float* cosine, const float* sine) {
  for (std::int64_t h = 0; h < heads; ++h) rotate_back(d + h * dim, cosine, sine, dim / 2);
  if (!norm) return;
  rms_norm_backward(raw, norm, d, scratch, dnorm, heads, dim, eps);
  std::copy_n(scratch, heads * dim, d);
}

struct ProjectQkv : Function<ProjectQkv> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x_in, const at::Tensor& wq,
                               const at::Tensor& wk, const at::Tensor& wv,
                               const std::optional<at::Tensor>& q_weight,
                               const std::optional<at::Tensor>& k_weight, const Rotary& rotary,
                               double eps, Precision precision) {
    RECORD_FUNCTION("smelt::qkv projection", {});
    const at::Tensor q_norm = q_weight.value_or(at::Tensor());
    const at::Tensor k_norm = k_weight.value_or(at::Tensor());
    const at::Tensor x = x_in.contiguous();
    const std::int64_t n = x.size(0), hidden = x.size(1), half = rotary.cosine.size(1);
    const std::int64_t dim = 2 * half, heads = wq.size(0) / dim, kv_heads = wk.size(0) / dim;
    at::Tensor q_raw = at::empty({n, heads, dim}, x.options());
    at::Tensor k_raw = at::empty({n, kv_heads, dim}, x.options());
    at::Tensor v = at::empty({n, kv_heads, dim}, x.options());
    linear(data(x), data(wq), mutable_data(q_raw), n, hidden, heads * dim, precision);
    linear(data(x), data(wk), mutable_data(k_raw), n, hidden, kv_heads * dim, precision);
    linear(data(x), data(wv), mutable_data(v), n, hidden, kv_heads * dim, precision);
    at::Tensor q = at::empty_like(q_raw), k = at::empty_like(k_raw);
    const float *cosine = data(rotary.cosine), *sine = data(rotary.sine);
    const float* qn = q_norm.defined() ? data(q_norm) : nullptr;
    const float* kn = k_norm.defined() ? data(k_norm) : nullptr;
    const auto* positions = rotary.positions.const_data_ptr<std::int64_t>();
    const float *qr = data(q_raw), *kr = data(k_raw);
    float *qo = mutable_data(q), *ko = mutable_data(k);
    const auto small = static_cast<float>(eps);
    parallel_chunks(n, kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float *c = cosine + positions[i] * half, *s = sine + positions[i] * half;
        norm_and_rotate(qr + i * heads * dim, qn, qo + i * heads * dim, heads, dim, small, c, s);
        norm_and_rotate(kr + i * kv_heads * dim, kn, ko + i * kv_heads * dim, kv_heads, dim, small,
                        c, s);
      }
    });
    ctx->save_for_backward({x, wq, wk, wv, q_norm, k_norm, rotary.cosine, rotary.sine,
                            rotary.positions, q_norm.defined() ? q_raw : at::Tensor(),
                            q_norm.defined() ? k_raw : at::Tensor()});
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["precision"] = static_cast<std::int64_t>(precision);
    return {q, k, v};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::qkv projection backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &wq = saved[1], &wk = saved[2], &wv = saved[3];
    const at::Tensor &q_norm = saved[4], &k_norm = saved[5], &q_raw = saved[9], &k_raw = saved[10];
    const auto eps = static_cast<float>(ctx->saved_data["eps"].toDouble());
    const std::int64_t n = x.size(0), half = saved[6].size(1), dim = 2 * half;
    const std::int64_t heads = wq.size(0) / dim, kv_heads = wk.size(0) / dim;
    const auto own = [&](const at::Tensor& grad, std::int64_t count) {
      return grad.defined() ? grad.clone(at::MemoryFormat::Contiguous)
                            : at::zeros({n, count, dim}, x.options());
    };
    const at::Tensor dq = own(grads[0], heads), dk = own(grads[1], kv_heads);
    const at::Tensor dv = grads[2].defined() ? grads[2].contiguous() : own(grads[2], kv_heads);
    const std::int64_t chunks = chunk_count(n);
    at::Tensor q_sums = at::zeros({chunks, dim}, x.options());
    at::Tensor k_sums = at::zeros({chunks, dim}, x.options());
    const float *cosine = data(saved[6]), *sine = data(saved[7]);
    const auto* positions = saved[8].const_data_ptr<std::int64_t>();
    const bool normed = q_norm.defined();
    const float* qn = normed ? data(q_norm) : nullptr;
    const float* kn = normed ? data(k_norm) : nullptr;
    const float* qr = normed ? data(q_raw) : nullptr;
    const float* kr = normed ? data(k_raw) : nullptr;
    float *dq_data = mutable_data(dq), *dk_data = mutable_data(dk);
    float *q_sum = mutable_data(q_sums), *k_sum = mutable_data(k_sums);
    parallel_chunks(n, kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(heads * dim));
      const std::int64_t chunk = begin / kChunkRows;
      for (std::int64_t i = begin; i < end; ++i) {
        const float *c = cosine + positions[i] * half, *s = sine + positions[i] * half;
        const std::int64_t at_q = i * heads * dim, at_k = i * kv_heads * dim;
        norm_and_rotate_backward(normed ? qr + at_q : nullptr, qn, dq_data + at_q, scratch.data(),
                                 q_sum + chunk * dim, heads, dim, eps, c, s);
        norm_and_rotate_backward(normed ? kr + at_k : nullptr, kn, dk_data + at_k, scratch.data(),
                                 k_sum + chunk * dim, kv_heads, dim, eps, c, s);
      }
    });
    const auto precision = static_cast<Precision>(ctx->saved_data["precision"].toInt());
    const std::int64_t hidden = x.size(1);
    at::Tensor dx = at::empty_like(x);
    at::Tensor dwq = at::empty_like(wq), dwk = at::empty_like(wk), dwv = at::empty_like(wv);
    const auto way_back = [&](const at::Tensor& dy, const at::Tensor& weight, at::Tensor& dweight,
                              bool add) {
      linear_input_gradient(data(dy), data(weight), mutable_data(dx), n, hidden, weight.size(0),
                            precision, add);
      linear_weight_gradient(data(dy), data(x), mutable_data(dweight), n, hidden, weight.size(0),
                             precision);
    };
    way_back(dq, wq, dwq, false);
    way_back(dk, wk, dwk, true);
    way_back(dv, wv, dwv, true);
    return {dx,
            dwq,
            dwk,
            dwv,
            normed ? sum_chunks(q_sums) : at::Tensor(),
            normed ? sum_chunks(k_sums) : at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

struct ProjectOnto : Function<ProjectOnto> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& residual,
                            const at::Tensor& input_in, const at::Tensor& weight, double scale,
                            Precision precision) {
    RECORD_FUNCTION("smelt::output projection", {});
    const at::Tensor input = input_in.contiguous();
    at::Tensor out = project(input, weight, precision);
    const at::Tensor base = residual.contiguous();
    const std::int64_t width = out.size(1);
    const float* from = data(base);
    float* to = mutable_data(out);
    parallel_chunks(out.size(0), kChunkRows, [&](std::int64_t begin, std::int64_t end) {
      add_onto(to + begin * width, from + begin * width, static_cast<float>(scale),
               (end - begin) * width);
    });
    ctx->save_for_backward({input, weight});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["precision"] = static_cast<std::int64_t>(precision);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    RECORD_FUNCTION("smelt::output projection backward", {});
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const double scale = ctx->saved_data["scale"].toDouble();
    const auto precision = static_cast<Precision>(ctx->saved_data["precision"].toInt());
    const at::Tensor grad = grads[0].contiguous();
    const at::Tensor dout = scale == 1 ? grad : grad * scale;
    const std::int64_t n = input.size(0), in = weight.size(1), out = weight.size(0);
    at::Tensor dinput = at::empty_like(input), dweight = at::empty_like(weight);
    linear_input_gradient(data(dout), data(weight), mutable_data(dinput), n, in, out, precision);
    linear_weight_gradient(data(dout), data(input), mutable_data(dweight), n, in, out, precision);
    return {grad, dinput, dweight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return RmsNorm::apply(x, weight, eps);
}

std::array<at::Tensor, 3> project_qkv(const at::Tensor& x, const LayerWeights& weights,
                                      const Rotary& rotary, double eps, Precision precision) {
  // LibTorch takes no undefined tensor as an argument, but an empty optional.
  const auto given = [](const at::Tensor& norm) {
    return norm.defined() ? std::optional<at::Tensor>(norm) : std::nullopt;
  };
  const auto out =
      ProjectQkv::apply(x, weights.q_proj, weights.k_proj, weights.v_proj, given(weights.q_norm),
                        given(weights.k_norm), rotary, eps, precision);
  return {out[0], out[1], out[2]};
}

at::Tensor project_onto(const at::Tensor& residual, const at::Tensor& input,
                        const at::Tensor& weight, double scale, Precision precision) {
  return ProjectOnto::apply(residual, input, weight, scale, precision);
}

at::Tensor project(const at::Tensor& x, const at::Tensor& weight, Precision precision) {
  const at::Tensor input = x.contiguous();
  at::Tensor out = at::empty({input.size(0), weight.size(0)}, input.options());
  linear(data(input), data(weight), mutable_data(out), input.size(0), input.size(1), weight.size(0),
         precision);
  return out;
}

}  // namespace smelt::model
