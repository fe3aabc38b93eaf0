// Runs independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace smelt {

/// Calls `work(i)` for i in [0, count) on up to `threads` threads (0 = all cores).  Each index is
/// done once, in no fixed order: write results by index and the outcome does not depend on the
/// thread count.  The exception of the lowest failing index is rethrown after all threads have
/// stopped.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work,
                  unsigned threads = 0);

/// Cores this process may use.
unsigned available_cores();

}  // namespace smelt
