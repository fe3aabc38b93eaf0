#include "smelt/train/process.h"

#include <malloc.h>
#include <torch/torch.h>

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
#ifdef __GLIBC__
  // Activations of 128 KiB and more would otherwise be mapped and unmapped at every step.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace smelt::train
