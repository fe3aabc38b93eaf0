// What the processes of one run tell each other: the only place that knows there are several.
//
// Ranks 0 … size - 1 hold the same weights and read different rows of each step.  Every member is
// called by all ranks in the same order; with one rank all of them do nothing.  A rank that fails
// ends all (abort), so that none waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace smelt::train {

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool leads() const { return rank() == 0; }

  /// Element by element over the ranks, in place; every rank gets the same bits.
  virtual void sum(std::span<double> values) = 0;
  virtual void sum(std::span<std::int64_t> values) = 0;
  /// Rank r receives in `own` the sums of its part of `all`: counts[r] elements behind those of the
  /// ranks before it.
  virtual void reduce_scatter(const float* all, float* own,
                              std::span<const std::int64_t> counts) = 0;
  /// The parts put together again, on every rank.
  virtual void all_gather(const float* own, float* all, std::span<const std::int64_t> counts) = 0;
  /// Rank 0's text, on every rank.
  virtual void broadcast(std::string& text) = 0;
  /// Ends every rank's process with `exit_code`.
  [[noreturn]] virtual void abort(int exit_code) = 0;

  /// Whether any rank says so.
  bool any(bool here);
};

/// One process alone.
Collectives& single_process();

/// The ranks that mpirun or srun started this process among; nothing when it runs alone.  Throws
/// Error when it was started as one of several and this build has no MPI, or by a launcher that
/// only sets WORLD_SIZE.
std::unique_ptr<Collectives> launched_ranks();

}  // namespace smelt::train
