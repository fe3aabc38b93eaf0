#include "smelt/study/layout.h"

#include <fmt/format.h>

#include "smelt/data/rows.h"
#include "smelt/data/token_store.h"

namespace smelt::study {
namespace {

using plan::Arm;

/// Keys of [train] that the horizons decide.
void refuse_derived_keys(TomlTable table, Problems& problems) {
  for (const char* key : {"steps", "keep_steps", "decay_steps"}) {
    if (table.has(key)) {
      problems.add(fmt::format("{}: a study sets it from [horizons]; leave it out of [train]", key),
                   table.where(key));
    }
  }
}

/// What the training verb would refuse later is refused now: a warmup longer than the first
/// horizon, …
void check_runs(const StudySetup& setup, Problems& problems) {
  const Layout layout(setup, ".");
  const plan::Cell& cell = setup.plan.cells.front();
  for (const Arm arm : plan::kArms) {
    const std::size_t before = problems.lines().size();
    train::validate(layout.stable(cell, setup.config.seeds.front(), arm, 1e-3), problems);
    if (!setup.config.rates.rates.empty())
      train::validate(layout.trial(cell, arm, 1e-3, setup.config.rates.seed), problems);
    if (problems.lines().size() > before) return;  // the other arm would say the same
  }
}

}  // namespace

StudySetup read_study(const std::filesystem::path& file) {
  Problems problems("study", file.string());
  StudySetup setup;
  setup.config = plan::read_study_config(file, problems);
  plan::StudyConfig& config = setup.config;
  train::TrainOptions common;
  read_fields(common, config.train, problems);
  for (const Arm arm : plan::kArms) {
    TomlTable own = arm == Arm::kBaseline ? config.train_baseline : config.train_smelt;
    train::TrainOptions& options = setup.train[static_cast<int>(arm)];
    options = common;
    read_fields(options, own, problems);
    refuse_derived_keys(own, problems);
    for (const char* key : {"rows", "micro_rows"}) {
      if (own.has(key)) {
        problems.add(
            fmt::format("{}: both arms of a pair read the same rows; set it in [train]", key),
            own.where(key));
      }
    }
    setup.rate_given[static_cast<int>(arm)] = own.has("lr") || config.train.has("lr");
  }
  refuse_derived_keys(config.train, problems);
  read_fields(setup.router, config.router, problems);
  const bool given = setup.rate_given[0] && setup.rate_given[1];
  if (config.rates.rates.empty() && !given) {
    problems.add("no learning rates: expected [rates] try = […] or [train] lr");
  }
  if (!config.rates.rates.empty() && (setup.rate_given[0] || setup.rate_given[1])) {
    problems.add("lr: [rates] try chooses each arm's rate; leave lr out of [train]",
                 config.train.where("lr"));
  }
  config.file->report_unread(problems);
  problems.throw_if_any();

  if (!std::filesystem::exists(config.store)) {
    throw Error(
        "study",
        "no token store at " + config.store.string() +
            ": make the built-in one with `make corpus`, or your own with `smelt data build`",
        config.file->root().where());
  }
  const data::TokenStore store = data::TokenStore::open(config.store);
  setup.plan =
      plan::make_plan(config, data::mean_attended(store, config.row_length), store.vocab_size());
  check_runs(setup, problems);
  problems.throw_if_any();
  return setup;
}

std::string Layout::stable_name(const plan::Cell& cell, std::int64_t seed, Arm arm) {
  return fmt::format("{}-seed{}-{}", cell.name, seed, enum_name(arm));
}

std::string Layout::branch_name(const plan::Cell& cell, std::int64_t seed, Arm arm,
                                std::int64_t horizon) {
  return fmt::format("{}-at{}", stable_name(cell, seed, arm), horizon);
}

std::string Layout::trial_name(const plan::Cell& cell, Arm arm, double lr, std::int64_t seed) {
  return fmt::format("trial-{}-{}-lr{}-seed{}", cell.name, enum_name(arm), number_text(lr), seed);
}

std::int64_t Layout::trial_steps() const {
  return setup_.config.rates.steps ? setup_.config.rates.steps
                                   : setup_.config.horizons.steps.front();
}

std::int64_t Layout::trial_decay_steps() const {
  return setup_.config.rates.decay_steps ? setup_.config.rates.decay_steps
                                         : setup_.config.horizons.decay_steps;
}

train::RunConfig Layout::common(const plan::Cell& cell, Arm arm, double lr) const {
  train::RunConfig run;
  run.threads = setup_.config.execution.threads;
  run.model = cell.config(arm);
  run.data.store = std::filesystem::absolute(setup_.config.store);
  run.data.row_length = setup_.config.row_length;
  run.data.pool = data::Pool::kStable;
  run.train = setup_.train[static_cast<int>(arm)];
  run.train.lr = lr;
  run.router = setup_.router;
  return run;
}

train::RunConfig Layout::stable(const plan::Cell& cell, std::int64_t seed, Arm arm,
                                double lr) const {
  train::RunConfig run = common(cell, arm, lr);
  run.name = stable_name(cell, seed, arm);
  run.seed = static_cast<std::uint64_t>(seed);
  run.train.steps = setup_.config.horizons.steps.back();
  run.train.keep_steps = setup_.config.horizons.steps;
  run.train.decay_steps = 0;
  return run;
}

train::RunConfig Layout::trial(const plan::Cell& cell, Arm arm, double lr,
                               std::int64_t seed) const {
  train::RunConfig run = common(cell, arm, lr);
  run.name = trial_name(cell, arm, lr, seed);
  run.seed = static_cast<std::uint64_t>(seed);
  run.train.steps = trial_steps() + trial_decay_steps();
  run.train.decay_steps = trial_decay_steps();
  run.train.keep_last = 1;
  return run;
}

}  // namespace smelt::study
