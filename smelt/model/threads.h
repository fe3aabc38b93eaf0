// Independent tasks on LibTorch's own threads (the OpenMP pool that at::set_num_threads sizes).
//
//   parallel_tasks(blocks, [&](std::int64_t i) { … });   // inside, matrix products run on one
//   thread
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace smelt::model {

/// Calls `task(i)` once for each i in [0, count), taking the next free index: tasks write to places
/// of their own, so results do not depend on threads.  Inside another parallel region it runs
/// serially.  Rethrows one of the tasks' exceptions.
void parallel_tasks(std::int64_t count, const std::function<void(std::int64_t)>& task);

/// `body(begin, end)` over [0, count) in chunks of `chunk`, the same chunks for any thread count.
template <class Body>
void parallel_chunks(std::int64_t count, std::int64_t chunk, const Body& body) {
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  parallel_tasks(chunks,
                 [&](std::int64_t i) { body(i * chunk, std::min(count, (i + 1) * chunk)); });
}

/// Memory of this thread for one purpose, named by `Tag`: at least `count` elements, kept and
/// reused until the thread ends.  Its content is what the last user of this tag left.
template <class Tag, class T = float>
T* scratch(std::int64_t count) {
  thread_local std::vector<T> memory;
  if (memory.size() < static_cast<std::size_t>(count)) {
    memory.clear();
    memory.resize(static_cast<std::size_t>(count));
  }
  return memory.data();
}

}  // namespace smelt::model
