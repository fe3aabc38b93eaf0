// A process killed with SIGKILL at random moments and started again ends with the bits of an
// undisturbed run. soak_kill.py beside this file does the same with the real command, as often as
// asked.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "smelt/core/philox.h"
#include "smelt/train/checkpoint.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using KillTest = TinyRun;

/// What the killed process does: this test program again, with this one test.
TEST(KillChild, DISABLED_Train) {
  const char* folder = std::getenv("SMELT_KILL_TEST_RUN");
  if (!folder) GTEST_SKIP() << "only for KillTest";
  prepare_process(1);
  run(read_run_config(std::filesystem::path(folder) / "run.toml"), folder);
}

pid_t start_child(const std::filesystem::path& folder) {
  const std::string variable = "SMELT_KILL_TEST_RUN=" + folder.string();
  std::string filter = "--gtest_filter=KillChild.*", all = "--gtest_also_run_disabled_tests",
              me = "test";
  char* arguments[] = {me.data(), filter.data(), all.data(), nullptr};
  std::vector<char*> environment;
  for (char** entry = environ; *entry; ++entry) environment.push_back(*entry);
  std::string copy = variable;
  environment.push_back(copy.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environment.data()),
            0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

TEST_F(KillTest, KilledAtRandomMomentsEndsWithTheSameBits) {
  RunConfig config = this->config();
  config.train.steps = 150;
  config.train.checkpoint_every = 3;  // many chances to be hit while one is written
  config.train.micro_rows = 2;
  const RunResult straight = run(config, root_ / "straight");
  const auto folder = root_ / "killed";
  make_folder(folder);
  write_run_config(config, folder / "run.toml");
  const Philox random(static_cast<std::uint64_t>(::getpid()), "kill");
  int killed = 0, status = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const pid_t child = start_child(folder);
    // Growing delays, so that a slow machine gets through in the end.
    const auto wait = std::chrono::milliseconds(200 + static_cast<int>(random.uniform(i) * 400) +
                                                static_cast<int>(i) * 20);
    const auto end = std::chrono::steady_clock::now() + wait;
    pid_t done = 0;
    while (done == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      done = waitpid(child, &status, WNOHANG);
    }
    if (done == child) break;
    ::kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ++killed;
  }
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  RecordProperty("kills", killed);
  EXPECT_GE(killed, 1);
  EXPECT_EQ(bits(folder / "checkpoints" / checkpoint_name(150)), bits(straight.checkpoint));
  EXPECT_EQ(metrics(folder), metrics(root_ / "straight"));
  EXPECT_EQ(verify_checkpoint(folder / "checkpoints" / checkpoint_name(150)).data_fingerprint,
            straight.data_fingerprint);
}

}  // namespace
}  // namespace smelt::train
