// JSON (nlohmann) with errors that name file, line and key.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace smelt {

/// Key order is the order of insertion, so that written files read top down.
using Json = nlohmann::ordered_json;

/// Throws Error "[core] broken JSON: … (file:line)".
Json parse_json(std::string_view text, std::string_view name);
Json read_json(const std::filesystem::path& file);

/// Pretty text with a final newline.
std::string to_text(const Json& json);

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
  try {
    return object.at(key).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error("core",
                "key \"" + std::string(key) + "\" has the wrong type, got " + object.at(key).dump(),
                name);
  }
}
