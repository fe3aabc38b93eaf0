// How a model is computed, where there is a choice that leaves its arithmetic's meaning alone.
#pragma once

#include <utility>

#include "smelt/core/fields.h"

namespace smelt::arch {

/// What the factors of a product are rounded to; weights, sums and results are fp32 always.
enum class Precision { kFp32, kBf16 };

/// What the backward pass computes again instead of keeping it from the forward pass: nothing, each
/// visit of the looped span, every executed layer.
enum class Recompute { kNone, kLoop, kLayer };

}  // namespace smelt::arch

template <>
struct smelt::EnumNames<smelt::arch::Precision> {
  static constexpr std::pair<smelt::arch::Precision, const char*> kNames[] = {
      {smelt::arch::Precision::kFp32, "fp32"}, {smelt::arch::Precision::kBf16, "bf16"}};
};
template <>
struct smelt::EnumNames<smelt::arch::Recompute> {
  static constexpr std::pair<smelt::arch::Recompute, const char*> kNames[] = {
      {smelt::arch::Recompute::kNone, "none"},
      {smelt::arch::Recompute::kLoop, "loop"},
      {smelt::arch::Recompute::kLayer, "layer"}};
};
