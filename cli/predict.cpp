// smelt predict: a law's loss at given size, tokens and sparsity, or on its compute-optimal
// frontier.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/law/frontier.h"

namespace smelt::cli {
namespace {

struct Request {
  std::string file, group;
  std::optional<double> flops, params;
  std::vector<double> tokens, compute;
  double sparsity = 0;
  std::optional<double> recurrent, visits, experts;
};

double positive(const char* flag, double value) {
  if (std::isfinite(value) && value > 0) return value;
  throw CLI::ValidationError(flag, "expected a number above 0");
}

Json predictions(const law::Law& law, const Request& request) {
  const bool by_parameters = law.form->size == law::SizeKind::kParameters;
  const auto size = by_parameters ? request.params : request.flops;
  Json points = Json::array();
  if (law.form->size == law::SizeKind::kCompute) {
    for (const double compute : request.compute) {
      const law::Inputs at{.size = positive("--compute", compute)};
      points.push_back({{"compute", compute},
                        {"loss", evaluate(law, at)},
                        {"extrapolated", law.range && !law.range->size.contains(compute)}});
    }
    return points;
  }
  if (!law.form->tokens) {
    if (!size) throw CLI::ValidationError("--params", "needed for form " + law.form->name);
    const law::Inputs at{.size = positive("--params", *size),
                         .experts = request.experts.value_or(1)};
    points.push_back({{"parameters", at.size},
                      {"experts", at.experts},
                      {"loss", evaluate(law, at)},
                      {"extrapolated", law.range && !law.range->size.contains(at.size)}});
    return points;
  }
  if (!request.tokens.empty() && !size) {
    throw CLI::ValidationError(by_parameters ? "--params" : "--flops",
                               "needed with --tokens for form " + law.form->name);
  }
  for (const double tokens : request.tokens) {
    const law::Inputs at{.size = positive(by_parameters ? "--params" : "--flops", *size),
                         .sparsity = request.sparsity,
                         .tokens = positive("--tokens", tokens),
                         .recurrent = request.recurrent.value_or(0),
                         .visits = request.visits.value_or(1)};
    bool outside = false;
    if (law.range) {
      outside = !law.range->size.contains(at.size) || !law.range->tokens.contains(at.tokens) ||
                (law.form->uses_sparsity() && !law.range->sparsity.contains(at.sparsity));
    }
    points.push_back({{by_parameters ? "parameters" : "flops_per_token", at.size},
                      {"tokens", at.tokens},
                      {"sparsity", at.sparsity},
                      {"compute", compute_of(*law.form, at)},
                      {"loss", evaluate(law, at)},
                      {"extrapolated", outside}});
  }
  for (const double compute : request.compute) {
    const law::Frontier best = frontier(law, positive("--compute", compute), request.sparsity);
    points.push_back({{"flops_per_token", best.flops_per_token},
                      {"tokens", best.tokens},
                      {"sparsity", request.sparsity},
                      {"compute", compute},
                      {"loss", best.loss},
                      {"tokens_per_parameter", best.tokens_per_parameter},
                      {"gamma", best.gamma},
                      {"extrapolated", law.range && !law.range->compute.contains(compute)}});
  }
  return points;
}

std::string predict_text(const law::Law& law, const Json& points) {
  Table table({"size", "tokens", "S", "compute", "loss", "tokens per parameter", "note"});
  for (const Json& point : points) {
    const bool best = point.contains("tokens_per_parameter");
    const auto number = [&point](const char* key) { return point.value(key, std::nan("")); };
    const auto si = [](double value) { return std::isfinite(value) ? with_si(value) : ""; };
    const auto plain = [](double value, const char* format) {
      return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "";
    };
    table.add_row({si(number(point.contains("parameters") ? "parameters" : "flops_per_token")),
                   si(number("tokens")), plain(number("sparsity"), "{:g}"),
                   plain(number("compute"), "{:.4g}"), fmt::format("{:.5f}", double(point["loss"])),
                   best ? fmt::format("{:.1f}", double(point["tokens_per_parameter"])) : "",
                   point["extrapolated"] ? "extrapolated"
                   : best                ? "compute-optimal"
                                         : ""});
  }
  return law.form->equation + "\n" + table.text();
}

void run(Session& session, const Request& request) {
  const auto say_where = [] {
    throw CLI::ValidationError("--tokens", "say where: --flops with --tokens, or --compute");
  };
  const bool nowhere = request.tokens.empty() && request.compute.empty();
  if (nowhere && !request.params) say_where();
  const law::Law law = law::read_law(request.file, request.group);
  if (nowhere && law.form->tokens) say_where();
  const auto refuse = [&law](bool given, const char* flag) {
    if (given) throw CLI::ValidationError(flag, "has no part in form " + law.form->name);
  };
  refuse((request.recurrent || request.visits) && !law.form->visits, "--recurrent, --visits");
  refuse(request.experts && !law.form->experts, "--experts");
  refuse(request.sparsity > 0 && !law.form->uses_sparsity(), "--sparsity");
  for (const std::string& fault : law.unidentified) {
    warn(session, "the law is not identifiable: " + fault);
  }
  const Json points = predictions(law, request);
  print_result(session,
               {{"schema", "smelt.predict/1"},
                {"form", law.form->name},
                {"points", points},
                {"unidentified", law.unidentified}},
               predict_text(law, points));
}

}  // namespace

void add_predict(CLI::App& program, Session& session) {
  auto& verb =
      new_verb(program, session, "predict", "A law's loss at given size, tokens and sparsity",
               "smelt predict law.json --flops 1.33e9 --tokens 5e10 --sparsity 0.95\n"
               "  smelt predict law.json --compute 1e21 --sparsity 0.95");
  auto request = std::make_shared<Request>();
  verb.add_option("LAW", request->file, "result of smelt fit --json, or a smelt.law/1 file")
      ->required();
  verb.add_option("--group,--arch", request->group, "which law of a file that holds several");
  verb.add_option("--flops", request->flops, "F, training FLOPs per token");
  verb.add_option("--params", request->params, "N, for forms that count parameters");
  verb.add_option("--tokens", request->tokens, "D, one or several")->delimiter(',');
  verb.add_option("--sparsity", request->sparsity, "S")
      ->capture_default_str()
      ->check(within(0.0, 0.999999));
  verb.add_option("--recurrent", request->recurrent,
                  "N_rec, parameters that run several times, of form recurrence")
      ->check(within(0, 1e30));
  verb.add_option("--visits", request->visits, "r, times that they run")->check(within(1, 1e6));
  verb.add_option("--experts", request->experts, "X, of form saturating-experts")
      ->check(within(1, 1e12));
  verb.add_option("--compute", request->compute,
                  "the frontier at these training FLOPs (form power: the law itself)")
      ->delimiter(',');
  verb.callback([&session, request] { run(session, *request); });
}

}  // namespace smelt::cli
