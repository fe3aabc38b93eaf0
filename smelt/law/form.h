// Scaling-law forms by name: equation, coefficients, value, analytic gradient (paper section 6 and
// the forms it is compared with).  A form is one entry of the table in form.cpp.
//
//   const Form& form = find_form("smelt");            // L = E + A (1-S)^b / F^a + K / D^c
//   Law law{&form, {1.4439, 1.366e3, 1.975e6, 0.3703, 0.1530, 0.6594}};
//   double loss = evaluate(law, {.size = 1.33e9, .sparsity = 0.95, .tokens = 50e9});
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/core/json.h"

namespace smelt::law {

/// Where a law is evaluated; a form reads what it needs.
struct Inputs {
  double size = 0;       // F, training FLOPs per token; N, parameters; or C, FLOPs (Form::size)
  double sparsity = 0;   // S in [0, 1)
  double tokens = 1;     // D
  double recurrent = 0;  // N_rec, parameters that run `visits` times (N is those that run once)
  double visits = 1;     // r
  double experts = 1;    // X
};

struct LogInputs {
  double size = 0;         // ln F, ln N or ln C
  double one_minus_s = 0;  // ln(1 - S)
  double tokens = 0;       // ln D
  double recurrent = 0;    // ln N_rec; minus infinity for none
  double visits = 0;       // ln r
  double experts = 1;      // X itself
};
LogInputs log_inputs(const Inputs& inputs);
/// Where power laws meet the axes: size, 1 - S, tokens and N_rec by the centre's.
LogInputs relative(const LogInputs& x, const LogInputs& centre);

/// The least loss that a compute reaches: E + excess, and excess falls as C^-gamma.
struct Optimum {
  double E = 0, excess = 0, gamma = 0;
  double log_flops_per_token = 0;  // of the best size
};

enum class SizeKind { kFlopsPerToken, kParameters, kCompute };

/// A parameter inside the terms: an exponent, mostly.
struct Shape {
  double low = 0, high = 12;  // where it may end
  std::vector<double> grid;   // where the search for starts looks
};

/// L = E + sum_k exp(ln amplitude_k + log_term_k(x; shape)).  The unknowns of a fit are E, the log
/// amplitudes at the data centre and the shape; the coefficients are what people print.
struct Form {
  std::string name;
  std::string equation;
  std::string source;
  SizeKind size = SizeKind::kFlopsPerToken;
  std::vector<std::string> coefficients;
  /// [E, amplitudes, shape] by name; one that is not a coefficient but enters several has a star.
  /// Empty: they are the coefficients.
  std::vector<std::string> unknown_names = {};
  std::size_t amplitudes = 0;
  std::vector<Shape> shape;
  std::vector<std::string> terms;  // each in words, "K / D^c"
  std::vector<std::string> axes;   // what each falls with, "D"
  /// Which shape parameter acts on 1 - S; nothing where S does not enter.
  std::optional<std::size_t> sparsity_exponent = std::nullopt;
  bool floor = true;     // E is a coefficient, the first; else it is 0
  bool tokens = true;    // D enters
  bool visits = false;   // N_rec and r enter
  bool experts = false;  // X enters
  bool curved = false;   // log terms have second derivatives in the shape

  /// Values of the log terms, row-major [amplitude][shape] their derivatives, and where `second` is
  /// not null [amplitude][shape][shape] the second ones.
  void (*log_terms)(const LogInputs& x, const double* shape, double* values, double* gradient,
                    double* second) = nullptr;
  /// Null: coefficients are E, the amplitudes and the shape.  Else coefficients ↔ unknowns [E, ln
  /// amplitude at `centre`, shape] there and (centre 0) back; `jacobian`, where not null, is
  /// row-major d unknown / d coefficient.
  void (*to_coefficients)(const double* unknowns, const LogInputs& centre,
                          double* coefficients) = nullptr;
  void (*to_unknowns)(const double* coefficients, double* unknowns, double* jacobian) = nullptr;
  /// Null where the size alone does not say what a token costs.
  Optimum (*optimum)(std::span<const double> coefficients, double sparsity,
                     double log_compute) = nullptr;

  bool uses_sparsity() const { return sparsity_exponent.has_value(); }
  std::size_t unknowns() const { return 1 + amplitudes + shape.size(); }
  std::optional<std::size_t> index(std::string_view coefficient) const;
  /// The unknown that a coefficient is (its logarithm, of an amplitude); nothing where several make
  /// it up.
  std::optional<std::size_t> unknown_of(std::size_t coefficient) const;
  /// The coefficient that an unknown is, or mostly goes into.
  std::string unknown_name(std::size_t unknown) const;
  const char* size_symbol() const;
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

/// C = F D, 6 N D, 6 (N + r N_rec) D, or C itself, by what the form counts.
double compute_of(const Form& form, const Inputs& inputs);

/// Reads "smelt.law/1" {form, coefficients}, which may be written by hand, or a "smelt.fit/1"
/// result (one group of it by name).  Throws Error naming the file and key.
Law law_from_json(const Json& json, std::string_view name, std::string_view group = {});
Law read_law(const std::filesystem::path& file, std::string_view group = {});
Json to_json(const Law& law);

}  // namespace smelt::law
