// Command-line flags out of an options struct's field list (core/fields.h).
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/fields.h"

namespace smelt::cli {

/// False for what CLI11 would take for a number in its own way: nothing (0), 010 (octal).
inline bool plain_number(const std::string& text) {
  const std::size_t digits = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const bool octal = text.size() > digits + 1 && text[digits] == '0' &&
                     std::isdigit(static_cast<unsigned char>(text[digits + 1]));
  return text.size() > digits && !octal;
}

/// Text of a command line into a number or a LOW:HIGH list; a problem when it is none or out of
/// range.
template <class T>
void parse_field(const std::string& text, T& value, const Field& field, Problems& problems) {
  if constexpr (is_optional_v<T>) {
    typename T::value_type inner{};
    parse_field(text, inner, field, problems);
    value = inner;
  } else if constexpr (is_vector_v<T>) {
    value.clear();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(':', begin), text.size());
      value.emplace_back();
      parse_field(text.substr(begin, end - begin), value.back(), field, problems);
      begin = end + 1;
    }
  } else {
    if (!plain_number(text) || !CLI::detail::lexical_cast(text, value)) {
      problems.add(std::string(field.name) + ": expected a number, got \"" + clipped(text) + "\"");
      return;
    }
    check_field(field, value, problems, "");
  }
}

/// Accepts finite numbers from `min` to `max`; CLI::Range would let NaN pass.
inline CLI::Validator within(double min, double max) {
  const auto check = [min, max](const std::string& text) {
    double value = 0;
    const bool number = plain_number(text) && CLI::detail::lexical_cast(text, value);
    if (number && value >= min && value <= max) return std::string();
    return "expected " + range_text(min, max) + ", got " + clipped(text);
  };
  return {check, range_text(min, max), "within"};
}

inline std::string flag_name(const char* field) {
  std::string name = std::string("--") + field;
  for (char& c : name) {
    if (c == '_') c = '-';
  }
  return name;
}

/// One flag per field; its default, unit and range appear in --help.  `options` must outlive the
/// parse.  Fields for which `skip` holds get none.
template <class Options>
void add_flags(
    CLI::App& verb, Options& options, const std::string& group = "Options",
    const std::function<bool(std::string_view)>& skip = [](std::string_view) { return false; }) {
  Options::visit_fields(options, [&](const Field& field, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (skip(field.name)) return;
    std::string help = field.help;
    if (*field.unit) help += std::string(" [") + field.unit + "]";
    CLI::Option* flag = nullptr;
    const std::string name = flag_name(field.name);
    const auto check_range = [field](const auto& number) {
      Problems problems("cli");
      check_field(field, number, problems, "");
      if (!problems.empty()) {
        const std::string& message = problems.messages().front();
        throw CLI::ValidationError(flag_name(field.name), message.substr(message.find(": ") + 2));
      }
    };
    if constexpr (std::is_enum_v<T>) {
      flag = verb.add_option_function<std::string>(
          name, [&value](const std::string& text) { value = *enum_from<T>(text); }, help);
      flag->check(CLI::IsMember(enum_choices<T>()))->default_str(enum_name(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      flag = verb.add_flag(name + ",!--no-" + name.substr(2), value,
                           help + (value ? " (default: on)" : ""));
    } else if constexpr (is_optional_v<T>) {
      flag = verb.add_option_function<typename T::value_type>(
          name,
          [&value, check_range](const typename T::value_type& given) {
            check_range(given);
            value = given;
          },
          help);
    } else {
      flag = verb.add_option_function<T>(
          name,
          [&value, check_range](const T& given) {
            check_range(given);
            value = given;
          },
          help);
      if constexpr (is_vector_v<T>) {
        flag->delimiter(',');
      } else if constexpr (std::is_same_v<T, std::string>) {
        flag->default_str(value);
      } else {
        flag->default_str(number_text(static_cast<double>(value)));
      }
    }
    if constexpr (std::is_arithmetic_v<T> || is_optional_v<T>) {
      if constexpr (!std::is_same_v<T, bool>) {
        flag->check(CLI::Validator(
            [](const std::string& text) {
              if (std::is_unsigned_v<T> && text.starts_with('-')) {
                return "expected at least 0, got " + clipped(text);
              }
              return plain_number(text) ? std::string() : "expected a number, got \"" + text + "\"";
            },
            "", "number"));
      }
    }
    flag->group(group);
  });
}

/// `--tolerance flops=0.01`: one repeatable flag NAME=VALUE for all fields that begin or end with
/// `affix` ("tolerance_", "_multiple"); a list is written LOW:HIGH.
template <class Options>
void add_keyed_flag(CLI::App& verb, const std::string& flag, Options& options,
                    std::string_view affix, const std::string& help) {
  const auto key_of = [affix](std::string_view field) -> std::string {
    if (affix.front() == '_' && field.ends_with(affix)) {
      return std::string(field.substr(0, field.size() - affix.size()));
    }
    if (affix.back() == '_' && field.starts_with(affix)) {
      return std::string(field.substr(affix.size()));
    }
    return "";
  };
  std::vector<std::string> names;
  Options::visit_fields(options, [&](const Field& field, auto&) {
    if (const std::string key = key_of(field.name); !key.empty()) names.push_back(key);
  });
  const auto set = [&options, key_of, names, flag](const std::vector<std::string>& all) {
    std::vector<std::string> seen;
    for (const std::string& given : all) {
      const std::size_t equals = given.find('=');
      const std::string name = given.substr(0, equals);
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        throw CLI::ValidationError(flag, name + " is given twice");
      }
      seen.push_back(name);
      if (equals == std::string::npos ||
          std::find(names.begin(), names.end(), name) == names.end()) {
        throw CLI::ValidationError(flag, "expected NAME=VALUE with NAME " + join_choices(names) +
                                             ", got " + clipped(given));
      }
      Options::visit_fields(options, [&](const Field& field, auto& value) {
        if (key_of(field.name) != name) return;
        Problems problems("cli");
        parse_field(given.substr(equals + 1), value, field, problems);
        if (problems.empty()) return;
        const std::string& message = problems.messages().front();
        throw CLI::ValidationError(flag + " " + name, message.substr(message.find(": ") + 2));
      });
    }
  };
  verb.add_option_function<std::vector<std::string>>(flag, set,
                                                     help + "; NAME: " + join_choices(names))
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace smelt::cli
