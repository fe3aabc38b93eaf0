// Numbers that a model's matrix products are made of.
#pragma once

#include <utility>

#include "smelt/core/fields.h"

namespace smelt::arch {

/// What the factors of a product are rounded to; weights, sums and results are fp32 always.
enum class Precision { kFp32, kBf16 };

}  // namespace smelt::arch

template <>
struct smelt::EnumNames<smelt::arch::Precision> {
  static constexpr std::pair<smelt::arch::Precision, const char*> kNames[] = {
      {smelt::arch::Precision::kFp32, "fp32"}, {smelt::arch::Precision::kBf16, "bf16"}};
};
