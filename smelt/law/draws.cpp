#include "smelt/law/draws.h"

#include <algorithm>

#include "smelt/core/error.h"

namespace smelt::law {
namespace {

Json coefficients_json(const std::vector<std::optional<std::vector<double>>>& laws) {
  Json json = Json::array();
  for (const auto& law : laws) json.push_back(law ? Json(*law) : Json());
  return json;
}

}  // namespace

std::int64_t Draws::used() const {
  return std::count_if(drawn.begin(), drawn.end(), [](const auto& law) { return law.has_value(); });
}

Json to_json(const Draws& draws) {
  return {{"unit", enum_name(draws.key.unit)},
          {"seed", draws.key.seed},
          {"names", draws.key.names},
          {"coefficients", coefficients_json(draws.drawn)},
          {"left_out", coefficients_json(draws.left_out)}};
}

Draws draws_from_json(const Json& json, std::string_view name) {
  Draws draws;
  const auto unit = enum_from<Unit>(json_get<std::string>(json, "unit", name));
  if (!unit) {
    throw Error("law", "draws.unit: expected " + join_choices(enum_choices<Unit>()), name);
  }
  draws.key = {*unit, json_get<std::uint64_t>(json, "seed", name),
               json_get<std::vector<std::string>>(json, "names", name)};
  const auto read = [&](const char* key, auto& laws) {
    for (const Json& law : json_get<Json>(json, key, name)) {
      laws.emplace_back();
      if (law.is_null()) continue;
      try {
        laws.back() = law.template get<std::vector<double>>();
      } catch (const nlohmann::json::exception&) {
        throw Error("law", std::string("draws.") + key + ": expected numbers, got " + shown(law),
                    name);
      }
    }
  };
  read("coefficients", draws.drawn);
  read("left_out", draws.left_out);
  return draws;
}

}  // namespace smelt::law
