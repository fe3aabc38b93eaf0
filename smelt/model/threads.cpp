// Free of <torch/torch.h>: this is the one file compiled with -fopenmp, which the shared
// precompiled header is not.
#include "smelt/model/threads.h"

#include <omp.h>

#include <atomic>
#include <exception>

namespace smelt::model {

void parallel_tasks(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  if (count <= 1 || omp_in_parallel() || omp_get_max_threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
#pragma omp parallel
  {
    try {
      for (std::int64_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace smelt::model
