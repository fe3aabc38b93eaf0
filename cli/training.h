// What `smelt train` and `smelt branch` share: a run under signals, with progress, told on stdout.
#pragma once

#include <filesystem>

#include "cli/verb.h"
#include "smelt/train/run.h"

namespace smelt::cli {

/// Trains `config` in `folder`, evaluates where the run asks for it, prints the result, sets the
/// exit code: 0 finished, 1 diverged, 128 + n after signal n with a checkpoint written.  Among the
/// ranks of mpirun or srun where this process is one of them.
void train_and_report(Session& session, const train::RunConfig& config,
                      const std::filesystem::path& folder, bool accept_changes = false);

}  // namespace smelt::cli
