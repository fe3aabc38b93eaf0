// smelt fit: a scaling law out of a table of endpoints (paper section 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/law/gain.h"

namespace smelt::cli {
namespace {

struct Request {
  std::string file;
  std::string form = "smelt";
  std::string arch;
  std::string group;
  std::vector<std::string> columns;
  bool exclude_controls = false;
  std::int64_t bootstrap = 0;
  law::FitOptions fit;
  law::BootstrapOptions draws;
};

std::string fit_text(const std::string& title, const law::FitResult& result) {
  std::string text = fmt::format("{}{}: {} points, Huber delta {:g} on ln loss\n", title,
                                 result.law.form->equation, result.points, result.delta);
  Table table({"coefficient", "value", "standard error", "interval"});
  const auto is_held = [&](const std::string& name) {
    return std::any_of(result.held.begin(), result.held.end(), [&](const std::string& held) {
      return held.starts_with(name + " =") || held.starts_with(name + "=");
    });
  };
  for (std::size_t i = 0; i < result.law.coefficients.size(); ++i) {
    const std::string& name = result.law.form->coefficients[i];
    const bool drawn = !result.intervals.empty() && result.intervals[i];
    table.add_row(
        {name, fmt::format("{:.6g}", result.law.coefficients[i]),
         is_held(name) ? "held"
         : drawn       ? fmt::format("{:.3g}", result.standard_errors[i])
                       : "",
         drawn && !is_held(name)
             ? fmt::format("{:.4g} … {:.4g}", result.intervals[i]->min, result.intervals[i]->max)
             : ""});
  }
  text += table.text();
  text += fmt::format("objective {:.10g}, rmse {:.5f} nats, {:.0f} % of residuals within delta\n",
                      result.objective, result.rmse, 100 * result.share_inside_delta);
  text += result.status_words + "\n";
  for (const std::string& warning : result.identifiability.warnings) text += "! " + warning + "\n";
  return text;
}

void run(Session& session, const Request& request) {
  const law::Form& form = law::find_form(request.form);
  law::Columns defaults;
  if (form.size == law::SizeKind::kParameters) defaults.size = "params";
  const bool grouped_by_column = !request.group.empty();
  if (grouped_by_column) defaults.group = request.group;
  const law::Columns columns = law::parse_columns(request.columns, defaults);
  law::Endpoints table = law::read_endpoints(request.file, columns);
  if (grouped_by_column) table.csv.column(columns.group);  // throws when it is not there
  std::size_t excluded = 0;
  if (request.exclude_controls) {
    excluded = std::erase_if(table.rows, [](const law::Point& row) { return row.sparsity == 0; });
  }
  std::vector<std::string> groups = table.groups();
  if (!request.arch.empty()) groups = {request.arch};
  const bool one = groups.size() == 1 && !grouped_by_column;
  if (!one && !grouped_by_column && request.arch.empty()) {
    warn(session, fmt::format("column \"{}\" holds {}: one law for each", columns.group,
                              fmt::join(groups, ", ")));
  }
  law::BootstrapOptions draws = request.draws;
  draws.draws = request.bootstrap;
  Json json = {{"schema", "smelt.fit/1"}, {"form", form.name}};
  std::string text;
  if (excluded > 0) text = fmt::format("{} rows with S = 0 left out\n", excluded);
  for (const std::string& group : groups) {
    const law::FitResult result = law::bootstrap_fit(table.points(group), form, request.fit, draws);
    if (one) json = to_json(result);
    if (!one) json["groups"][group] = to_json(result);
    text += fit_text(one ? "" : group + ": ", result) + (one ? "" : "\n");
  }
  if (request.exclude_controls) json["excluded"] = {{"rows", excluded}, {"why", "S = 0"}};
  print_result(session, json, text);
}

}  // namespace

void add_fit(CLI::App& program, Session& session) {
  auto& verb = new_verb(program, session, "fit", "Fit a scaling law to a table of endpoints",
                        "smelt fit endpoints.csv --form smelt --arch smelt --bootstrap 2000");
  auto request = std::make_shared<Request>();
  verb.add_option("ENDPOINTS", request->file, "CSV with a row per finished run")->required();
  verb.add_option("--form", request->form, "law: " + join_choices(law::form_names()))
      ->capture_default_str()
      ->check(CLI::IsMember(law::form_names()));
  verb.add_option(
          "--columns", request->columns,
          "which columns hold what, as N=params,D=tokens,loss=final_loss; keys F, N, S, D, loss, "
          "weight, cell, seed, group")
      ->delimiter(',');
  verb.add_option("--arch", request->arch, "rows of this arm only");
  verb.add_option("--group", request->group, "a law for each value of this column");
  verb.add_flag("--exclude-controls", request->exclude_controls,
                "leave out rows with S = 0, as the paper does");
  verb.add_option("--bootstrap", request->bootstrap, "bootstrap draws for intervals; 0 = none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  add_flags(verb, request->fit);
  verb.add_option("--unit", request->draws.unit, "what a draw resamples")
      ->capture_default_str()
      ->check(CLI::IsMember({"cell", "run", "point"}));
  verb.add_option("--seed", request->draws.seed, "seed of the draws")->capture_default_str();
  verb.add_option("--confidence", request->draws.confidence, "coverage of the intervals")
      ->capture_default_str()
      ->check(CLI::Range(0.5, 0.999));
  verb.add_option("--threads", request->draws.threads,
                  "0 = all cores; the outcome does not depend on it")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  verb.callback([&session, request] { run(session, *request); });
}

}  // namespace smelt::cli
