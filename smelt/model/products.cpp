#include "smelt/model/products.h"

#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <array>
#include <vector>

#if defined(__x86_64__) && __has_include(<fbgemm/Utils.h>)
#include <fbgemm/Utils.h>
#define SMELT_HAS_FBGEMM 1
#endif

#include "smelt/model/kernels.h"
#include "smelt/model/threads.h"

#if defined(CPUBLAS_BRGEMM_F32F32F32) && defined(CPUBLAS_BRGEMM_BF16BF16F32)
#define SMELT_HAS_BRGEMM 1
#endif

extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace smelt::model {
namespace {

// ---- BLAS: the way of last resort, and the reference in tests

constexpr std::int64_t kBlasRows = 8;  // kernels for fewer rows add in another order

void blas(const Product& p) {
  // Row-major c = op(a) op(b) is column-major cᵀ = op(b)ᵀ op(a)ᵀ.
  const char side_a = p.a_transposed ? 'T' : 'N', side_b = p.b_transposed ? 'T' : 'N';
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  const int lda = static_cast<int>(p.lda), ldb = static_cast<int>(p.ldb),
            ldc = static_cast<int>(p.ldc);
  const float alpha = 1, beta = p.add ? 1 : 0;
  sgemm_(&side_b, &side_a, &n, &m, &k, &alpha, p.b, &ldb, p.a, &lda, &beta, p.c, &ldc);
}

/// Rows beyond a multiple of kBlasRows go through it in a block padded with zero rows.
void multiply_by_blas(const Product& p) {
  const std::int64_t rest = p.m % kBlasRows, whole = p.m - rest;
  if (rest == 0 || p.a_transposed) return blas(p);
  Product head = p, tail = p;
  head.m = whole;
  if (whole > 0) blas(head);
  std::vector<float> a(static_cast<std::size_t>(kBlasRows * p.k), 0.0f);
  std::vector<float> c(static_cast<std::size_t>(kBlasRows * p.n), 0.0f);
  for (std::int64_t r = 0; r < rest; ++r) {
    std::copy_n(p.a + (whole + r) * p.lda, p.k, a.data() + r * p.k);
    if (p.add) std::copy_n(p.c + (whole + r) * p.ldc, p.n, c.data() + r * p.n);
  }
  tail.m = kBlasRows;
  tail.a = a.data();
  tail.lda = p.k;
  tail.c = c.data();
  tail.ldc = p.n;
  blas(tail);
  for (std::int64_t r = 0; r < rest; ++r) {
    std::copy_n(c.data() + r * p.n, p.n, p.c + (whole + r) * p.ldc);
  }
}

#ifdef SMELT_HAS_BRGEMM

// ---- batch-reduce GEMM: b in panels of kPanel columns, the inner dimension in parts of kDepth

constexpr std::int64_t kPanel = 64;
constexpr std::int64_t kDepth = 512;
constexpr std::int64_t kRows = 128;    // of a, per call
constexpr std::int64_t kFewRows = 24;  // up to here c is computed transposed: b needs no packing

using at::native::cpublas::brgemm;

/// a, b and c of one part of the inner dimension, in fp32.
void multiply_part(const Product& p, const float* a, std::int64_t lda, const float* b,
                   std::int64_t ldb, std::int64_t depth, bool add) {
  for (std::int64_t j = 0; j < p.n; j += kPanel) {
    const std::int64_t columns = std::min(kPanel, p.n - j);
    const float* panel = b + j;
    std::int64_t stride = ldb;
    if (p.b_transposed) {
      float* packed = scratch<struct PackedB>(kDepth * kPanel);
      transpose(b + j * ldb, ldb, packed, columns, columns, depth);
      panel = packed;
      stride = columns;
    }
    for (std::int64_t i = 0; i < p.m; i += kRows) {
      brgemm(std::min(kRows, p.m - i), columns, depth, lda, stride, p.ldc, add, a + i * lda, panel,
             p.c + i * p.ldc + j, false);
    }
  }
}

/// The same with factors rounded to bf16: a [m, depth] as rows, b in pairs of rows, both padded to
/// an even depth with zeros.
void multiply_part_bf16(const Product& p, const at::BFloat16* a, const float* b, std::int64_t depth,
                        bool add) {
  const std::int64_t even = (depth + 1) / 2 * 2;
  auto* packed = reinterpret_cast<std::uint16_t*>(scratch<struct PackedB>(kDepth * kPanel));
  for (std::int64_t j = 0; j < p.n; j += kPanel) {
    const std::int64_t columns = std::min(kPanel, p.n - j);
    if (p.b_transposed) {
      auto* rounded = scratch<struct RoundedB, std::uint16_t>(kDepth * kPanel);
      round_rows(b + j * p.ldb, p.ldb, rounded, even, columns, depth);
      // A pair of neighbours is one 32-bit word.
      transpose(reinterpret_cast<const float*>(rounded), even / 2, reinterpret_cast<float*>(packed),
                columns, columns, even / 2);
    } else {
      round_row_pairs(b + j, p.ldb, packed, depth, columns);
    }
    for (std::int64_t i = 0; i < p.m; i += kRows) {
      brgemm(std::min(kRows, p.m - i), columns, even, even, columns, p.ldc, add, a + i * even,
             reinterpret_cast<const at::BFloat16*>(packed), p.c + i * p.ldc + j, true);
    }
  }
}

/// cᵀ = b · aᵀ for few rows of a: the same sums, without packing b.
void multiply_turned(const Product& p) {
  float* a = scratch<struct PackedA>(p.k * p.m);
  float* c = scratch<struct Turned>(p.n * p.m);
  transpose(p.a, p.lda, a, p.m, p.m, p.k);
  if (p.add) transpose(p.c, p.ldc, c, p.m, p.m, p.n);
  for (std::int64_t first = 0; first < p.k; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p.k - first);
    for (std::int64_t i = 0; i < p.n; i += kRows) {
      brgemm(std::min(kRows, p.n - i), p.m, depth, p.ldb, p.m, p.m, p.add || first > 0,
             p.b + i * p.ldb + first, a + first * p.m, c + i * p.m, false);
    }
  }
  transpose(c, p.m, p.c, p.ldc, p.n, p.m);
}

void multiply_by_brgemm(const Product& p) {
  const bool half = p.precision == Precision::kBf16;
  if (!half && !p.a_transposed && p.b_transposed && p.m <= kFewRows) return multiply_turned(p);
  for (std::int64_t first = 0; first < p.k; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, p.k - first);
    const bool add = p.add || first > 0;
    const float* a = p.a_transposed ? p.a + first * p.lda : p.a + first;
    std::int64_t lda = p.lda;
    if (p.a_transposed) {
      float* packed = scratch<struct PackedA>(p.m * depth);
      transpose(a, lda, packed, depth, depth, p.m);
      a = packed;
      lda = depth;
    }
    const float* b = p.b_transposed ? p.b + first : p.b + first * p.ldb;
    if (half) {
      const std::int64_t even = (depth + 1) / 2 * 2;
      auto* rounded = scratch<struct RoundedA, std::uint16_t>(p.m * even);
      round_rows(a, lda, rounded, even, p.m, depth);
      multiply_part_bf16(p, reinterpret_cast<const at::BFloat16*>(rounded), b, depth, add);
    } else {
      multiply_part(p, a, lda, b, p.ldb, depth, add);
    }
  }
  if (half) at::native::cpublas::brgemm_release();
}

