// smelt fit: a scaling law out of a table of endpoints (paper section 6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/endpoints.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/law/bootstrap.h"
#include "smelt/law/compare.h"
#include "smelt/law/isoflop.h"
#include "smelt/law/score.h"
#include "smelt/law/shared.h"

namespace smelt::cli {
namespace {

struct Request {
  RowFlags rows;
  std::string form = "smelt";
  std::string arch;
  std::string group;
  std::vector<std::string> compare, share;
  std::int64_t bootstrap = 0;
  bool keep_draws = false, isoflop = false;
  std::string score, reference = "baseline";
  law::ScoreKind score_kind = law::ScoreKind::kScore;
  law::FitOptions fit;
  law::BootstrapOptions draws;
};

std::string fit_text(const std::string& title, const law::FitResult& result) {
  const law::FitOptions& options = result.options;
  std::string cost = enum_name(options.loss);
  if (options.loss == law::RobustLoss::kHuber || options.loss == law::RobustLoss::kAsymmetric) {
    cost += fmt::format(" loss, delta {:g},", options.delta);
  }
  std::string text = fmt::format(
      "{}{}: {} points, {} of residuals of {}\n", title, result.law.form->equation, result.points,
      cost, options.residuals == law::Residuals::kLog ? "ln loss" : "the loss");
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
  if (!result.leave_one_out.empty()) {
    text += "largest shift without one unit:";
    for (std::size_t i = 0; i < result.leave_one_out.size(); ++i) {
      text += fmt::format(" {} {:+.3g}", result.law.form->coefficients[i], result.leave_one_out[i]);
    }
    text += '\n';
  }
  text += fmt::format("objective {:.10g}, rmse {:.5f} nats, {:.0f} % of residuals within delta\n",
                      result.objective, result.rmse, 100 * result.share_inside_delta);
  if (!result.standard_error_kind.empty()) {
    text += "standard errors: " + result.standard_error_kind;
    if (!result.interval_kind.empty()) text += "; intervals: " + result.interval_kind;
    text += '\n';
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

std::string isoflop_text(const law::Isoflop& result, const law::Form& form) {
  Table table({"compute", "rows", form.size_symbol(), "best size", "best tokens", "loss", "note"});
  const auto number = [](const std::optional<double>& value) {
    return value ? with_si(*value) : std::string("–");
  };
  for (const law::IsoflopBin& bin : result.bins) {
    table.add_row({fmt::format("{:.3g}", bin.compute), std::to_string(bin.points),
                   with_si(bin.sizes.min) + " … " + with_si(bin.sizes.max), number(bin.size),
                   number(bin.tokens), bin.loss ? fmt::format("{:.4f}", *bin.loss) : "–",
                   bin.words});
  }
  std::string text = "parabolas of the loss in ln " + std::string(form.size_symbol()) +
                     " at equal compute (approach 2)\n" + table.text();
  if (result.size_exponent) {
    text += fmt::format("best {} ~ C^{:.4f}, best D ~ C^{:.4f}", form.size_symbol(),
                        *result.size_exponent, *result.tokens_exponent);
    if (result.exponent_error)
      text += fmt::format(" (standard error {:.4f})", *result.exponent_error);
    text += '\n';
  }
  for (const std::string& line : result.words) text += "! " + line + "\n";
  return text;
}

/// A score in the loss, fitted on one arm; what the other arms score beyond their loss.
void run_score(Session& session, const Request& request, const law::Endpoints& table) {
  const std::size_t column = table.csv.column(request.score);
  const auto of_group = [&](const std::string& group) {
    std::pair<std::vector<double>, std::vector<double>> values;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      if (table.rows[row].group != group) continue;
      values.first.push_back(table.rows[row].loss);
      values.second.push_back(table.csv.number(row, column));
    }
    return values;
  };
  const std::vector<std::string> groups = table.groups();
  const std::string reference = groups.size() == 1 ? groups.front() : request.reference;
  table.points(reference);  // throws when there is none
  const auto [losses, scores] = of_group(reference);
  const law::ScoreFit fit = law::fit_score(losses, scores, request.score_kind);
  Json json = {{"schema", "smelt.score/1"},
               {"score", request.score},
               {"reference", reference},
               {"fit", to_json(fit)}};
  std::string text = fmt::format(
      "{} = {:.6g} + {:.6g} / (1 + exp({}{:.6g} (loss - {:.6g})))\n{} points of {}, R2 {:.4f}, "
      "rmse "
      "{:.4g}\n",
      request.score, fit.b, fit.a, fit.kind == law::ScoreKind::kLoss ? "-" : "", fit.alpha, fit.tau,
      fit.points, reference, fit.r2, fit.rmse);
  for (const std::string& group : groups) {
    if (group == reference) continue;
    const auto [their_losses, their_scores] = of_group(group);
    const law::Beyond other = law::beyond(fit, their_losses, their_scores);
    json["beyond"][group] = to_json(other);
    text += fmt::format("{}: {:+.4g} beyond its loss ({} points", group, other.mean,
                        other.residuals.size());
    if (other.interval) {
      text += fmt::format(", 95 % {:+.4g} to {:+.4g}{}", other.interval->min, other.interval->max,
                          other.interval->contains(0) ? ": within noise" : "");
    }
    text += ")\n";
    if (other.extrapolated > 0) {
      text += fmt::format("! {} of its losses lie outside those of {}\n", other.extrapolated,
                          reference);
    }
  }
  for (const std::string& line : fit.words) text += "! " + line + "\n";
  print_result(session, json, text);
}

/// One result per group; with shared coefficients all at once.
std::vector<law::FitResult> fit_groups(const Request& request, const law::Form& form,
                                       const law::Endpoints& table,
                                       const std::vector<std::string>& groups) {
  law::BootstrapOptions draws = request.draws;
  draws.draws = request.bootstrap;
  if (!request.share.empty()) {
    std::vector<std::pair<std::string, std::vector<law::Point>>> all;
    for (const std::string& group : groups) all.emplace_back(group, table.points(group));
    return law::fit_shared(all, form, request.fit, request.share, draws);
  }
  std::vector<law::FitResult> results;
  for (const std::string& group : groups) {
    results.push_back(law::bootstrap_fit(table.points(group), form, request.fit, draws));
  }
  return results;
}

/// Flags that nothing would read.
void refuse_without_effect(const CLI::App& verb, const Request& request) {
  const auto refuse = [&verb](const char* flag, bool without, const char* why) {
    if (without && verb.get_option(flag)->count() > 0) throw CLI::ValidationError(flag, why);
  };
  const bool drawn = request.bootstrap > 0;
  const bool profile = request.draws.interval == law::Interval::kProfile;
  for (const char* flag : {"--keep-draws", "--seed", "--threads"}) {
    refuse(flag, !drawn && !request.draws.leave_one_out, "needs --bootstrap");
  }
  refuse("--unit", !drawn && !request.draws.leave_one_out, "needs --bootstrap or --leave-one-out");
  refuse("--interval", !drawn && !profile, "percentile and bca need --bootstrap");
  refuse("--bootstrap", profile && drawn, "a profile needs no draws");
  refuse("--leave-one-out", profile, "a profile leaves nothing out");
  refuse("--quantile", request.fit.loss != law::RobustLoss::kAsymmetric, "needs --loss asymmetric");
  refuse("--delta",
         request.fit.loss == law::RobustLoss::kSquared ||
             request.fit.loss == law::RobustLoss::kAbsolute,
         "a squared or absolute loss has none");
}

void run(Session& session, const Request& request) {
  const law::Form& form = law::find_form(request.form);
  const bool grouped_by_column = !request.group.empty();
  const Csv rows = request.rows.read();
  const law::Columns columns = columns_for(session, rows, form, request.rows, request.group);
  const Selection selection = select_rows(rows, request.rows, columns);
  const law::Endpoints& table = selection.kept;
  if (grouped_by_column) table.csv.column(columns.group);  // throws when it is not there
  std::vector<std::string> groups = table.groups();
  if (!request.score.empty()) return run_score(session, request, table);
  if (!request.arch.empty()) groups = {request.arch};
  const bool one = groups.size() == 1 && !grouped_by_column;
  if (!one && !grouped_by_column && request.arch.empty()) {
    warn(session, fmt::format("column \"{}\" holds {}: one law for each", columns.group,
                              fmt::join(groups, ", ")));
  }
  const std::vector<law::FitResult> results = fit_groups(request, form, table, groups);
  Json json = {{"schema", "smelt.fit/1"}, {"form", form.name}};
  std::string text = selection.text;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string& group = groups[g];
    const std::string title = one ? "" : group + ": ";
    const law::FitResult& result = results[g];
    Json found = to_json(result, request.keep_draws);
    text += fit_text(title, result);
    add_with_excluded(request, selection, group, form, found, text);
    if (!request.compare.empty()) {
      std::vector<law::Candidate> candidates;
      for (const std::string& name : request.compare) {
        const law::Form& other = law::find_form(name);
        const law::Columns own = columns_for(session, rows, other, request.rows, request.group);
        candidates.push_back({&other, select_rows(rows, request.rows, own).kept.points(group)});
      }
      const law::Comparison comparison = law::compare(candidates, request.fit);
      found["comparison"] = to_json(comparison);
      text += "\n" + comparison_text(title, comparison);
    }
    if (request.isoflop) {
      const law::Isoflop parabolas = law::isoflop(table.points(group), form);
      found["isoflop"] = to_json(parabolas);
      text += "\n" + title + isoflop_text(parabolas, form);
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
                        "  smelt fit runs.csv --form chinchilla --interval profile --isoflop\n"
                        "  smelt fit endpoints.csv --score core --reference baseline\n"
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
  verb.add_option("--share", request->share,
                  "one fit of all groups in which these coefficients are equal")
      ->delimiter(',');
  verb.add_flag("--keep-draws", request->keep_draws,
                "keep the drawn coefficients in the JSON, for the intervals of smelt gain");
  verb.add_flag("--isoflop", request->isoflop,
                "beside the law: parabolas at equal compute, and how their minima grow");
  CLI::Option* score = verb.add_option(
      "--score", request->score,
      "no law, but this column in the loss: a sigmoid on the reference arm, and what other arms "
      "score beyond their loss");
  verb.add_option_function<std::string>(
          "--score-kind",
          [request](const std::string& name) {
            request->score_kind = *enum_from<law::ScoreKind>(name);
          },
          "whether a high score is good, or it is a loss")
      ->check(CLI::IsMember(enum_choices<law::ScoreKind>()))
      ->default_str("score")
      ->needs(score);
  verb.add_option("--reference", request->reference, "arm that --score is fitted on")
      ->capture_default_str()
      ->needs(score);
  add_flags(verb, request->fit);
  add_flags(verb, request->draws, "Options",
            [](std::string_view field) { return field == "draws"; });
  verb.callback([&session, request, &verb] {
    refuse_without_effect(verb, *request);
    run(session, *request);
  });
}

}  // namespace smelt::cli
