// Free of LibTorch.  Loops are written for the compiler's vectoriser; on x86-64 each is compiled
// for three instruction sets and the machine's best is taken at start.
#include "smelt/model/kernels.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define SMELT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SMELT_CLONES
#endif

namespace smelt::model {
namespace {

/// e^x to 1 ulp or so for x ≤ 88; 0 below -87.  Straight-line, so that loops over it vectorise.
[[gnu::always_inline]] inline float fast_exp(float x) {
  const float below = x < 88.0f ? x : 88.0f;
  const float clipped = below > -87.0f ? below : -87.0f;
  const float turns = clipped * 1.44269504088896341f;
  // Adding and taking away 1.5 · 2^23 rounds to the nearest integer.
  const float shifted = turns + 12582912.0f;
  const float n = shifted - 12582912.0f;
  float r = clipped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t exponent = static_cast<std::int32_t>(n) + 127;
  const float power = __builtin_bit_cast(float, exponent << 23);
  // NaN must stay NaN: the clipping above loses it.
  return x < -87.0f ? 0.0f : (x != x ? x : p * power);
}

/// The upper half of `x`, rounded to nearest, ties to even; NaN stays NaN.
[[gnu::always_inline]] inline std::uint32_t bf16_bits(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
}

}  // namespace

SMELT_CLONES
float dot(const float* a, const float* b, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

SMELT_CLONES
void add_scaled(float* y, const float* x, float alpha, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) y[i] += alpha * x[i];
}

SMELT_CLONES
void add_onto(float* y, const float* x, float alpha, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) y[i] = x[i] + alpha * y[i];
}

SMELT_CLONES
void scale_into(float* y, const float* x, float alpha, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) y[i] = alpha * x[i];
}

SMELT_CLONES
void rms_norm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t width,
              float eps) {
  for (std::int64_t row = 0; row < rows; ++row, x += width, y += width) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) y[i] = weight[i] * (x[i] * inverse);
  }
}

// y = w x r, r = (mean(x²) + eps)^(-1/2):  dx = r (w dy - x r² mean(w dy x))
SMELT_CLONES
void rms_norm_backward(const float* x, const float* weight, const float* dy, float* dx,
                       float* dweight, std::int64_t rows, std::int64_t width, float eps) {
  for (std::int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    float squares = 0, along = 0;
#pragma omp simd reduction(+ : squares, along)
    for (std::int64_t i = 0; i < width; ++i) {
      squares += x[i] * x[i];
      along += weight[i] * dy[i] * x[i];
    }
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    const float pull = along / static_cast<float>(width) * inverse * inverse * inverse;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      dweight[i] += dy[i] * x[i] * inverse;
      dx[i] = weight[i] * dy[i] * inverse - x[i] * pull;
    }
  }
}

SMELT_CLONES
void rotate(float* head, const float* cosine, const float* sine, std::int64_t half) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosine[i] - b * sine[i];
    head[i + half] = b * cosine[i] + a * sine[i];
  }
}

SMELT_CLONES
void rotate_back(float* head, const float* cosine, const float* sine, std::int64_t half) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosine[i] + b * sine[i];
    head[i + half] = b * cosine[i] - a * sine[i];
  }
}

SMELT_CLONES
float softmax(float* row, std::int64_t width) {
  float top = row[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < width; ++i) top = row[i] > top ? row[i] : top;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    const float e = fast_exp(row[i] - top);
    row[i] = e;
    sum += e;
  }
  const float inverse = 1.0f / sum;
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) row[i] *= inverse;
  return top + std::log(sum);
}

SMELT_CLONES
float scaled_softmax(float* scores, std::int64_t seen, std::int64_t width, float scale) {
  float top = scores[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < seen; ++i) top = scores[i] > top ? scores[i] : top;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < seen; ++i) {
    const float e = fast_exp(scale * (scores[i] - top));
    scores[i] = e;
    sum += e;
  }
  const float inverse = 1.0f / sum;
#pragma omp simd
  for (std::int64_t i = 0; i < seen; ++i) scores[i] *= inverse;
  for (std::int64_t i = seen; i < width; ++i) scores[i] = 0;
  return scale * top + std::log(sum);
}

SMELT_CLONES
void scaled_softmax_backward(float* scores, float* dweights, std::int64_t seen, std::int64_t width,
                             float scale, float lse, float delta) {
#pragma omp simd
  for (std::int64_t i = 0; i < seen; ++i) {
    const float weight = fast_exp(scale * scores[i] - lse);
    scores[i] = weight;
    dweights[i] = scale * weight * (dweights[i] - delta);
  }
  for (std::int64_t i = seen; i < width; ++i) scores[i] = dweights[i] = 0;
}

SMELT_CLONES
float logsumexp(const float* row, std::int64_t width) {
  float top = row[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t i = 0; i < width; ++i) top = row[i] > top ? row[i] : top;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += fast_exp(row[i] - top);
  return top + std::log(sum);
}

SMELT_CLONES
void swiglu(const float* gate_up, float* activation, std::int64_t width) {
  const float* up = gate_up + width;
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const float gate = gate_up[i];
    activation[i] = gate / (1.0f + fast_exp(-gate)) * up[i];
  }
}

SMELT_CLONES
float swiglu_backward(const float* gate_up, const float* d_activation, float weight,
                      float* d_gate_up, float* weighted_activation, std::int64_t width) {
  const float* up = gate_up + width;
  float* d_up = d_gate_up + width;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    const float gate = gate_up[i];
    const float sigmoid = 1.0f / (1.0f + fast_exp(-gate));
    const float silu = gate * sigmoid;
    const float activation = silu * up[i];
    const float d = d_activation[i];
    sum += activation * d;
    weighted_activation[i] = weight * activation;
    d_up[i] = weight * d * silu;
    d_gate_up[i] = weight * d * up[i] * sigmoid * (1.0f + gate * (1.0f - sigmoid));
  }
  return sum;
}

SMELT_CLONES
void round_rows(const float* from, std::int64_t from_stride, std::uint16_t* to,
                std::int64_t to_stride, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<std::uint16_t>(bf16_bits(from[i]));
    for (std::int64_t i = width; i < to_stride; ++i) to[i] = 0;
  }
}

SMELT_CLONES
void round_row_pairs(const float* from, std::int64_t from_stride, std::uint16_t* to,
                     std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; r += 2, from += 2 * from_stride, to += 2 * width) {
    const float* second = from + from_stride;
    if (r + 1 < rows) {
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) {
        to[2 * i] = static_cast<std::uint16_t>(bf16_bits(from[i]));
        to[2 * i + 1] = static_cast<std::uint16_t>(bf16_bits(second[i]));
      }
    } else {
      for (std::int64_t i = 0; i < width; ++i) {
        to[2 * i] = static_cast<std::uint16_t>(bf16_bits(from[i]));
        to[2 * i + 1] = 0;
      }
    }
  }
}

}  // namespace smelt::model
