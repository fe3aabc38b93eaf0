#include "smelt/law/form.h"

#include <cmath>

namespace smelt::law {
namespace {

// Coefficients are [E, A, K, exponents…]; each form's two terms are written out below.

void smelt_terms(const LogInputs& x, const double* e, double* terms, double* gradient) {
  terms[0] = -e[0] * x.size + e[1] * x.one_minus_s;
  terms[1] = -e[2] * x.tokens;
  const double g[] = {-x.size, x.one_minus_s, 0, 0, 0, -x.tokens};
  std::copy(g, g + 6, gradient);
}

void two_term_terms(const LogInputs& x, const double* e, double* terms, double* gradient) {
  terms[0] = -e[0] * x.size;
  terms[1] = -e[1] * x.tokens;
  const double g[] = {-x.size, 0, 0, -x.tokens};
  std::copy(g, g + 4, gradient);
}

void tied_terms(const LogInputs& x, const double* e, double* terms, double* gradient) {
  terms[0] = -e[0] * x.size;
  terms[1] = -e[0] * x.tokens;
  gradient[0] = -x.size;
  gradient[1] = -x.tokens;
}

Separable smelt_separable(std::span<const double> k, double sparsity) {
  return {k[0], k[1] * std::pow(1 - sparsity, k[4]), k[3], k[2], k[5]};
}

Separable no_sparsity_separable(std::span<const double> k, double) {
  return {k[0], k[1], k[3], k[2], k[4]};
}

/// A / N^alpha with F = 6 N is A 6^alpha / F^alpha.
Separable chinchilla_separable(std::span<const double> k, double) {
  return {k[0], k[1] * std::pow(6.0, k[3]), k[3], k[2], k[4]};
}

Separable tied_separable(std::span<const double> k, double) {
  return {k[0], k[1] * std::pow(6.0, k[3]), k[3], k[2], k[3]};
}

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

LogInputs log_inputs(const Inputs& inputs) {
  return {std::log(inputs.size), std::log1p(-inputs.sparsity), std::log(inputs.tokens)};
}

std::optional<std::size_t> Form::index(std::string_view coefficient) const {
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    if (coefficients[i] == coefficient) return i;
  }
  return std::nullopt;
}

const std::vector<Form>& all_forms() {
  static const std::vector<Form> forms = {
      {"smelt",
       "L = E + A (1-S)^b / F^a + K / D^c",
       SizeKind::kFlopsPerToken,
       1,
       {"E", "A", "K", "a", "b", "c"},
       2,
       smelt_terms,
       smelt_separable},
      {"smelt-no-sparsity",
       "L = E + A / F^a + K / D^c",
       SizeKind::kFlopsPerToken,
       std::nullopt,
       {"E", "A", "K", "a", "c"},
       2,
       two_term_terms,
       no_sparsity_separable},
      {"chinchilla",
       "L = E + A / N^alpha + B / D^beta",
       SizeKind::kParameters,
       std::nullopt,
       {"E", "A", "B", "alpha", "beta"},
       2,
       two_term_terms,
       chinchilla_separable},
      {"chinchilla-tied",
       "L = E + A / N^alpha + B / D^alpha",
       SizeKind::kParameters,
       std::nullopt,
       {"E", "A", "B", "alpha"},
       2,
       tied_terms,
       tied_separable},
  };
  return forms;
}

std::vector<std::string> form_names() {
  std::vector<std::string> names;
  for (const Form& form : all_forms()) names.push_back(form.name);
  return names;
}

const Form& find_form(std::string_view name) {
  for (const Form& form : all_forms()) {
    if (form.name == name) return form;
  }
  throw Error(
      "law", "unknown form \"" + std::string(name) + "\"; there are " + join_choices(form_names()));
}

double Law::coefficient(std::string_view name) const {
  const auto at = form->index(name);
  if (!at) {
    throw Error("law", "form " + form->name + " has no coefficient \"" + std::string(name) +
                           "\"; there are " + join_choices(form->coefficients));
  }
  return coefficients[*at];
}

double evaluate(const Law& law, const Inputs& inputs) {
  std::vector<double> gradient(law.form->coefficients.size());
  return evaluate(law, inputs, gradient);
}

double evaluate(const Law& law, const Inputs& inputs, std::span<double> gradient) {
  const Form& form = *law.form;
  const std::size_t terms = form.amplitudes, exponents = form.exponents();
  std::vector<double> log_terms(terms), slopes(terms * exponents);
  form.log_terms(log_inputs(inputs), law.coefficients.data() + 1 + terms, log_terms.data(),
                 slopes.data());
  std::fill(gradient.begin(), gradient.end(), 0.0);
  double loss = law.coefficients[0];
  gradient[0] = 1;
  for (std::size_t k = 0; k < terms; ++k) {
    gradient[1 + k] = std::exp(log_terms[k]);
    const double term = law.coefficients[1 + k] * gradient[1 + k];
    loss += term;
    for (std::size_t j = 0; j < exponents; ++j) {
      gradient[1 + terms + j] += term * slopes[k * exponents + j];
    }
  }
  return loss;
}

double compute_of(const Form& form, const Inputs& inputs) {
  return (form.size == SizeKind::kParameters ? 6.0 : 1.0) * inputs.size * inputs.tokens;
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
      law.coefficients.push_back(coefficients.at(key).get<double>());
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
