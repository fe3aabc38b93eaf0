// Options structs describe their fields once; flags, TOML, JSON, validation and docs come out of
// that.
//
//   struct FitOptions {
//     double huber_delta = 1e-3;
//     Weighting weighting = Weighting::kNone;
//     template <class Self, class Visitor>
//     static void visit_fields(Self& self, Visitor&& visit) {
//       visit(Field{"huber_delta", "Huber threshold on log-loss residuals", "nats", 0},
//       self.huber_delta); visit(Field{"weighting", "how rows are weighted"}, self.weighting);
//     }
//   };
//   template <> struct smelt::EnumNames<Weighting> { static constexpr auto kNames = ...; };
//
// Field types: bool, int, std::int64_t, std::uint64_t, double, std::string, enums with a name
// table, std::vector of int64/double/string, std::optional of int64/double/string.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "smelt/core/csv.h"
#include "smelt/core/error.h"
#include "smelt/core/json.h"
#include "smelt/core/toml.h"

namespace smelt {

struct Field {
  const char* name;  // snake_case; the flag is --kebab-case
  const char* help;
  const char* unit = "";
  double min = -std::numeric_limits<double>::infinity();  // inclusive
  double max = std::numeric_limits<double>::infinity();   // inclusive
};

/// Specialise for each enum used in options:
///   static constexpr std::pair<E, const char*> kNames[] = {{E::kGlobal, "global"}, …};
template <class E>
struct EnumNames;

template <class E>
const char* enum_name(E value) {
  for (const auto& [e, name] : EnumNames<E>::kNames) {
    if (e == value) return name;
  }
  return "?";
}

template <class E>
std::vector<std::string> enum_choices() {
  std::vector<std::string> names;
  for (const auto& [e, name] : EnumNames<E>::kNames) names.emplace_back(name);
  return names;
}

template <class E>
std::optional<E> enum_from(std::string_view text) {
  for (const auto& [e, name] : EnumNames<E>::kNames) {
    if (text == name) return e;
  }
  return std::nullopt;
}

template <class T>
inline constexpr bool is_optional_v = false;
template <class T>
inline constexpr bool is_optional_v<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector_v = false;
template <class T>
inline constexpr bool is_vector_v<std::vector<T>> = true;

/// "1 to 1000000", "at least 0", "at most 64" or "a finite number".
std::string range_text(double min, double max);

/// Adds a problem when the value (or an entry of it) is outside the field's range.
template <class T>
void check_field(const Field& field, const T& value, Problems& problems, std::string_view where) {
  if constexpr (is_optional_v<T>) {
    if (value) check_field(field, *value, problems, where);
  } else if constexpr (is_vector_v<T>) {
    for (const auto& item : value) check_field(field, item, problems, where);
  } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    const double number = static_cast<double>(value);
    if (std::isfinite(number) && number >= field.min && number <= field.max) return;
    std::string range = range_text(field.min, field.max);
    if (std::isinf(number)) range = "a finite number";
    problems.add(std::string(field.name) + ": expected " + range + ", got " + number_text(number),
                 where);
  }
}

/// Adds one problem per number outside its range.
template <class Options>
void check_fields(const Options& options, Problems& problems) {
  Options::visit_fields(options, [&](const Field& field, const auto& value) {
    check_field(field, value, problems, problems.where());
  });
}

/// The fields as a JSON object; an unset optional is left out.
template <class Options>
Json fields_to_json(const Options& options) {
  Json json = Json::object();
  Options::visit_fields(options, [&](const Field& field, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_enum_v<T>) {
      json[field.name] = enum_name(value);
    } else if constexpr (is_optional_v<T>) {
      if (value) json[field.name] = *value;
    } else {
      json[field.name] = value;
    }
  });
  return json;
}

/// The fields as lines `name = value` of TOML, which read back to the same struct.
template <class Options>
std::string fields_to_toml(const Options& options) {
  std::string text;
  const Json json = fields_to_json(options);
  for (const auto& [name, value] : json.items()) text += name + " = " + toml_value(value) + "\n";
  return text;
}

/// Reads every field that the table has (absent ones keep their value), adds a problem with its
/// line for each wrong type, unknown enum text or number out of range.  Keys read are marked as
/// read.
template <class Options>
void read_fields(Options& options, TomlTable table, Problems& problems) {
  Options::visit_fields(options, [&](const Field& field, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_enum_v<T>) {
      const auto text = table.get<std::string>(field.name, problems);
      if (!text) return;
      if (const auto found = enum_from<T>(*text)) {
        value = *found;
      } else {
        problems.add(std::string(field.name) + ": expected " + join_choices(enum_choices<T>()) +
                         ", got \"" + clipped(*text) + "\"",
                     table.where(field.name));
      }
    } else if constexpr (is_optional_v<T>) {
      if (const auto got = table.get<typename T::value_type>(field.name, problems)) value = *got;
    } else {
      if (auto got = table.get<T>(field.name, problems)) value = std::move(*got);
    }
    if (table.has(field.name)) check_field(field, value, problems, table.where(field.name));
  });
}

}  // namespace smelt
