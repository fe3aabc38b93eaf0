// smelt branch: a decay branch from a checkpoint of a run, over fresh tokens.
#include <memory>

#include "cli/flags.h"
#include "cli/training.h"

namespace smelt::cli {
namespace {

struct Options {
  std::string run, out;
  train::BranchOptions branch;
};

}  // namespace

void add_branch(CLI::App& program, Session& session) {
  CLI::App& verb = new_verb(program, session, "branch",
                            "A decay branch from a checkpoint of a run, over fresh tokens",
                            "smelt branch runs/a --at 500 --decay-steps 100 --out runs/a-500");
  auto options = std::make_shared<Options>();
  verb.add_option("RUN", options->run, "folder of the parent run")->required();
  verb.add_option("--out", options->out, "run folder of the branch")->required();
  add_flags(verb, options->branch);
  verb.callback([&session, options] {
    watch_signals();
    const std::filesystem::path out = options->out;
    const std::string name = (out / "").lexically_normal().parent_path().filename().string();
    const auto config = train::make_branch(options->run, options->branch, name);
    train::prepare_process(config.threads);
    train_and_report(session, config, out);
  });
}

}  // namespace smelt::cli
