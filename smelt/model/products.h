// Matrix products of row-major fp32 arrays.
//
//   linear(x, weight, y, rows, in, out);                    // y  = x · weightᵀ
//   linear_input_gradient(dy, weight, dx, rows, in, out);   // dx = dy · weight
//   linear_weight_gradient(dy, x, dweight, rows, in, out);  // dweight = dyᵀ · x
//
// The work is done by oneDNN's batch-reduce GEMM inside LibTorch, on packed panels; where a build
// or machine has none, by the BLAS that LibTorch brings.  Every result is the same to the bit for
// any number of threads, and a row of linear() depends on that row and the weights alone, whatever
// the other rows are and however many there are: sums over the inner dimension have one order.
#pragma once

#include <cstdint>

#include "smelt/arch/execution.h"

namespace smelt::model {

using arch::Precision;

/// Whether this machine multiplies bf16 faster than fp32 (AVX512-BF16 or AMX).
bool has_bf16_products();

/// c [m, n] = op(a) [m, k] · op(b) [k, n], added to c with `add`; op transposes what is stored as
/// [k, m] or [n, k].  Leading dimensions are row lengths as stored.  On the calling thread.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t lda = 0;
  bool a_transposed = false;
  const float* b = nullptr;
  std::int64_t ldb = 0;
  bool b_transposed = false;
  float* c = nullptr;
  std::int64_t ldc = 0;
  bool add = false;
  Precision precision = Precision::kFp32;
};
void multiply(const Product& product);

/// from [rows, columns] -> to [columns, rows]
void transpose(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
               std::int64_t rows, std::int64_t columns);

/// y [rows, out] (+)= x [rows, in] · weight [out, in]ᵀ.  These three use every thread, or one
/// inside parallel_tasks.
void linear(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t in,
            std::int64_t out, Precision precision, bool add = false);
/// dx [rows, in] (+)= dy [rows, out] · weight [out, in]
void linear_input_gradient(const float* dy, const float* weight, float* dx, std::int64_t rows,
                           std::int64_t in, std::int64_t out, Precision precision,
                           bool add = false);
/// dweight [out, in] (+)= dy [rows, out]ᵀ · x [rows, in]
void linear_weight_gradient(const float* dy, const float* x, float* dweight, std::int64_t rows,
                            std::int64_t in, std::int64_t out, Precision precision,
                            bool add = false);

}  // namespace smelt::model
