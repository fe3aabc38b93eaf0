#include "smelt/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace smelt {
namespace {

TEST(ParallelFor, DoesEachIndexOnce) {
  for (const unsigned threads : {0u, 1u, 3u, 200u}) {
    std::vector<std::atomic<int>> calls(100);
    parallel_for(calls.size(), [&](std::size_t i) { ++calls[i]; }, threads);
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
  parallel_for(0, [](std::size_t) { FAIL(); });
}

TEST(ParallelFor, UsesTheThreadsAskedFor) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int> waiting{0};
  parallel_for(
      3,
      [&](std::size_t) {
        {
          const std::lock_guard lock(mutex);
          seen.insert(std::this_thread::get_id());
        }
        ++waiting;  // nobody leaves before all three are in
        while (waiting < 3) std::this_thread::yield();
      },
      3);
  EXPECT_EQ(seen.size(), 3u);
}

TEST(ParallelFor, RethrowsTheLowestFailure) {
  for (int round = 0; round < 20; ++round) {
    try {
      parallel_for(
          64,
          [](std::size_t i) {
            if (i == 5) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            if (i >= 5) throw std::runtime_error(std::to_string(i));
          },
          4);
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "5");
    }
  }
}

TEST(ParallelFor, StopsSoonAfterAFailure) {
  std::atomic<int> calls{0};
  EXPECT_THROW(parallel_for(
                   1'000'000,
                   [&](std::size_t) {
                     ++calls;
                     throw std::runtime_error("x");
                   },
                   2),
               std::runtime_error);
  EXPECT_LE(calls, 2);
}

TEST(AvailableCores, IsAtLeastOne) {
  EXPECT_GE(available_cores(), 1u);
}

}  // namespace
}  // namespace smelt
