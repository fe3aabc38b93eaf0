// `smelt train` and `smelt eval` as steps of a task: each a process of its own whose result is a
// file in the run's folder.
//
//   const Verbs verbs(program, threads);
//   Task task{name, {verbs.train(folder, 0, 500, flops, configure), verbs.eval(folder, …)}};
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "smelt/data/token_store.h"
#include "smelt/study/tasks.h"
#include "smelt/train/run_config.h"

namespace smelt::study {

class Verbs {
 public:
  /// `program` is smelt-torch; `threads` are those of each process.
  Verbs(std::filesystem::path program, int threads)
      : program_(std::move(program)), threads_(threads) {}

  /// A verb with --json whose stdout becomes `output`, its messages a log in `folder`.
  Command command(std::vector<std::string> arguments, const std::filesystem::path& output,
                  const std::filesystem::path& folder) const;

  /// Trains what `configure` gives in `folder`, from behind step `first` to `last`: `work` FLOPs.
  Step train(const std::filesystem::path& folder, std::int64_t first, std::int64_t last,
             double work, std::function<train::RunConfig()> configure) const;

  /// Scores `folder`'s newest checkpoint on a pool: eval/<pool>.json and .csv (per document).
  Step eval(const std::filesystem::path& folder, const std::filesystem::path& store,
            data::Pool pool, std::int64_t window, double work) const;

  int threads() const { return threads_; }

 private:
  std::filesystem::path program_;
  int threads_;
};

/// The file that `eval` leaves.
std::filesystem::path eval_file(const std::filesystem::path& folder, data::Pool pool);

/// The overall loss in it, nats; nothing when it is not there or not finite.
std::optional<double> evaluated_loss(const std::filesystem::path& folder, data::Pool pool);

}  // namespace smelt::study
