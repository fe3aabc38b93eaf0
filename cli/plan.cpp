// smelt plan: a study's cells, tokens, FLOPs and memory before anything runs.
#include "smelt/plan/plan.h"

#include <fmt/format.h>

#include <memory>

#include "cli/verb.h"
#include "smelt/core/table.h"
#include "smelt/data/rows.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string study;
  double flops_per_second = 0;
};

std::string to_text(const plan::StudyConfig& study, const plan::Plan& plan,
                    double flops_per_second) {
  Table table({"cell", "arm", "hidden", "experts", "FLOPs/token", "parameters", "S", "FLOPs off",
               "params off", "KV off"});
  for (const plan::Cell& cell : plan.cells) {
    for (const plan::Arm arm : plan::kArms) {
      const auto& off = cell.match.best.mismatch;
      const bool smelt_arm = arm == plan::Arm::kSmelt;
      const auto percent = [smelt_arm](double x) {
        return smelt_arm ? fmt::format("{:+.2f} %", 100 * x) : std::string("");
      };
      table.add_row({cell.name, enum_name(arm), std::to_string(cell.config(arm).hidden_size),
                     std::to_string(cell.config(arm).num_experts),
                     with_si(cell.budget(arm).flops_per_token),
                     with_si(cell.budget(arm).parameters_total),
                     fmt::format("{:.3f}", cell.sparsity[static_cast<std::size_t>(arm)]),
                     percent(off.flops), percent(off.parameters), percent(off.kv_cache)});
    }
  }
  std::string text = table.text() + "\n";
  text +=
      fmt::format("{} pairs x {} seeds, {} tokens a run with its {} branches\n", plan.cells.size(),
                  study.seeds.size(), with_si(plan.pair_tokens), study.horizons.steps.size());
  text += fmt::format("{:.0f} learning-rate trials of {} tokens\n", plan.trials,
                      with_si(plan.trial_tokens));
  text += fmt::format("FLOPs: {} trials + {} runs = {} (LM head included)\n",
                      with_si(plan.flops_trials), with_si(plan.flops_runs), with_si(plan.flops));
  if (flops_per_second > 0) {
    text += fmt::format("at {} FLOP/s in all: {}\n", with_si(flops_per_second),
                        duration_text(plan.flops / flops_per_second));
  }
  text += fmt::format(
      "weights, gradients and moments of the largest model: {}B; checkpoints on disk: {}B\n",
      with_si(plan.largest_run_bytes), with_si(plan.checkpoint_bytes));
  for (const std::string& line : plan.words) text += "! " + line + "\n";
  return text;
}

void run(Session& session, const Options& options) {
  Problems problems("plan", options.study);
  plan::StudyConfig study = plan::read_study_config(options.study, problems);
  // The training tables are the training verb's to check.
  study.train.to_json();
  study.router.to_json();
  study.file->report_unread(problems);
  problems.throw_if_any();

  double attended = budget::kPaperAttended;
  std::int64_t vocab_size = 32768;
  if (std::filesystem::exists(study.store)) {
    const auto store = data::TokenStore::open(study.store);
    attended = data::mean_attended(store, study.row_length);
    vocab_size = store.vocab_size();
  } else {
    warn(session, fmt::format("no token store at {}: counted with {} attended positions and a "
                              "vocabulary of {}",
                              study.store.string(), attended, vocab_size));
  }
  const plan::Plan plan = plan::make_plan(study, attended, vocab_size);
  if (session.json) {
    Json json = plan::to_json(plan);
    json["attended"] = attended;
    print_json(json);
  } else {
    print(to_text(study, plan, options.flops_per_second));
  }
}

}  // namespace

void add_plan(CLI::App& program, Session& session) {
  CLI::App& verb =
      new_verb(program, session, "plan", "What a study will cost, before anything runs",
               "smelt plan configs/quick.toml --flops-per-second 3e10");
  auto options = std::make_shared<Options>();
  verb.add_option("STUDY.toml", options->study, "study configuration")->required();
  verb.add_option("--flops-per-second", options->flops_per_second,
                  "measured training throughput of the whole machine, for hours")
      ->check(CLI::PositiveNumber);
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
