// A decay branch as a run of its own: the parent's configuration with a tail behind the fork.
#include <algorithm>

#include "smelt/train/checkpoint.h"
#include "smelt/train/run.h"

namespace smelt::train {

RunConfig make_branch(const std::filesystem::path& parent_folder, const BranchOptions& options,
                      const std::string& name) {
  RunConfig config = read_run_config(parent_folder / "run.toml");
  const std::string where = parent_folder.string();
  const auto steps = checkpoint_steps(parent_folder);
  if (steps.empty()) throw Error("train", "no checkpoint to branch from", where);
  const std::int64_t step = options.at ? options.at : steps.back();
  if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
    std::vector<std::string> there;
    for (const std::int64_t s : steps) there.push_back(std::to_string(s));
    throw Error(
        "train",
        "no checkpoint of step " + std::to_string(step) + "; there are " + join_choices(there),
        where);
  }
  TrainOptions& train = config.train;
  if (train.decay_steps > 0 && step > train.steps - train.decay_steps) {
    throw Error("train",
                "step " + std::to_string(step) +
                    " lies in the run's own decay tail, which begins behind step " +
                    std::to_string(train.steps - train.decay_steps),
                where);
  }
  if (train.schedule == Schedule::kCosine) {
    throw Error("train", "the run's schedule is \"cosine\": it has no stable rate to branch from",
                where);
  }
  Problems problems("train", where);
  const std::int64_t length =
      branch_steps(options.decay_steps, options.tokens, config.tokens_per_step(), problems);
  problems.throw_if_any();
  config.name = name;
  config.branch = BranchPoint{
      std::filesystem::weakly_canonical(std::filesystem::absolute(parent_folder)), step};
  config.branches = {};
  train.schedule = Schedule::kWsd;
  train.steps = step + length;
  train.decay_steps = length;
  if (options.lr_floor) train.min_lr_ratio = *options.lr_floor;
  std::erase_if(train.keep_steps, [&](std::int64_t s) { return s <= step || s > train.steps; });
  config.data.pool = data::Pool::kDecay;
  config.data.first_row = 0;
  validate(config, problems);
  problems.throw_if_any();
  return config;
}

}  // namespace smelt::train
