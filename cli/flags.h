// Command-line flags out of an options struct's field list (core/fields.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "smelt/core/fields.h"

namespace smelt::cli {

inline std::string flag_name(const char* field) {
  std::string name = std::string("--") + field;
  for (char& c : name) {
    if (c == '_') c = '-';
  }
  return name;
}

/// One flag per field; its default, unit and range appear in --help.  `options` must outlive the
/// parse.
template <class Options>
void add_flags(CLI::App& verb, Options& options, const std::string& group = "Options") {
  Options::visit_fields(options, [&](const Field& field, auto& value) {
    using T = std::decay_t<decltype(value)>;
    std::string help = field.help;
    if (*field.unit) help += std::string(" [") + field.unit + "]";
    CLI::Option* flag = nullptr;
    const std::string name = flag_name(field.name);
    const auto check_range = [field](const auto& number) {
      Problems problems("cli");
      check_field(field, number, problems, "");
      if (!problems.empty()) {
        std::string line = problems.lines().front();
        throw CLI::ValidationError(flag_name(field.name), line.substr(line.find(": ") + 2));
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
    flag->group(group);
  });
}

}  // namespace smelt::cli
