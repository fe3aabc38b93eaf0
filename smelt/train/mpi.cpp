#include "smelt/train/mpi.h"

#include "smelt/core/error.h"

#ifdef SMELT_MPI

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace smelt::train {
namespace {

/// MPI counts in int: larger arrays go in parts.
constexpr std::int64_t kMost = 1 << 28;

class MpiRanks final : public Collectives {
 public:
  MpiRanks() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiRanks() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void sum(std::span<double> values) override { sum_in_place(values, MPI_DOUBLE); }
  void sum(std::span<std::int64_t> values) override { sum_in_place(values, MPI_INT64_T); }

  void reduce_scatter(const float* all, float* own, std::span<const std::int64_t> counts) override {
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (total < kMost) {
      const std::vector<int> parts(counts.begin(), counts.end());
      MPI_Reduce_scatter(all, own, parts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      return;
    }
    for (int r = 0; r < size_; ++r) {
      const std::int64_t count = counts[static_cast<std::size_t>(r)];
      for (std::int64_t at = 0; at < count; at += kMost) {
        MPI_Reduce(all + at, r == rank_ ? own + at : nullptr,
                   static_cast<int>(std::min(kMost, count - at)), MPI_FLOAT, MPI_SUM, r,
                   MPI_COMM_WORLD);
      }
      all += count;
    }
  }

  void all_gather(const float* own, float* all, std::span<const std::int64_t> counts) override {
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (total < kMost) {
      const std::vector<int> parts(counts.begin(), counts.end());
      std::vector<int> begins(parts.size());
      std::exclusive_scan(parts.begin(), parts.end(), begins.begin(), 0);
      MPI_Allgatherv(own, parts[static_cast<std::size_t>(rank_)], MPI_FLOAT, all, parts.data(),
                     begins.data(), MPI_FLOAT, MPI_COMM_WORLD);
      return;
    }
    for (int r = 0; r < size_; ++r) {
      const std::int64_t count = counts[static_cast<std::size_t>(r)];
      if (r == rank_) std::copy_n(own, count, all);
      for (std::int64_t at = 0; at < count; at += kMost) {
        MPI_Bcast(all + at, static_cast<int>(std::min(kMost, count - at)), MPI_FLOAT, r,
                  MPI_COMM_WORLD);
      }
      all += count;
    }
  }

  void broadcast(std::string& text) override {
    auto length = static_cast<std::int64_t>(text.size());
    MPI_Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    text.resize(static_cast<std::size_t>(length));
    MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD);
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();  // MPI_Abort does not come back
  }

 private:
  template <class T>
  void sum_in_place(std::span<T> values, MPI_Datatype type) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), type, MPI_SUM,
                  MPI_COMM_WORLD);
  }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Collectives> mpi_ranks() {
  return std::make_unique<MpiRanks>();
}

}  // namespace smelt::train

#else

namespace smelt::train {

std::unique_ptr<Collectives> mpi_ranks() {
  throw Error("train",
              "started as one of several processes, but this build has no MPI (configure with an "
              "MPI compiler wrapper or its development package installed)");
}

}  // namespace smelt::train

#endif
