#include "smelt/law/form.h"

#include <algorithm>
#include <cmath>

#include "smelt/core/error.h"

namespace smelt::law {
namespace {

// Each form's log terms are written out below; `d` is their gradient, `dd` the second derivatives.

void smelt_terms(const LogInputs& x, const double* e, double* terms, double* d, double*) {
  terms[0] = -e[0] * x.size + e[1] * x.one_minus_s;
  terms[1] = -e[2] * x.tokens;
  const double gradient[] = {-x.size, x.one_minus_s, 0, 0, 0, -x.tokens};
  std::copy(std::begin(gradient), std::end(gradient), d);
}

void two_term_terms(const LogInputs& x, const double* e, double* terms, double* d, double*) {
  terms[0] = -e[0] * x.size;
  terms[1] = -e[1] * x.tokens;
  const double gradient[] = {-x.size, 0, 0, -x.tokens};
  std::copy(std::begin(gradient), std::end(gradient), d);
}

void tied_terms(const LogInputs& x, const double* e, double* terms, double* d, double*) {
  terms[0] = -e[0] * x.size;
  terms[1] = -e[0] * x.tokens;
  d[0] = -x.size;
  d[1] = -x.tokens;
}

void power_terms(const LogInputs& x, const double* e, double* terms, double* d, double*) {
  terms[0] = -e[0] * x.size;
  d[0] = -x.size;
}

/// −α ln(N + r^φ N_rec), −β ln D; shape α, β, φ.
void recurrence_terms(const LogInputs& x, const double* e, double* terms, double* d, double* dd) {
  const double looped = x.recurrent + e[2] * x.visits;
  const double top = std::max(x.size, looped);
  const double size = top + std::log(std::exp(x.size - top) + std::exp(looped - top));
  const double share = std::exp(looped - size);  // of the looped part
  const double slope = share * x.visits;         // d size / d φ
  terms[0] = -e[0] * size;
  terms[1] = -e[1] * x.tokens;
  const double gradient[] = {-size, 0, -e[0] * slope, 0, -x.tokens, 0};
  std::copy(std::begin(gradient), std::end(gradient), d);
  if (!dd) return;
  std::fill(dd, dd + 18, 0.0);
  dd[2] = dd[6] = -slope;                                     // α, φ
  dd[8] = -e[0] * share * (1 - share) * x.visits * x.visits;  // φ, φ
}

/// β ln(ρ N^(−α/β) + 1/D); shape ln ρ, α, β.
void coupled_terms(const LogInputs& x, const double* e, double* terms, double* d, double* dd) {
  const double alpha = e[1], beta = e[2], n = x.size;
  const double first = e[0] - alpha / beta * n, second = -x.tokens, top = std::max(first, second);
  const double sum = top + std::log(std::exp(first - top) + std::exp(second - top));
  const double p = std::exp(first - sum), pp = p * (1 - p), step = alpha * n / (beta * beta);
  terms[0] = beta * sum;
  d[0] = beta * p;
  d[1] = -p * n;
  d[2] = sum + p * alpha * n / beta;
  if (!dd) return;
  dd[0] = beta * pp;
  dd[1] = dd[3] = -pp * n;
  dd[2] = dd[6] = p + beta * pp * step;
  dd[4] = pp * n * n / beta;
  dd[5] = dd[7] = -pp * n * step;
  dd[8] = beta * pp * step * step;
}

/// a ln N + b ln Ê + c ln N ln Ê with Ê = 1 / (1 / (X − 1 + G) + 1 / X_max); shape a, b, c, ln G,
/// ln X_max.
void saturating_terms(const LogInputs& x, const double* e, double* terms, double* d, double* dd) {
  const double n = x.size, g = std::exp(e[3]);
  const double p = 1 / (x.experts - 1 + g), q = std::exp(-e[4]), sum = p + q;
  const double log_e = -std::log(sum), lever = e[1] + e[2] * n;
  const double by_g = p * p * g / sum, by_max = q / sum;  // d ln Ê
  terms[0] = e[0] * n + lever * log_e;
  d[0] = n;
  d[1] = log_e;
  d[2] = n * log_e;
  d[3] = lever * by_g;
  d[4] = lever * by_max;
  if (!dd) return;
  std::fill(dd, dd + 25, 0.0);
  const auto set = [dd](int i, int j, double value) { dd[5 * i + j] = dd[5 * j + i] = value; };
  set(1, 3, by_g);
  set(1, 4, by_max);
  set(2, 3, n * by_g);
  set(2, 4, n * by_max);
  set(3, 3, lever * (by_g - 2 * p * g * by_g + by_g * by_g));
  set(3, 4, lever * by_g * by_max);
  set(4, 4, lever * (by_max * by_max - by_max));
}

/// A^(α/β) = ρ K^(1/β) N_c^(α/β), B = K^(1/β) D_c.
void coupled_coefficients(const double* u, const LogInputs& centre, double* k) {
  const double alpha = u[3], beta = u[4], root = u[1] / beta;
  k[0] = u[0];
  k[1] = std::exp(beta / alpha * (root + u[2]) + centre.size);
  k[2] = std::exp(root + centre.tokens);
  k[3] = alpha;
  k[4] = beta;
}

void coupled_unknowns(const double* k, double* u, double* jacobian) {
  const double log_a = std::log(k[1]), log_b = std::log(k[2]), alpha = k[3], beta = k[4];
  u[0] = k[0];
  u[1] = beta * log_b;
  u[2] = alpha / beta * log_a - log_b;
  u[3] = alpha;
  u[4] = beta;
  if (!jacobian) return;
  const double rows[] = {1,
                         0,
                         0,
                         0,
                         0,  //
                         0,
                         0,
                         beta / k[2],
                         0,
                         log_b,  //
                         0,
                         alpha / beta / k[1],
                         -1 / k[2],
                         log_a / beta,
                         -alpha * log_a / (beta * beta),  //
                         0,
                         0,
                         0,
                         1,
                         0,  //
                         0,
                         0,
                         0,
                         0,
                         1};
  std::copy(std::begin(rows), std::end(rows), jacobian);
}

/// a, b, c, d, X_start, X_max; with ln N relative to the centre, b and d move.
void saturating_coefficients(const double* u, const LogInputs& centre, double* k) {
  k[0] = u[2];
  k[1] = u[3] - u[4] * centre.size;
  k[2] = u[4];
  k[3] = u[1] - u[2] * centre.size;
  k[4] = 1 / (std::exp(-u[5]) + std::exp(-u[6]));
  k[5] = std::exp(u[6]);
}

void saturating_unknowns(const double* k, double* u, double* jacobian) {
  const double g = 1 / (1 / k[4] - 1 / k[5]);
  u[0] = 0;
  u[1] = k[3];
  u[2] = k[0];
  u[3] = k[1];
  u[4] = k[2];
  u[5] = std::log(g);
  u[6] = std::log(k[5]);
  if (!jacobian) return;
  std::fill(jacobian, jacobian + 42, 0.0);
  jacobian[6 * 1 + 3] = jacobian[6 * 2 + 0] = jacobian[6 * 3 + 1] = jacobian[6 * 4 + 2] = 1;
  jacobian[6 * 5 + 4] = g / (k[4] * k[4]);
  jacobian[6 * 5 + 5] = -g / (k[5] * k[5]);
  jacobian[6 * 6 + 5] = 1 / k[5];
}

/// min E + A / F^a + K / D^c at C = F D:  F = (a A C^c / (c K))^(1/(a+c)).
Optimum separable_optimum(double E, double A, double a, double K, double c, double log_compute) {
  // In logarithms: C^c alone overflows nothing, but amplitudes of steep fits may.
  const double log_size = (std::log(a * A) + c * log_compute - std::log(c) - std::log(K)) / (a + c);
  const double excess =
      std::exp(std::log(A) - a * log_size) + std::exp(std::log(K) - c * (log_compute - log_size));
  return {E, excess, a * c / (a + c), log_size};
}

Optimum smelt_optimum(std::span<const double> k, double sparsity, double log_compute) {
  return separable_optimum(k[0], k[1] * std::pow(1 - sparsity, k[4]), k[3], k[2], k[5],
                           log_compute);
}

Optimum no_sparsity_optimum(std::span<const double> k, double, double log_compute) {
  return separable_optimum(k[0], k[1], k[3], k[2], k[4], log_compute);
}

/// A / N^alpha with F = 6 N is A 6^alpha / F^alpha.
Optimum chinchilla_optimum(std::span<const double> k, double, double log_compute) {
  return separable_optimum(k[0], k[1] * std::pow(6.0, k[3]), k[3], k[2], k[4], log_compute);
}

Optimum tied_optimum(std::span<const double> k, double, double log_compute) {
  return separable_optimum(k[0], k[1] * std::pow(6.0, k[3]), k[3], k[2], k[3], log_compute);
}

/// min (A/N)^p + 6 B N / C with p = alpha / beta:  N = (p A^p C / (6 B))^(1/(1+p)).
Optimum coupled_optimum(std::span<const double> k, double, double log_compute) {
  const double p = k[3] / k[4], log_a = p * std::log(k[1]),
               log_b = std::log(6 * k[2]) - log_compute;
  const double log_size = (std::log(p) + log_a - log_b) / (1 + p);
  const double inner = std::exp(log_a - p * log_size) + std::exp(log_b + log_size);
  return {k[0], std::pow(inner, k[4]), k[3] * k[4] / (k[3] + k[4]), log_size + std::log(6.0)};
}

Shape exponent() {
  return {0, 12, {0.08, 0.2, 0.35, 0.6, 1.0}};
}

std::vector<Form> make_forms() {
  const char* paper = "2609.01343 section 6";
  std::vector<Form> forms;
  forms.push_back({.name = "smelt",
                   .equation = "L = E + A (1-S)^b / F^a + K / D^c",
                   .source = paper,
                   .size = SizeKind::kFlopsPerToken,
                   .coefficients = {"E", "A", "K", "a", "b", "c"},
                   .amplitudes = 2,
                   .shape = {exponent(), {-12, 12, {-0.2, 0.1, 0.3, 0.8}}, exponent()},
                   .terms = {"A (1-S)^b / F^a", "K / D^c"},
                   .axes = {"F", "D"},
                   .sparsity_exponent = 1,
                   .log_terms = smelt_terms,
                   .optimum = smelt_optimum});
  forms.push_back({.name = "smelt-no-sparsity",
                   .equation = "L = E + A / F^a + K / D^c",
                   .source = paper,
                   .size = SizeKind::kFlopsPerToken,
                   .coefficients = {"E", "A", "K", "a", "c"},
                   .amplitudes = 2,
                   .shape = {exponent(), exponent()},
                   .terms = {"A / F^a", "K / D^c"},
                   .axes = {"F", "D"},
                   .log_terms = two_term_terms,
                   .optimum = no_sparsity_optimum});
  forms.push_back({.name = "chinchilla",
                   .equation = "L = E + A / N^alpha + B / D^beta",
                   .source = "2203.15556 equation 10",
                   .size = SizeKind::kParameters,
                   .coefficients = {"E", "A", "B", "alpha", "beta"},
                   .amplitudes = 2,
                   .shape = {exponent(), exponent()},
                   .terms = {"A / N^alpha", "B / D^beta"},
                   .axes = {"N", "D"},
                   .log_terms = two_term_terms,
                   .optimum = chinchilla_optimum});
  forms.push_back({.name = "chinchilla-tied",
                   .equation = "L = E + A / N^alpha + B / D^alpha",
                   .source = "2203.15556 equation 10, beta = alpha",
                   .size = SizeKind::kParameters,
                   .coefficients = {"E", "A", "B", "alpha"},
                   .amplitudes = 2,
                   .shape = {exponent()},
                   .terms = {"A / N^alpha", "B / D^alpha"},
                   .axes = {"N", "D"},
                   .log_terms = tied_terms,
                   .optimum = tied_optimum});
  forms.push_back({.name = "recurrence",
                   .equation = "L = E + A (N + r^phi N_rec)^-alpha + B / D^beta",
                   .source = "2604.21106",
                   .size = SizeKind::kParameters,
                   .coefficients = {"E", "A", "B", "alpha", "beta", "phi"},
                   .amplitudes = 2,
                   .shape = {exponent(), exponent(), {-4, 4, {0, 0.4, 0.8}}},
                   .terms = {"A (N + r^phi N_rec)^-alpha", "B / D^beta"},
                   .axes = {"N", "D"},
                   .visits = true,
                   .curved = true,
                   .log_terms = recurrence_terms});
  forms.push_back({.name = "saturating-experts",
                   .equation =
                       "ln L = a ln N + b ln X^ + c ln N ln X^ + d, 1/X^ = 1/(X - 1 + 1/(1/X_start "
                       "- 1/X_max)) + 1/X_max",
                   .source = "2202.01169",
                   .size = SizeKind::kParameters,
                   .coefficients = {"a", "b", "c", "d", "X_start", "X_max"},
                   .unknown_names = {"-", "d*", "a", "b*", "c", "X_start*", "X_max*"},
                   .amplitudes = 1,
                   .shape = {{-12, 12, {-0.2, -0.1, -0.05}},
                             {-12, 12, {-0.1, -0.05, -0.02}},
                             {-12, 12, {0, 0.01}},
                             {-7, 12, {0, 2}},
                             {0, 23, {3.5, 5.5, 8}}},
                   .terms = {"exp(d) N^a X^(b + c ln N)"},
                   .axes = {"N"},
                   .floor = false,
                   .tokens = false,
                   .experts = true,
                   .curved = true,
                   .log_terms = saturating_terms,
                   .to_coefficients = saturating_coefficients,
                   .to_unknowns = saturating_unknowns});
  forms.push_back({.name = "coupled",
                   .equation = "L = E + ((A/N)^(alpha/beta) + B/D)^beta",
                   .source = "2001.08361 equation 1.5, with a floor",
                   .size = SizeKind::kParameters,
                   .coefficients = {"E", "A", "B", "alpha", "beta"},
                   .unknown_names = {"E", "B*", "A*", "alpha", "beta"},
                   .amplitudes = 1,
                   .shape = {{-30, 30, {-2, 0, 2}},
                             {1e-3, 12, {0.08, 0.2, 0.35, 0.6}},
                             {1e-3, 12, {0.1, 0.3, 0.6, 1.0}}},
                   .terms = {"((A/N)^(alpha/beta) + B/D)^beta"},
                   .axes = {"N and D"},
                   .curved = true,
                   .log_terms = coupled_terms,
                   .to_coefficients = coupled_coefficients,
                   .to_unknowns = coupled_unknowns,
                   .optimum = coupled_optimum});
  forms.push_back({.name = "power",
                   .equation = "L = E + A / C^gamma",
                   .source = "one variable",
                   .size = SizeKind::kCompute,
                   .coefficients = {"E", "A", "gamma"},
                   .amplitudes = 1,
                   .shape = {{0, 12, {0.03, 0.08, 0.15, 0.3, 0.5, 0.8, 1.2, 2, 3}}},
                   .terms = {"A / C^gamma"},
                   .axes = {"C"},
                   .tokens = false,
                   .log_terms = power_terms});
  return forms;
}

constexpr std::size_t kMost = 8;  // unknowns of any form

}  // namespace

LogInputs log_inputs(const Inputs& inputs) {
  return {std::log(inputs.size),      std::log1p(-inputs.sparsity), std::log(inputs.tokens),
          std::log(inputs.recurrent), std::log(inputs.visits),      inputs.experts};
}

LogInputs relative(const LogInputs& x, const LogInputs& centre) {
  return {x.size - centre.size,
          x.one_minus_s - centre.one_minus_s,
          x.tokens - centre.tokens,
          x.recurrent - centre.size,
          x.visits,
          x.experts};
}

std::optional<std::size_t> Form::index(std::string_view coefficient) const {
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    if (coefficients[i] == coefficient) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> Form::unknown_of(std::size_t coefficient) const {
  if (unknown_names.empty()) return coefficient;
  const auto found =
      std::find(unknown_names.begin(), unknown_names.end(), coefficients[coefficient]);
  if (found == unknown_names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - unknown_names.begin());
}

std::string Form::unknown_name(std::size_t unknown) const {
  const std::string& own = unknown_names.empty() ? coefficients[unknown] : unknown_names[unknown];
  return own.substr(0, own.find('*'));
}

const char* Form::size_symbol() const {
  switch (size) {
    case SizeKind::kParameters:
      return "N";
    case SizeKind::kCompute:
      return "C";
    case SizeKind::kFlopsPerToken:
      break;
  }
  return "F";
}

const std::vector<Form>& all_forms() {
  static const std::vector<Form> forms = make_forms();
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

double evaluate(const Law& law, const Inputs& inputs) {
  double gradient[kMost];
  return evaluate(law, inputs, {gradient, law.coefficients.size()});
}

double evaluate(const Law& law, const Inputs& inputs, std::span<double> gradient) {
  const Form& form = *law.form;
  const std::size_t terms = form.amplitudes, shapes = form.shape.size(),
                    p = law.coefficients.size();
  double unknowns[kMost], jacobian[kMost * kMost], values[kMost], slopes[kMost * kMost];
  const double* shape = law.coefficients.data() + 1 + terms;
  if (form.to_unknowns) {
    form.to_unknowns(law.coefficients.data(), unknowns, jacobian);
    shape = unknowns + 1 + terms;
  }
  form.log_terms(log_inputs(inputs), shape, values, slopes, nullptr);
  double by_unknown[kMost] = {1};  // d loss / d [E, amplitude or its logarithm, shape]
  double loss = form.to_unknowns ? unknowns[0] : law.coefficients[0];
  for (std::size_t k = 0; k < terms; ++k) {
    const double unit = std::exp(values[k] + (form.to_unknowns ? unknowns[1 + k] : 0));
    const double term = form.to_unknowns ? unit : law.coefficients[1 + k] * unit;
    by_unknown[1 + k] = unit;
    loss += term;
    for (std::size_t j = 0; j < shapes; ++j) {
      by_unknown[1 + terms + j] += term * slopes[k * shapes + j];
    }
  }
  for (std::size_t c = 0; c < p; ++c) {
    gradient[c] = form.to_unknowns ? 0 : by_unknown[c];
    for (std::size_t u = 0; form.to_unknowns && u < form.unknowns(); ++u) {
      gradient[c] += by_unknown[u] * jacobian[u * p + c];
    }
  }
  return loss;
}

double compute_of(const Form& form, const Inputs& inputs) {
  switch (form.size) {
    case SizeKind::kCompute:
      return inputs.size;
    case SizeKind::kParameters:
      return 6 * (inputs.size + (form.visits ? inputs.visits * inputs.recurrent : 0)) *
             inputs.tokens;
    case SizeKind::kFlopsPerToken:
      break;
  }
  return inputs.size * inputs.tokens;
}

}  // namespace smelt::law
