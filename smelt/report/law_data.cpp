#include "smelt/report/law_data.h"

#include <fmt/format.h>

#include <cmath>

#include "smelt/report/html.h"
#include "smelt/report/sections.h"

namespace smelt::report {

Laws read_laws(const Study& study) {
  Laws laws;
  const Json& json = get(study.json, "law");
  laws.words = words(get(json, "words"));
  if (!truth(get(json, "identifiable"))) return laws;
  try {
    for (const char* arm : kArms) {
      laws.by_arm[arm] =
          law::law_from_json(get(json, arm), std::string("study.json, law of ") + arm);
      const law::Law& law = laws.by_arm[arm];
      for (const Json& draw : list(json, {arm, "draws_kept", "coefficients"})) {
        if (!draw.is_array() || draw.size() != law.coefficients.size()) continue;
        laws.drawn[arm].push_back({law.form, draw.get<std::vector<double>>(), std::nullopt, {}});
      }
    }
  } catch (const std::exception& problem) {
    laws.by_arm.clear();
    laws.drawn.clear();
    laws.words.push_back(std::string("The fitted laws could not be read: ") + problem.what());
  }
  return laws;
}

std::vector<Endpoint> endpoints_of(const Study& study) {
  std::map<std::pair<std::string, std::string>, std::optional<double>> parameters;
  for (const Json& cell : list(study.json, {"cells"})) {
    for (const char* arm : kArms) {
      parameters[{text(get(cell, "cell")), arm}] =
          number(get(cell, {"budgets", arm, "parameters", "total"}));
    }
  }
  std::vector<Endpoint> all;
  for (const Json& row : list(study.json, {"endpoints"})) {
    Endpoint point{text(get(row, "arch")),
                   text(get(row, "cell")),
                   number(get(row, "flops_per_token")),
                   number(get(row, "sparsity")),
                   number(get(row, "tokens")),
                   number(get(row, "loss")),
                   {}};
    point.parameters = parameters[{point.cell, point.arm}];
    all.push_back(std::move(point));
  }
  return all;
}

std::optional<double> fitted(const Laws& laws, const Endpoint& at, double tokens) {
  const auto law = laws.by_arm.find(at.arm);
  if (law == laws.by_arm.end()) return std::nullopt;
  const auto size = law->second.form->size == law::SizeKind::kParameters ? at.parameters : at.flops;
  if (!size || *size <= 0 || tokens <= 0) return std::nullopt;
  const double loss = law::evaluate(law->second, {*size, at.sparsity.value_or(0), tokens});
  return std::isfinite(loss) ? std::optional(loss) : std::nullopt;
}

std::string sparsity_name(double sparsity) {
  return fmt::format("S = {:.3g}", sparsity);
}

}  // namespace smelt::report
