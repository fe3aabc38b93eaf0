#include "smelt/study/verbs.h"

#include <fmt/format.h>

#include "smelt/core/file.h"
#include "smelt/core/json.h"

namespace smelt::study {

Command Verbs::command(std::vector<std::string> arguments, const std::filesystem::path& output,
                       const std::filesystem::path& folder) const {
  arguments.insert(arguments.begin(), program_.string());
  arguments.push_back("--json");
  return {std::move(arguments), output, folder / "log.txt", threads_};
}

Step Verbs::train(const std::filesystem::path& folder, std::int64_t first, std::int64_t last,
                  double work, std::function<train::RunConfig()> configure) const {
  Step step;
  step.output = folder / "result.json";
  step.metrics = folder / "metrics.jsonl";
  step.first = first;
  step.last = last;
  step.work = work;
  step.command = [this, folder, configure = std::move(configure), output = step.output] {
    make_folder(folder);
    const auto file = folder / "run.toml";
    train::write_run_config(configure(), file);
    return command({"train", file.string(), "--out", folder.string()}, output, folder);
  };
  return step;
}

Step Verbs::eval(const std::filesystem::path& folder, const std::filesystem::path& store,
                 data::Pool pool, std::int64_t window, double work) const {
  Step step;
  step.work = work;
  step.output = eval_file(folder, pool);
  step.command = [this, folder, store, pool, window, output = step.output] {
    return command(
        {"eval", folder.string(), "--store", store.string(), "--pool", enum_name(pool), "--window",
         std::to_string(window), "--threads", std::to_string(threads_), "--documents-csv",
         (folder / "eval" / fmt::format("{}.csv", enum_name(pool))).string()},
        output, folder);
  };
  return step;
}

std::filesystem::path eval_file(const std::filesystem::path& folder, data::Pool pool) {
  return folder / "eval" / fmt::format("{}.json", enum_name(pool));
}

std::optional<double> evaluated_loss(const std::filesystem::path& folder, data::Pool pool) {
  const auto file = eval_file(folder, pool);
  if (!std::filesystem::exists(file)) return std::nullopt;
  const Json loss = read_json(file).at("overall").at("loss");
  return loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt;
}

}  // namespace smelt::study
