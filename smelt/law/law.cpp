// Laws as files: "smelt.law/1", and the law inside a "smelt.fit/1" result.
#include <fmt/format.h>

#include "smelt/core/error.h"
#include "smelt/law/form.h"

namespace smelt::law {
namespace {

Json range_json(const Range& range) {
  return Json::array({range.min, range.max});
}

Range range_from(const Json& json, const char* key, std::string_view name) {
  const auto ends = json_get<std::vector<double>>(json, key, name);
  if (ends.size() != 2) {
    throw Error("law", "range \"" + std::string(key) + "\": expected two numbers", name);
  }
  return {ends[0], ends[1]};
}

}  // namespace

double Law::coefficient(std::string_view name) const {
  const auto at = form->index(name);
  if (!at) {
    throw Error("law", "form " + form->name + " has no coefficient \"" + std::string(name) +
                           "\"; there are " + join_choices(form->coefficients));
  }
  return coefficients[*at];
}

Law law_from_json(const Json& json, std::string_view name, std::string_view group) {
  const auto schema = json_get<std::string>(json, "schema", name);
  if (schema != "smelt.law/1" && schema != "smelt.fit/1") {
    throw Error("law", "expected schema smelt.law/1 or smelt.fit/1, got \"" + schema + "\"", name);
  }
  if (json.contains("groups")) {
    const Json& groups = json.at("groups");
    std::vector<std::string> names;
    for (const auto& [key, value] : groups.items()) names.push_back(key);
    if (names.empty()) throw Error("law", "expected laws in \"groups\", got none", name);
    if (group.empty() && names.size() == 1) group = names.front();
    if (group.empty() || !groups.contains(std::string(group))) {
      throw Error("law",
                  group.empty()
                      ? "several laws in one file: name one of " + join_choices(names)
                      : "no law \"" + std::string(group) + "\"; there are " + join_choices(names),
                  name);
    }
    Json one = groups.at(std::string(group));
    one["schema"] = schema;
    if (!one.contains("form") && json.contains("form")) one["form"] = json.at("form");
    return law_from_json(one, std::string(name) + ", group " + std::string(group));
  }
  Law law;
  law.form = &find_form(json_get<std::string>(json, "form", name));
  const Json coefficients = json_get<Json>(json, "coefficients", name);
  Problems problems("law", std::string(name));
  for (const std::string& key : law.form->coefficients) {
    if (!coefficients.contains(key) || !coefficients.at(key).is_number()) {
      problems.add("coefficients: form " + law.form->name + " needs a number \"" + key + "\"");
    } else {
      const auto value = coefficients.at(key).get<double>();
      const auto unknown = law.form->unknown_of(*law.form->index(key));
      if (unknown && *unknown <= law.form->amplitudes && value < 0) {
        problems.add(
            fmt::format("coefficients: expected \"{}\" of form {} to be at least 0, got {:g}", key,
                        law.form->name, value));
      }
      law.coefficients.push_back(value);
    }
  }
  for (const auto& [key, value] : coefficients.items()) {
    if (!law.form->index(key)) {
      problems.add("coefficients: form " + law.form->name + " has no \"" + key + "\"");
    }
  }
  problems.throw_if_any();
  if (json.contains("range") && json.at("range").is_object()) {
    const Json& range = json.at("range");
    law.range = DesignRange{range_from(range, "size", name), range_from(range, "sparsity", name),
                            range_from(range, "tokens", name), range_from(range, "compute", name)};
  }
  if (json.contains("unidentified")) {
    law.unidentified = json_get<std::vector<std::string>>(json, "unidentified", name);
  }
  return law;
}

Law read_law(const std::filesystem::path& file, std::string_view group) {
  return law_from_json(read_json(file), file.string(), group);
}

Json to_json(const Law& law) {
  Json json = {{"schema", "smelt.law/1"}, {"form", law.form->name}};
  Json& coefficients = json["coefficients"] = Json::object();
  for (std::size_t i = 0; i < law.coefficients.size(); ++i) {
    coefficients[law.form->coefficients[i]] = law.coefficients[i];
  }
  if (law.range) {
    json["range"] = {{"size", range_json(law.range->size)},
                     {"sparsity", range_json(law.range->sparsity)},
                     {"tokens", range_json(law.range->tokens)},
                     {"compute", range_json(law.range->compute)}};
  }
  json["unidentified"] = law.unidentified;
  return json;
}

}  // namespace smelt::law