/// Tried once: oneDNN knows which machines its kernels are for.
bool brgemm_works() {
  static const bool works = [] {
    const std::array<float, 1> a = {2}, b = {3};
    std::array<float, 1> c = {0};
    try {
      brgemm(1, 1, 1, 1, 1, 1, false, a.data(), b.data(), c.data(), false);
    } catch (const c10::Error&) {
      return false;
    }
    return c[0] == 6;
  }();
  return works;
}

#endif

}  // namespace

void transpose(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
               std::int64_t rows, std::int64_t columns) {
#ifdef SMELT_HAS_FBGEMM
  fbgemm::transpose_simd<float>(rows, columns, from, from_stride, to, to_stride);
#else
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
#endif
}

bool has_bf16_products() {
#if defined(SMELT_HAS_BRGEMM) && defined(__x86_64__)
  // Every machine with AMX has these instructions too.
  static const bool has = brgemm_works() && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

void multiply(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    for (std::int64_t i = 0; i < p.m && !p.add; ++i) std::fill_n(p.c + i * p.ldc, p.n, 0.0f);
    return;
  }
#ifdef SMELT_HAS_BRGEMM
  if (brgemm_works()) return multiply_by_brgemm(p);
#endif
  multiply_by_blas(p);
}

namespace {

constexpr std::int64_t kTileRows = 256;
constexpr std::int64_t kTileColumns = 512;
constexpr std::int64_t kRowsOfWeights = 128;  // `out` is often a few hundred only

/// `body(row, rows, column, columns)` over tiles of a [rows, columns] result.
template <class Body>
void parallel_tiles(std::int64_t rows, std::int64_t columns, std::int64_t tile_rows,
                    std::int64_t tile_columns, const Body& body) {
  const std::int64_t across = (columns + tile_columns - 1) / tile_columns;
  const std::int64_t down = (rows + tile_rows - 1) / tile_rows;
  parallel_tasks(across * down, [&](std::int64_t i) {
    const std::int64_t row = i / across * tile_rows, column = i % across * tile_columns;
    body(row, std::min(tile_rows, rows - row), column, std::min(tile_columns, columns - column));
  });
}

}  // namespace

void linear(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t in,
            std::int64_t out, Precision precision, bool add) {
  parallel_tiles(
      rows, out, kTileRows, kTileColumns,
      [&](std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width) {
        multiply({.m = height,
                  .n = width,
                  .k = in,
                  .a = x + row * in,
                  .lda = in,
                  .b = weight + column * in,
                  .ldb = in,
                  .b_transposed = true,
                  .c = y + row * out + column,
                  .ldc = out,
                  .add = add,
                  .precision = precision});
      });
}

void linear_input_gradient(const float* dy, const float* weight, float* dx, std::int64_t rows,
                           std::int64_t in, std::int64_t out, Precision precision, bool add) {
  parallel_tiles(
      rows, in, kTileRows, kTileColumns,
      [&](std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width) {
        multiply({.m = height,
                  .n = width,
                  .k = out,
                  .a = dy + row * out,
                  .lda = out,
                  .b = weight + column,
                  .ldb = in,
                  .c = dx + row * in + column,
                  .ldc = in,
                  .add = add,
                  .precision = precision});
      });
}

void linear_weight_gradient(const float* dy, const float* x, float* dweight, std::int64_t rows,
                            std::int64_t in, std::int64_t out, Precision precision, bool add) {
  parallel_tiles(
      out, in, kRowsOfWeights, kTileColumns,
      [&](std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width) {
        multiply({.m = height,
                  .n = width,
                  .k = rows,
                  .a = dy + row,
                  .lda = out,
                  .a_transposed = true,
                  .b = x + column,
                  .ldb = in,
                  .c = dweight + row * in + column,
                  .ldc = in,
                  .add = add,
                  .precision = precision});
      });
}

}  // namespace smelt::model
