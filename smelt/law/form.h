// Scaling-law forms by name: equation, coefficients, value, analytic gradient (paper section 6 and
// the forms it is compared with).  A form is one entry of the table in form.cpp.
//
//   const Form& form = find_form("smelt");                      // L = E + A (1-S)^b / F^a + K /
//   D^c Law law{&form, {1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594}}; double loss =
//   evaluate(law, {.size = 1.33e9, .sparsity = 0.95, .tokens = 50e9});
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/json.h"

namespace smelt::law {

/// Where a law is evaluated.
struct Inputs {
  double size = 0;      // F, training FLOPs per token; or N, parameters (see Form::size)
  double sparsity = 0;  // S in [0, 1)
  double tokens = 0;    // D
};

struct LogInputs {
  double size = 0;         // ln F or ln N
  double one_minus_s = 0;  // ln(1 - S)
  double tokens = 0;       // ln D
};
LogInputs log_inputs(const Inputs& inputs);

/// L = E + A / F^a + K / D^c at one sparsity, with F in FLOPs per token: what the frontier needs.
struct Separable {
  double E = 0, A = 0, a = 0, K = 0, c = 0;
};

enum class SizeKind { kFlopsPerToken, kParameters };

/// L = E + sum_k exp(ln amplitude_k + log_term_k(x; exponents)).
struct Form {
  std::string name;
  std::string equation;
  SizeKind size = SizeKind::kFlopsPerToken;
  /// Which exponent acts on 1 - S (it may be negative, the others not); nothing where S does not
  /// enter.
  std::optional<std::size_t> sparsity_exponent;
  std::vector<std::string> coefficients;  // floor E, then the amplitudes, then the exponents
  std::size_t amplitudes = 0;
  /// Values of the log terms, and row-major [amplitude][exponent] their derivatives.
  void (*log_terms)(const LogInputs& x, const double* exponents, double* terms, double* gradient);
  Separable (*separable)(std::span<const double> coefficients, double sparsity);

  bool uses_sparsity() const { return sparsity_exponent.has_value(); }
  std::size_t exponents() const { return coefficients.size() - 1 - amplitudes; }
  std::optional<std::size_t> index(std::string_view coefficient) const;
  const char* size_symbol() const { return size == SizeKind::kParameters ? "N" : "F"; }
};

const std::vector<Form>& all_forms();
std::vector<std::string> form_names();
/// Throws Error listing the forms there are.
const Form& find_form(std::string_view name);

struct Range {
  double min = 0, max = 0;
  bool contains(double value) const { return value >= min && value <= max; }
};

/// What the points behind a law cover; compute is C = F D (or 6 N D).
struct DesignRange {
  Range size, sparsity, tokens, compute;
};

/// A form with numbers; made by fit() or read from a file.
struct Law {
  const Form* form = nullptr;
  std::vector<double> coefficients;  // in the order of form->coefficients
  std::optional<DesignRange> range;  // unknown for a law written by hand
  std::vector<std::string>
      unidentified;  // why the numbers mean nothing outside the points; empty = fine

  double coefficient(std::string_view name) const;
};

double evaluate(const Law& law, const Inputs& inputs);
/// Also d loss / d coefficient, one per coefficient.
double evaluate(const Law& law, const Inputs& inputs, std::span<double> gradient);

/// C = F D, or 6 N D where the form counts parameters.
double compute_of(const Form& form, const Inputs& inputs);

/// Reads "smelt.law/1" {form, coefficients}, which may be written by hand, or a "smelt.fit/1"
/// result (one group of it by name).  Throws Error naming the file and key.
Law law_from_json(const Json& json, std::string_view name, std::string_view group = {});
Law read_law(const std::filesystem::path& file, std::string_view group = {});
Json to_json(const Law& law);

}  // namespace smelt::law
