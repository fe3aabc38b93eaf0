// smelt train: one run from its run.toml; started again it resumes, or says that it is finished.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/flags.h"
#include "cli/training.h"
#include "smelt/core/table.h"
#include "smelt/eval/evaluate.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string run, out;
  std::int64_t time_steps = 0;
  std::string profile;
  bool accept_changes = false;
};

/// Thrown out of an evaluation's progress report: the only way to end it early.
struct EvaluationCut {};

/// Scores a sample of the tuning pool: validation documents stay untouched until a run has ended.
Json evaluate_tuning(const train::RunConfig& config, const data::TokenStore& store,
                     const model::Decoder& decoder) {
  eval::EvalOptions options;
  options.pool = data::Pool::kTuning;
  options.window = config.data.row_length;
  options.max_tokens = config.train.eval_tokens;
  try {
    const auto result = eval::evaluate(decoder, store, options, [](const ProgressEvent&) {
      if (signal_seen()) throw EvaluationCut{};
    });
    Json domains = Json::object();
    for (const auto& group : result.domains) domains[group.name] = group.loss();
    return {{"pool", enum_name(options.pool)},
            {"loss", result.overall.loss()},
            {"tokens", result.overall.tokens},
            {"domains", domains}};
  } catch (const EvaluationCut&) {
    return nullptr;
  }
}

std::string text(const train::RunResult& result) {
  const auto tokens = with_commas(static_cast<double>(result.tokens));
  const std::string where =
      result.checkpoint.empty() ? "no checkpoint" : result.checkpoint.string();
  switch (result.status) {
    case train::RunStatus::kAlreadyFinished:
      return fmt::format("already finished: step {}, {} tokens, loss {:.4f}: {}\n", result.step,
                         tokens, result.loss, where);
    case train::RunStatus::kInterrupted:
      return fmt::format("interrupted at step {}; the same command goes on from {}\n", result.step,
                         where);
    case train::RunStatus::kDiverged:
      return fmt::format(
          "diverged at step {}: {} steps skipped for non-finite gradients; last finite loss "
          "{:.4f}\n",
          result.step, result.skipped_steps, result.loss);
    case train::RunStatus::kFinished:
      break;
  }
  return fmt::format("finished: step {}, {} tokens, loss {:.4f}, {}: {}\n", result.step, tokens,
                     result.loss, duration_text(result.seconds), where);
}

std::string text_with_branches(const train::RunResult& result) {
  std::string all = text(result);
  for (const auto& branch : result.branches) all += "  " + branch.name + " " + text(branch);
  return all;
}

/// Per step, as a share of it; what no kernel of ours did is the last row.
std::string profile_table(const train::StepTiming& timing) {
  Table table({"kernel", "ms per step", "share", "calls"});
  const auto steps = static_cast<double>(timing.steps);
  double rest = timing.step_seconds;
  for (const train::ProfileRow& row : timing.profile) {
    const double seconds = row.seconds / steps;
    rest -= seconds;
    table.add_row({row.name, fmt::format("{:.2f}", 1e3 * seconds),
                   fmt::format("{:.1f} %", 100 * seconds / timing.step_seconds),
                   fmt::format("{:.0f}", static_cast<double>(row.calls) / steps)});
  }
  table.add_row({"everything else", fmt::format("{:.2f}", 1e3 * rest),
                 fmt::format("{:.1f} %", 100 * rest / timing.step_seconds), ""});
  return table.text();
}

void time_steps(Session& session, const train::RunConfig& config, std::int64_t steps,
                const std::string& trace) {
  train::Callbacks callbacks;
  callbacks.stop = [] { return signal_seen() != 0; };
  const auto timing = train::time_steps(config, steps, callbacks, trace);
  if (signal_seen()) session.exit_code = 128 + signal_seen();
  if (session.json) return print_json(train::to_json(timing));
  print(fmt::format(
      "{:.4f} s per step (median of {}), {} tokens/s, peak {}B (planned {}B)\n"
      "data {:.1f} %, forward {:.1f} %, backward {:.1f} %, optimizer {:.1f} %\n",
      timing.step_seconds, timing.steps, with_commas(timing.tokens_per_second),
      with_si(timing.peak_rss_bytes), with_si(timing.planned_bytes), 100 * timing.data_share,
      100 * timing.forward_share, 100 * timing.backward_share, 100 * timing.optimizer_share));
  if (!trace.empty() && timing.steps > 0) {
    print("\n" + profile_table(timing) + "trace: " + trace +
          " (chrome://tracing, ui.perfetto.dev)\n");
  }
}

}  // namespace

