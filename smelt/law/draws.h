// Coefficients that a bootstrap drew, kept so that results of two laws can be paired later.
//
//   Draws draws = draws_from_json(read_json("fit.json").at("draws_kept"), "fit.json");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/fields.h"
#include "smelt/core/json.h"

namespace smelt::law {

/// What a draw resamples.  Runs are a cell and a seed; compute is in bins of a factor of two.
enum class Unit { kCell, kRun, kPoint, kSize, kCompute };

}  // namespace smelt::law

template <>
struct smelt::EnumNames<smelt::law::Unit> {
  static constexpr std::pair<smelt::law::Unit, const char*> kNames[] = {
      {smelt::law::Unit::kCell, "cell"},
      {smelt::law::Unit::kRun, "run"},
      {smelt::law::Unit::kPoint, "point"},
      {smelt::law::Unit::kSize, "size"},
      {smelt::law::Unit::kCompute, "compute"}};
};
namespace smelt::law {

/// What makes draws of two results comparable one by one.
struct DrawKey {
  Unit unit = Unit::kCell;
  std::uint64_t seed = 0;
  std::vector<std::string> names;  // of the units, in order

  friend bool operator==(const DrawKey&, const DrawKey&) = default;
};

/// Coefficients of one law per draw, and without each unit in turn; nothing where a draw does not
/// determine them.
struct Draws {
  DrawKey key;
  std::vector<std::optional<std::vector<double>>> drawn, left_out;

  std::int64_t used() const;
};
Json to_json(const Draws& draws);
/// Reads what to_json wrote; throws Error naming `name`.
Draws draws_from_json(const Json& json, std::string_view name);

}  // namespace smelt::law
