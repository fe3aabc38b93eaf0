// The arithmetic on plain fp32 arrays: matrix products, norms, rotation, softmax, SwiGLU.
//
// All matrices are row-major.  A forward result of one row depends on that row and the weights
// alone, to the bit, whatever the other rows are and however many there are: sums over a row have a
// fixed order, and products run in blocks of a multiple of kRowTile rows on one thread (BLAS
// kernels for fewer rows add in another order).
#pragma once

#include <cstdint>

namespace smelt::model {

/// Rows per product are a multiple of this; groups are padded with zero rows.
inline constexpr std::int64_t kRowTile = 8;

constexpr std::int64_t padded_rows(std::int64_t rows) {
  return (rows + kRowTile - 1) / kRowTile * kRowTile;
}

enum class Side { kPlain, kTransposed };

/// c [m, n] = alpha · op(a) [m, k] · op(b) [k, n] + beta · c; leading dimensions are row lengths as
/// stored.  Uses BLAS's threads, one inside parallel_tasks.
struct Product {
  Side a_side = Side::kPlain;
  Side b_side = Side::kPlain;
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t lda = 0;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  float alpha = 1;
  float beta = 0;
};
void multiply(const Product& product);

/// y [rows, out] = x [rows, in] · weight [out, in]ᵀ, row-independent, parallel over blocks of rows.
void linear(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t in,
            std::int64_t out);

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

}  // namespace smelt::model
