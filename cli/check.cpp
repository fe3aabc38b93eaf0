// smelt check: known answers, to trust this build, machine and device.
#include <torch/torch.h>

#include <fmt/format.h>

#include <memory>

#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/model/case_check.h"

namespace smelt::cli {
namespace {

struct Options {
  std::vector<std::string> cases;
  std::string device = "cpu";
};

std::string difference(const model::CaseResult& result, const std::string& kind) {
  for (const auto& [name, worst] : result.worst) {
    if (name == kind) return fmt::format("{:.1e}", worst);
  }
  return "-";
}

std::string as_text(const std::vector<model::CaseResult>& results) {
  Table table(
      {"case", "logits", "nll", "loss", "gradients", "grad norm", "lb", "z", "experts", ""});
  std::string notes;
  std::size_t passed = 0, run = 0;
  for (const auto& r : results) {
    const std::string verdict = !r.note.empty() ? "not checked" : r.passed ? "pass" : "FAIL";
    table.add_row({r.name, difference(r, "logits"), difference(r, "per_token_nll"),
                   difference(r, "loss"), difference(r, "gradients"), difference(r, "grad_norm"),
                   difference(r, "lb_loss"), difference(r, "z_loss"), difference(r, "experts"),
                   verdict});
    if (!r.note.empty()) notes += fmt::format("{}: {}\n", r.name, r.note);
    run += r.note.empty();
    passed += r.passed;
  }
  return fmt::format("{}{}{} of {} cases passed\n", table.text(), notes, passed, run);
}

void run(Session& session, const Options& options) {
  std::vector<model::CaseResult> results;
  bool failed = false, any = false;
  for (const std::string& folder : options.cases) {
    results.push_back(model::check_case(folder));
    for (const std::string& line : results.back().problems) {
      session.progress.log(line.starts_with('[') ? line : "[check] " + folder + ": " + line);
    }
    failed = failed || (results.back().note.empty() && !results.back().passed);
    any = any || results.back().passed;
  }
  if (session.json) {
    Json json = {{"schema", "smelt.check/1"}, {"device", options.device}, {"cases", Json::array()}};
    for (const auto& result : results) json["cases"].push_back(model::to_json(result));
    print_json(json);
  } else {
    print(as_text(results));
  }
  // Nothing checked is no pass either.
  if (failed || !any) session.exit_code = 1;
}

}  // namespace

void add_check(CLI::App& program, Session& session) {
  auto& verb = new_verb(program, session, "check",
                        "Known answers: is this build, machine and device to be trusted?",
                        "smelt check tests/data/cases/baseline tests/data/cases/loop_half");
  auto options = std::make_shared<Options>();
  verb.add_option("CASE", options->cases, "case folders")->required();
  verb.add_option("--device", options->device, "where to compute")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
