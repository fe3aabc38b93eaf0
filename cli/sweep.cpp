// smelt sweep: a run at several learning rates, and the one it wants.
#include "smelt/study/sweep.h"

#include <fmt/format.h>

#include <memory>

#include "cli/flags.h"
#include "cli/verb.h"
#include "smelt/core/csv.h"
#include "smelt/core/table.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string run, out;
  study::SweepOptions sweep;
};

std::string text(const study::SweepResult& result) {
  Table table({"learning rate", "loss", "of each seed"});
  for (std::size_t i = 0; i < result.runs.size();) {
    const double lr = result.runs[i].result.lr;
    std::string each;
    double sum = 0;
    int seeds = 0;
    bool diverged = false;
    for (; i < result.runs.size() && result.runs[i].result.lr == lr; ++i) {
      const auto& loss = result.runs[i].result.loss;
      each += (each.empty() ? "" : "  ") + (loss ? fmt::format("{:.4f}", *loss) : "diverged");
      sum += loss.value_or(0);
      diverged = diverged || !loss;
      ++seeds;
    }
    table.add_row(
        {number_text(lr), diverged ? "diverged" : fmt::format("{:.4f}", sum / seeds), each});
  }
  std::string all = table.text() + "\n" + result.curve.words + "\n";
  for (const std::string& line : result.words) all += "! " + line + "\n";
  return all;
}

void run(Session& session, const Options& options) {
  watch_signals();
  study::SweepRequest request;
  request.run = options.run;
  if (std::filesystem::is_directory(request.run)) request.run /= "run.toml";
  request.out = options.out;
  request.program = std::filesystem::read_symlink("/proc/self/exe");
  request.options = options.sweep;
  request.progress = [&session](const ProgressEvent& event) { session.progress(event); };
  request.signal = [] { return signal_seen(); };
  const study::SweepResult result = study::run_sweep(request);
  session.progress.finish();
  if (result.interrupted) {
    session.progress.log("interrupted; all finished work is kept in " + options.out +
                         ": run the same command again to go on");
    session.exit_code = 128 + signal_seen();
    return;
  }
  if (result.curve.diverged) session.exit_code = 1;
  print_result(session, study::to_json(result), text(result));
}

}  // namespace

void add_sweep(CLI::App& program, Session& session) {
  CLI::App& verb =
      new_verb(program, session, "sweep", "A run at several learning rates, and the one it wants",
               "smelt sweep runs/a/run.toml --lr 1e-3,2e-3,4e-3 --seeds 2 --out runs/a-sweep");
  auto options = std::make_shared<Options>();
  verb.add_option("RUN", options->run, "run.toml, or a run folder with one")->required();
  verb.add_option("--lr", options->sweep.lr, "learning rates to try, as 1e-3,2e-3,4e-3")
      ->required()
      ->delimiter(',')
      ->check(within(1e-12, 10));
  add_flags(verb, options->sweep, "Options", [](std::string_view name) { return name == "lr"; });
  verb.add_option("--out", options->out, "the sweep's folder; an unfinished one goes on")
      ->required();
  verb.callback([&session, options] { run(session, *options); });
}

}  // namespace smelt::cli
