// smelt fit: a scaling law out of a table of endpoints (paper section 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/endpoints.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/law/compare.h"
#include "smelt/law/gain.h"

namespace smelt::cli {
namespace {

struct Request {
  RowFlags rows;
  std::string form = "smelt";
  std::string arch;
  std::string group;
  std::vector<std::string> compare;
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
         : !result.standard_errors.empty() && std::isfinite(result.standard_errors[i])
             ? fmt::format("{:.3g}", result.standard_errors[i])
             : "",
         drawn && !is_held(name)
             ? fmt::format("{:.4g} … {:.4g}", result.intervals[i]->min, result.intervals[i]->max)
             : ""});
  }
  text += table.text();
  text += fmt::format("objective {:.10g}, rmse {:.5f} nats, {:.0f} % of residuals within delta\n",
                      result.objective, result.rmse, 100 * result.share_inside_delta);
  if (!result.standard_error_kind.empty()) {
    text += "standard errors: " + result.standard_error_kind + "\n";
  }
  text += result.status_words + "\n";
  for (const std::string& warning : result.identifiability.warnings) text += "! " + warning + "\n";
  for (const std::string& line : result.diagnostics.words) text += "! " + line + "\n";
  return text;
}

std::string comparison_text(const std::string& title, const law::Comparison& comparison) {
  Table table({"form", "coefficients", "AICc", "BIC", "weight", "rmse", "cells out", "largest D",
               "largest size", "largest compute"});
  const auto number = [](const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string("–");
  };
  for (const law::FormScore& s : comparison.scores) {
    table.add_row({s.form->name, std::to_string(s.coefficients), number(s.aicc, 2),
                   number(s.bic, 2), number(s.weight, 3), fmt::format("{:.5f}", s.rmse),
                   number(s.cross_validated, 5), number(s.rollout_tokens, 5),
                   number(s.rollout_size, 5), number(s.rollout_compute, 5)});
  }
  std::string text = title +
                     "errors are root mean squares of ln loss; the last four on rows that "
                     "the fit did not see\n" +
                     table.text();
  for (const std::string& line : comparison.words) text += "! " + line + "\n";
  for (const law::FormScore& s : comparison.scores) {
    if (!s.identifiable) text += "! " + s.form->name + ": " + s.words + "\n";
  }
  return text;
}

/// The same fit over all rows, so that what was left out can be judged.
void add_with_excluded(const Request& request, const Selection& selection, const std::string& group,
                       const law::Form& form, Json& json, std::string& text) {
  if (selection.excluded.empty() || selection.all.rows.empty()) return;
  const law::FitResult all = law::fit(selection.all.points(group), form, request.fit);
  json["with_excluded"] = {{"points", all.points}, {"coefficients", to_json(all)["coefficients"]}};
  text += fmt::format("with what was left out ({} points):", all.points);
  for (std::size_t i = 0; i < all.law.coefficients.size(); ++i) {
    text += fmt::format(" {} {:.6g}", form.coefficients[i], all.law.coefficients[i]);
  }
  text += '\n';
}

void run(Session& session, const Request& request) {
  const law::Form& form = law::find_form(request.form);
  const bool grouped_by_column = !request.group.empty();
  const law::Columns columns = columns_for(form, request.rows, request.group);
  const Csv rows = request.rows.read();
  const Selection selection = select_rows(rows, request.rows, columns);
  const law::Endpoints& table = selection.kept;
  if (grouped_by_column) table.csv.column(columns.group);  // throws when it is not there
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
  std::string text = selection.text;
  for (const std::string& group : groups) {
    const std::string title = one ? "" : group + ": ";
    const law::FitResult result = law::bootstrap_fit(table.points(group), form, request.fit, draws);
    Json found = to_json(result);
    text += fit_text(title, result);
    add_with_excluded(request, selection, group, form, found, text);
    if (!request.compare.empty()) {
      std::vector<law::Candidate> candidates;
      for (const std::string& name : request.compare) {
        const law::Form& other = law::find_form(name);
        const law::Columns own = columns_for(other, request.rows, request.group);
        candidates.push_back({&other, select_rows(rows, request.rows, own).kept.points(group)});
      }
      const law::Comparison comparison = law::compare(candidates, request.fit);
      found["comparison"] = to_json(comparison);
      text += "\n" + comparison_text(title, comparison);
    }
    if (one) {
      json = found;
    } else {
      json["groups"][group] = found;
      text += '\n';
    }
  }
  if (!selection.excluded.empty()) json["excluded"] = selection.excluded;
  print_result(session, json, text);
}

}  // namespace

void add_fit(CLI::App& program, Session& session) {
  auto& verb = new_verb(program, session, "fit", "Fit a scaling law to a table of endpoints",
                        "smelt fit endpoints.csv --form smelt --arch smelt --bootstrap 2000\n"
                        "  smelt fit a.csv b.jsonl --where 'tokens >= 1e9' --compare "
                        "smelt,smelt-no-sparsity");
  auto request = std::make_shared<Request>();
  verb.add_option("ENDPOINTS", request->rows.files,
                  "CSV, JSON or JSON lines with a row per finished run; several are read as one")
      ->required();
  verb.add_option("--form", request->form, "law: " + join_choices(law::form_names()))
      ->capture_default_str()
      ->check(CLI::IsMember(law::form_names()));
  add_row_flags(verb, request->rows);
  verb.add_option("--arch", request->arch, "rows of this arm only");
  verb.add_option("--group", request->group, "a law for each value of this column");
  verb.add_option("--compare", request->compare,
                  "these forms beside each other: AICc, BIC, error on cells and horizons left out")
      ->delimiter(',')
      ->check(CLI::IsMember(law::form_names()));
  verb.add_option("--bootstrap", request->bootstrap, "bootstrap draws for intervals; 0 = none")
      ->capture_default_str()
      ->check(within(0, 1000000));
  add_flags(verb, request->fit);
  add_flags(verb, request->draws, "Options",
            [](std::string_view field) { return field == "draws"; });
  verb.callback([&session, request] { run(session, *request); });
}

}  // namespace smelt::cli
