// smelt gain: the compute one arm saves against another at equal loss, CE Gain (paper section 6).
#include <fmt/format.h>

#include <memory>

#include "cli/endpoints.h"
#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/law/gain.h"
#include "smelt/law/loss_gap.h"

namespace smelt::cli {
namespace {

struct Request {
  RowFlags rows;
  std::string reference = "baseline", target = "smelt";
  std::string form = "smelt";
  std::vector<double> compute, sparsity;
  law::FitOptions fit;
  law::BootstrapOptions bootstrap;
};

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", 100 * *value) : "–";
}

std::string percent(const std::optional<law::Range>& range) {
  return range ? fmt::format("{:.1f} … {:.1f} %", 100 * range->min, 100 * range->max) : "–";
}

std::string gain_text(const law::GainResult& result) {
  Table table(
      {"compute", "S", "CE Gain", "interval", "loss gap", "TPP reference", "TPP target", "note"});
  const auto number = [](const std::optional<double>& value, int digits) {
    return value ? fmt::format("{:.{}f}", *value, digits) : std::string("–");
  };
  for (const law::GainPoint& point : result.points) {
    table.add_row({fmt::format("{:.4g}", point.compute), fmt::format("{:g}", point.sparsity),
                   percent(point.gain), percent(point.interval), number(point.loss_gap, 4),
                   number(point.tpp_reference, 0), number(point.tpp_target, 0), point.words});
  }
  std::string text = table.text();
  for (const std::string& warning : result.warnings) text += "! " + warning + "\n";
  return text;
}

/// What the pairs say by themselves, where both arms have the same cells, tokens and seeds.
std::optional<law::LossGap> paired_gap(const std::vector<law::Point>& reference,
                                       const std::vector<law::Point>& target, double confidence) {
  try {
    return law::loss_gap(reference, target, confidence);
  } catch (const Error&) {
    return std::nullopt;  // rows that do not pair are no fault here
  }
}

void run(Session& session, const Request& request) {
  law::GainOptions options;
  options.compute = request.compute;
  options.sparsity = request.sparsity;
  options.fit = request.fit;
  options.bootstrap = request.bootstrap;
  if (request.rows.files.empty()) {
    const auto result =
        law::gain(law::read_law(request.reference), law::read_law(request.target), options);
    print_result(session, to_json(result), gain_text(result));
    return;
  }
  const law::Form& form = law::find_form(request.form);
  const Selection selection =
      select_rows(request.rows.read(), request.rows, columns_for(form, request.rows));
  const law::Endpoints& table = selection.kept;
  const auto reference = table.points(request.reference), target = table.points(request.target);
  options.progress = [&session](double done, double total) {
    session.progress({"bootstrap", done, total, "draws", ""});
  };
  const law::GainResult result = law::gain(reference, target, form, options);
  const auto pairs = paired_gap(reference, target, options.bootstrap.confidence);
  if (session.json) {
    Json json = to_json(result);
    json["paired_loss_gap"] = pairs ? to_json(*pairs) : Json(nullptr);
    if (!selection.excluded.empty()) json["excluded"] = selection.excluded;
    print_json(json);
    return;
  }
  std::string text = selection.text + gain_text(result);
  if (pairs) text += "matched pairs: " + pairs->words + "\n";
  print(text);
}

}  // namespace

void add_gain(CLI::App& program, Session& session) {
  auto& verb =
      new_verb(program, session, "gain", "The compute one arm saves at equal loss (CE Gain)",
               "smelt gain endpoints.csv --reference baseline --target smelt --compute 1e18,1e19 "
               "--sparsity 0.85\n  smelt gain --reference baseline.json --target smelt.json "
               "--compute 1e21 --sparsity 0.95");
  auto request = std::make_shared<Request>();
  verb.add_option(
      "ENDPOINTS", request->rows.files,
      "CSV, JSON or JSON lines with a row per finished run, several read as one; without "
      "it --reference and --target are law files");
  verb.add_option("--reference", request->reference, "arm of the table, or a law file")
      ->capture_default_str();
  verb.add_option("--target", request->target, "arm of the table, or a law file")
      ->capture_default_str();
  verb.add_option("--compute", request->compute,
                  "training FLOPs C = F D (default: three budgets inside the data)")
      ->delimiter(',');
  verb.add_option("--sparsity", request->sparsity, "S (default: those of the data)")
      ->delimiter(',');
  verb.add_option("--form", request->form, "law: " + join_choices(law::form_names()))
      ->capture_default_str()
      ->check(CLI::IsMember(law::form_names()));
  add_row_flags(verb, request->rows);
  add_flags(verb, request->fit);
  add_flags(verb, request->bootstrap);
  verb.callback([&session, request] { run(session, *request); });
}

}  // namespace smelt::cli
