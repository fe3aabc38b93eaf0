#include "smelt/train/process.h"

#include <torch/torch.h>

#include "smelt/train/block_cache.h"
#include "smelt/train/run.h"

namespace smelt::train {

ProcessSettings::ProcessSettings(std::int64_t threads) : threads_before_(at::get_num_threads()) {
  at::set_num_threads(static_cast<int>(threads));
  at::globalContext().setFlushDenormal(true);
}

ProcessSettings::~ProcessSettings() {
  at::globalContext().setFlushDenormal(false);
  at::set_num_threads(threads_before_);
}

void prepare_process(std::int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  try {
    at::set_num_interop_threads(1);
  } catch (const c10::Error&) {
    // Already fixed by an earlier call in this process: nothing here uses that pool.
  }
  keep_freed_blocks();
}

}  // namespace smelt::train
