#include "smelt/study/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "smelt/core/error.h"
#include "smelt/core/file.h"

namespace smelt::study {
namespace {

using ::testing::HasSubstr;

class TasksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    make_folder(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Step shell(const std::string& name, const std::string& script) const {
    Step step;
    step.output = folder_ / (name + ".json");
    step.command = [this, script, output = step.output] {
      return Command{{"/bin/sh", "-c", script}, output, folder_ / "log.txt", 1};
    };
    return step;
  }

  std::filesystem::path folder_;
};

TEST_F(TasksTest, StepsOfATaskRunInOrderAndOutputsAreWhole) {
  const Task task{"t", {shell("a", "echo 1"), shell("b", "cat " + (folder_ / "a.json").string())}};
  EXPECT_EQ(run_tasks({task}, {.stage = "s", .parallel = 2, .progress = {}, .signal = {}}),
            TasksStatus::kDone);
  EXPECT_EQ(read_file(folder_ / "b.json"), "1\n");
}

TEST_F(TasksTest, WhatIsThereIsNotDoneAgain) {
  write_file_atomic(folder_ / "a.json", "old");
  int told = 0;
  Step step = shell("a", "echo new");
  step.done = [&told] { ++told; };
  run_tasks({{"t", {step}}}, {.stage = "s", .parallel = 1, .progress = {}, .signal = {}});
  EXPECT_EQ(read_file(folder_ / "a.json"), "old");
  EXPECT_EQ(told, 1);
}

TEST_F(TasksTest, AFailureNamesTaskAndReasonAndLeavesNoOutput) {
  try {
    run_tasks({{"my task", {shell("a", "echo half; echo 'disk is full' >&2; exit 3")}}},
              {.stage = "s", .parallel = 1, .progress = {}, .signal = {}});
    FAIL() << "expected an Error";
  } catch (const smelt::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("my task ended with exit status 3: disk is full"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.json"));
}

TEST_F(TasksTest, ADivergedTrialEndsItsTaskOnly) {
  Step train = shell("a", "echo '{\"status\": \"diverged\"}'; exit 1");
  train.may_diverge = true;
  const Task task{"t", {train, shell("never", "echo 1")}};
  EXPECT_EQ(run_tasks({task, {"u", {shell("b", "echo 1")}}},
                      {.stage = "s", .parallel = 1, .progress = {}, .signal = {}}),
            TasksStatus::kDone);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "never.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "b.json"));
}

TEST_F(TasksTest, AFailedTrialThatDidNotDivergeIsAFailure) {
  Step train = shell("a", "echo '{\"status\": \"finished\"}'; exit 1");
  train.may_diverge = true;
  EXPECT_THROW(
      run_tasks({{"t", {train}}}, {.stage = "s", .parallel = 1, .progress = {}, .signal = {}}),
      smelt::Error);
}

TEST_F(TasksTest, ASignalIsPassedOnOnceAndNothingMoreStarts) {
  const auto begin = std::chrono::steady_clock::now();
  int asked = 0;
  const TaskOptions options{.stage = "s", .parallel = 1, .progress = {}, .signal = [&asked] {
                              return ++asked > 5 ? 15 : 0;
                            }};
  const Task sleeper{"t", {shell("a", "trap 'exit 143' TERM; sleep 30 & wait")}};
  EXPECT_EQ(run_tasks({sleeper, {"u", {shell("b", "echo 1")}}}, options),
            TasksStatus::kInterrupted);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.json"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(TasksTest, ThreadCountsAreTheChildsEnvironment) {
  Step step = shell("a", "echo $OMP_NUM_THREADS");
  step.command = [this, output = step.output] {
    return Command{{"/bin/sh", "-c", "echo $OMP_NUM_THREADS $MKL_NUM_THREADS"},
                   output,
                   folder_ / "log.txt",
                   3};
  };
  run_tasks({{"t", {step}}}, {.stage = "s", .parallel = 1, .progress = {}, .signal = {}});
  EXPECT_EQ(read_file(folder_ / "a.json"), "3 3\n");
}

}  // namespace
}  // namespace smelt::study
