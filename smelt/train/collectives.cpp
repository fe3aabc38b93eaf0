#include "smelt/train/collectives.h"

#include <algorithm>
#include <cstdlib>

#include "smelt/core/error.h"
#include "smelt/train/mpi.h"

namespace smelt::train {
namespace {

class SingleProcess final : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(std::span<double>) override {}
  void sum(std::span<std::int64_t>) override {}
  void reduce_scatter(const float* all, float* own, std::span<const std::int64_t> counts) override {
    std::copy_n(all, counts[0], own);
  }
  void all_gather(const float* own, float* all, std::span<const std::int64_t> counts) override {
    std::copy_n(own, counts[0], all);
  }
  void broadcast(std::string&) override {}
  void abort(int exit_code) override { std::exit(exit_code); }
};

/// The number in an environment variable, or 0.
long number_in(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::strtol(text, nullptr, 10) : 0;
}

}  // namespace

bool Collectives::any(bool here) {
  std::int64_t flag = here;
  sum(std::span(&flag, 1));
  return flag > 0;
}

Collectives& single_process() {
  static SingleProcess alone;
  return alone;
}

std::unique_ptr<Collectives> launched_ranks() {
  // Open MPI; MPICH, Intel MPI and srun --mpi=pmi2; srun --mpi=pmix (a step of several tasks).
  const bool pmix = std::getenv("PMIX_RANK") && number_in("SLURM_STEP_NUM_TASKS") > 1;
  if (number_in("OMPI_COMM_WORLD_SIZE") > 1 || number_in("PMI_SIZE") > 1 || pmix) {
    return mpi_ranks();
  }
  if (number_in("WORLD_SIZE") > 1) {
    throw Error(
        "train",
        "WORLD_SIZE is " + std::to_string(number_in("WORLD_SIZE")) +
            ", but no MPI launcher started this process: start CPU ranks with mpirun or srun");
  }
  return nullptr;
}

}  // namespace smelt::train
