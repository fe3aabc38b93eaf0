#include "smelt/report/study_data.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "smelt/core/error.h"

namespace smelt::report {
namespace {

const Json kNull;
const Json kEmpty = Json::array();

void add_new(std::vector<std::string>& names, std::string name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(std::move(name));
  }
}

}  // namespace

std::string arm_name(std::string_view arm) {
  if (arm == "baseline") return "Baseline";
  if (arm == "smelt") return "SMELT";
  return std::string(arm);
}

const Json& get(const Json& json, const char* key) {
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

const Json& get(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* key : path) at = &get(*at, key);
  return *at;
}

const Json& list(const Json& json, std::initializer_list<const char*> path) {
  const Json& found = get(json, path);
  return found.is_array() ? found : kEmpty;
}

std::optional<double> number(const Json& json) {
  if (!json.is_number()) return std::nullopt;
  const double value = json.get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string text(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number() || json.is_boolean()) return json.dump();
  return "";
}

bool truth(const Json& json) {
  return json.is_boolean() && json.get<bool>();
}

std::optional<Interval> interval(const Json& json) {
  std::optional<double> low, high;
  if (json.is_array() && json.size() == 2) {
    low = number(json[0]);
    high = number(json[1]);
  } else {
    low = number(get(json, "min"));
    high = number(get(json, "max"));
  }
  return low && high ? std::optional(Interval{*low, *high}) : std::nullopt;
}

std::vector<std::string> words(const Json& json) {
  std::vector<std::string> out;
  if (json.is_string()) add_new(out, text(json));
  if (json.is_array()) {
    for (const Json& entry : json) add_new(out, text(entry));
  }
  return out;
}

Curve read_curve(const std::filesystem::path& metrics, std::size_t most, std::size_t window) {
  Curve curve;
  std::vector<Curve::Point> all;
  std::ifstream in(metrics, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.find("\"eval\"") != std::string::npos) continue;
    const Json json = Json::parse(line, nullptr, false);
    const auto tokens = number(get(json, "tokens"));
    const auto loss = number(get(json, "loss"));
    if (json.is_discarded()) ++curve.broken_lines;
    if (tokens && loss) all.push_back({number(get(json, "step")).value_or(0), *tokens, *loss});
  }
  curve.steps = all.size();
  if (all.empty()) return curve;

  const std::size_t half = window > 0 ? window / 2 : all.size() / 80;
  curve.window = 2 * half + 1;
  std::vector<double> sums(all.size() + 1, 0);
  for (std::size_t i = 0; i < all.size(); ++i) sums[i + 1] = sums[i] + all[i].loss;
  const std::size_t keep = std::min(std::max<std::size_t>(most, 2), all.size());
  for (std::size_t k = 0; k < keep; ++k) {
    const std::size_t i = keep == 1 ? 0 : k * (all.size() - 1) / (keep - 1);
    // Both ends of the run cut the window.
    const std::size_t first = i - std::min(half, i), last = std::min(i + half, all.size() - 1);
    Curve::Point point = all[i];
    point.smoothed = (sums[last + 1] - sums[first]) / static_cast<double>(last - first + 1);
    point.full = last - first == 2 * half;
    curve.points.push_back(point);
  }
  return curve;
}

std::string Study::name() const {
  std::string given = text(get(json, "name"));
  if (!given.empty()) return given;
  return std::filesystem::absolute(folder / "study.json")
      .lexically_normal()
      .parent_path()
      .filename();
}

std::vector<std::string> Study::cells() const {
  std::vector<std::string> names;
  for (const char* key : {"cells", "pairs", "gaps", "endpoints"}) {
    for (const Json& entry : list(json, {key})) add_new(names, text(get(entry, "cell")));
  }
  return names;
}

std::vector<std::string> Study::seeds() const {
  std::vector<std::string> names;
  for (const Json& entry : list(json, {"pairs"})) add_new(names, text(get(entry, "seed")));
  return names;
}

std::optional<double> Study::longest(const char* key, const std::string& cell) const {
  std::optional<double> most;
  for (const Json& entry : list(json, {key})) {
    const auto tokens = number(get(entry, "tokens"));
    if (tokens && text(get(entry, "cell")) == cell && (!most || *tokens > *most)) most = tokens;
  }
  return most;
}

Study read_study(const std::filesystem::path& folder) {
  const auto file = folder / "study.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw Error("report", "expected a study folder (with study.json in it)", folder.string());
  }
  Study study{folder, read_json(file)};
  if (!study.json.is_object()) throw Error("report", "expected a JSON object", file.string());
  const std::string schema = text(get(study.json, "schema"));
  if (schema != "smelt.study/1") {
    throw Error("report", "expected schema \"smelt.study/1\", got \"" + schema + "\"",
                file.string());
  }
  return study;
}

}  // namespace smelt::report
