// JSON (nlohmann) with errors that name file, line and key.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace smelt {

/// Key order is the order of insertion, so that written files read top down.
using Json = nlohmann::ordered_json;

/// Throws Error "[core] broken JSON: … (file:line)", also for a key that is there twice and for
/// nesting deeper than 100.
Json parse_json(std::string_view text, std::string_view name);
Json read_json(const std::filesystem::path& file);

/// Pretty text with a final newline.
std::string to_text(const Json& json);

/// A value as an error message quotes it: compact and clipped.
std::string shown(const Json& json);

/// Member `key` of `object` as T; throws Error naming key, `name` and what was expected.
template <class T>
T json_get(const Json& object, const char* key, std::string_view name);

}  // namespace smelt

#include "smelt/core/error.h"

template <class T>
T smelt::json_get(const Json& object, const char* key, std::string_view name) {
  if (!object.is_object() || !object.contains(key)) {
    throw Error("core", "missing key \"" + std::string(key) + "\"", name);
  }
  const Json& value = object.at(key);
  const auto fail = [&](const std::string& what) {
    throw Error("core", "key \"" + std::string(key) + "\" " + what + ", got " + shown(value), name);
  };
  // The JSON library would cut 1.5 to 1, wrap -1 to a large number and read true as 1.
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    if (!value.is_number()) fail("has the wrong type");
    if constexpr (std::is_integral_v<T>) {
      bool fits = false;
      if (value.is_number_float()) {  // 2e6 is a whole number too
        const double real = value.get<double>();
        if (real != std::floor(real)) fail("must be a whole number");
        fits = std::abs(real) < 9e15 && std::in_range<T>(static_cast<std::int64_t>(real));
      } else if (value.is_number_unsigned()) {
        fits = std::in_range<T>(value.get<std::uint64_t>());
      } else {
        fits = std::in_range<T>(value.get<std::int64_t>());
      }
      if (!fits) fail("is out of range");
    }
  }
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    fail("has the wrong type");
    throw;  // not reached
  }
}