namespace {

/// What several ranks do with an error: the first to have it says so and ends all.
[[noreturn]] void fail_all(train::Collectives& ranks, const std::string& message) {
  if (!ranks.leads()) {
    // Most errors meet every rank alike, and rank 0 tells them.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    std::fprintf(stderr, "rank %d: ", ranks.rank());
  }
  std::fprintf(stderr, "%s\n", message.c_str());
  ranks.abort(1);
  std::_Exit(1);  // not reached: the compiler does not see it through the virtual call
}

train::RunResult run_on(train::Collectives& ranks, const train::RunConfig& config,
                        const std::filesystem::path& folder, const train::Callbacks& callbacks) {
  if (ranks.size() == 1) return train::run(config, folder, callbacks);
  try {
    return train::run(config, folder, callbacks, ranks);
  } catch (const std::exception& error) {
    fail_all(ranks, error.what());
  }
}

}  // namespace

void train_and_report(Session& session, const train::RunConfig& config,
                      const std::filesystem::path& folder, bool accept_changes) {
  const auto launched = train::launched_ranks();
  train::Collectives& ranks = launched ? *launched : train::single_process();
  train::Callbacks callbacks;
  callbacks.accept_changes = accept_changes;
  callbacks.progress = [&](const ProgressEvent& event) { session.progress(event); };
  callbacks.log = [&](const std::string& line) { session.progress.log(line); };
  callbacks.stop = [] { return signal_seen() != 0; };
  std::optional<data::TokenStore> store;
  if (config.train.eval_every > 0) {
    callbacks.evaluate = [&](std::int64_t, const model::Decoder& decoder) {
      if (!store) store = data::TokenStore::open(config.data.store);
      return evaluate_tuning(config, *store, decoder);
    };
  }
  const auto result = run_on(ranks, config, folder, callbacks);
  session.progress.finish();
  // The last to be worked on says how it all ended.
  const auto status = result.branches.empty() ? result.status : result.branches.back().status;
  if (status == train::RunStatus::kDiverged) session.exit_code = 1;
  if (status == train::RunStatus::kInterrupted) {
    session.exit_code = 128 + (signal_seen() ? signal_seen() : SIGTERM);
  }
  if (ranks.leads()) print_result(session, train::to_json(result), text_with_branches(result));
}

void add_train(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "train", "One training run; resumes where it stopped",
                            "smelt train runs/a/run.toml --out runs/b");
  auto options = std::make_shared<Options>();
  verb.add_option("RUN", options->run, "run.toml, or a run folder with one")->required();
  verb.add_option("--out", options->out, "run folder (default: the folder of run.toml)");
  verb.add_option("--time-steps", options->time_steps,
                  "time this many steps of this geometry, alone, and write nothing")
      ->check(within(1, 1000000));
  verb.add_option(
      "--profile", options->profile,
      "time steps (5 unless --time-steps says otherwise) and write a trace of them here, "
      "in Chrome's format");
  verb.add_flag("--accept-changes", options->accept_changes,
                "resume although threads, [train], [router] or a version have changed");
  verb.callback([&session, options] {
    watch_signals();
    std::filesystem::path file = options->run;
    if (std::filesystem::is_directory(file)) file /= "run.toml";
    const auto config = train::read_run_config(file);
    train::prepare_process(config.threads);
    if (!options->profile.empty() && options->time_steps == 0) options->time_steps = 5;
    if (options->time_steps > 0)
      return time_steps(session, config, options->time_steps, options->profile);
    const auto own = std::filesystem::absolute(file).parent_path();
    train_and_report(session, config,
                     options->out.empty() ? own : std::filesystem::path(options->out),
                     options->accept_changes);
  });
}

}  // namespace smelt::cli
