// Settings of the process and thread that a run's bits and speed depend on.
#pragma once

#include <cstdint>

#include "smelt/data/rows.h"
#include "smelt/train/run_config.h"

namespace smelt::train {

/// While it lives: LibTorch's thread count, and denormal numbers flushed to zero on this thread
/// (second moments of embedding rows and experts that are rarely used decay into them, and
/// arithmetic on them is many times slower).
class ProcessSettings {
 public:
  explicit ProcessSettings(std::int64_t threads);
  ~ProcessSettings();
  ProcessSettings(const ProcessSettings&) = delete;
  ProcessSettings& operator=(const ProcessSettings&) = delete;

 private:
  int threads_before_;
};

/// The rows that a run reads.  Throws Error for an inconsistent configuration or a store that does
/// not fit the model.
data::RowStream open_rows(const RunConfig& config);

}  // namespace smelt::train
