#include "smelt/core/fields.h"

namespace smelt {
namespace {

/// Whole numbers in digits: 1000000, not 1e+06.
std::string bound_text(double value) {
  constexpr double kExact = 1e15;
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  return number_text(value);
}

}  // namespace

std::string range_text(double min, double max) {
  if (std::isfinite(min) && std::isfinite(max)) return bound_text(min) + " to " + bound_text(max);
  if (std::isfinite(min)) return "at least " + bound_text(min);
  if (std::isfinite(max)) return "at most " + bound_text(max);
  return "a finite number";
}

}  // namespace smelt
