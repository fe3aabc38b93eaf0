// The arithmetic on plain fp32 arrays beside the matrix products: norms, rotation, softmax, SwiGLU,
// rounding to bf16.
//
// All matrices are row-major.  A result of one row depends on that row alone, to the bit: sums over
// a row have a fixed order.
#pragma once

#include <cstdint>

namespace smelt::model {

/// y = weight · x / sqrt(mean(x²) + eps) per row of `width`.
void rms_norm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t width,
              float eps);
/// Gradient of one block of rows: writes dx, adds to dweight [width].
void rms_norm_backward(const float* x, const float* weight, const float* dy, float* dx,
                       float* dweight, std::int64_t rows, std::int64_t width, float eps);

/// Rotates the head in place: (a, b) -> (a cos - b sin, b cos + a sin), a first, b second half.
void rotate(float* head, const float* cosine, const float* sine, std::int64_t half);
/// The transposed rotation, for gradients.
void rotate_back(float* head, const float* cosine, const float* sine, std::int64_t half);

/// In place softmax of one row; returns its logsumexp.
float softmax(float* row, std::int64_t width);
/// Attention weights of one query: scores [seen] of `width`, of which the first `seen` count.  In
/// place softmax of scale · score, zeros behind; returns the logsumexp.
float scaled_softmax(float* scores, std::int64_t seen, std::int64_t width, float scale);
/// Its way back.  scores [width] becomes the weights again (from their logsumexp), dweights [width]
/// the gradient of the scores: scale · weight · (dweight - delta).
void scaled_softmax_backward(float* scores, float* dweights, std::int64_t seen, std::int64_t width,
                             float scale, float lse, float delta);
/// logsumexp of one row.
float logsumexp(const float* row, std::int64_t width);
float dot(const float* a, const float* b, std::int64_t width);
/// y += alpha · x
void add_scaled(float* y, const float* x, float alpha, std::int64_t width);
/// y = x + alpha · y
void add_onto(float* y, const float* x, float alpha, std::int64_t width);
/// y = alpha · x
void scale_into(float* y, const float* x, float alpha, std::int64_t width);

/// activation [width] = silu(gate) · up, from gate_up [2 · width].
void swiglu(const float* gate_up, float* activation, std::int64_t width);
/// One routed row's way back.  d_activation [width] = gradient of the unweighted activation; writes
/// d_gate_up [2 · width] (times `weight`), activation · weight, and returns activation ·
/// d_activation.
float swiglu_backward(const float* gate_up, const float* d_activation, float weight,
                      float* d_gate_up, float* weighted_activation, std::int64_t width);

/// Rounds rows [rows, width] to the nearest bf16, ties to even; what lies between `width` and
/// `to_stride` becomes zero.
void round_rows(const float* from, std::int64_t from_stride, std::uint16_t* to,
                std::int64_t to_stride, std::int64_t rows, std::int64_t width);
/// The same of [rows, width] with neighbouring rows interleaved: [rows / 2, width, 2]; an odd last
/// row is paired with zeros.
void round_row_pairs(const float* from, std::int64_t from_stride, std::uint16_t* to,
                     std::int64_t rows, std::int64_t width);

}  // namespace smelt::model
