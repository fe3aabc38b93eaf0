// Several processes over MPI: the numbers of one, its run folder, and an end when one of them dies.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>

#include "smelt/train/checkpoint.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Ranks : public TinyRun {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun here";
    TinyRun::SetUp();
  }

  RunConfig ten_steps() const {
    RunConfig run = config();
    run.train.steps = 10;
    run.train.rows = 8;
    run.train.checkpoint_every = 5;
    run.train.router_every = 5;
    run.router.load_balance = 0.1;
    return run;
  }

  /// Exit status of `smelt-torch train` of `run` in `folder` on that many ranks; `before` goes in
  /// front of the program.
  int train(const RunConfig& run, const fs::path& folder, int ranks,
            const std::string& before = "") const {
    make_folder(folder);
    write_run_config(run, folder / "run.toml");
    const std::string launcher =
        ranks == 1
            ? ""
            : "timeout -k 5 120 mpirun --allow-run-as-root --oversubscribe --bind-to none -n " +
                  std::to_string(ranks) + " ";
    const std::string command = launcher + before + " " + SMELT_BIN_DIR "/smelt-torch train '" +
                                (folder / "run.toml").string() + "' >'" +
                                (folder / "out.txt").string() + "' 2>'" +
                                (folder / "err.txt").string() + "'";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static std::vector<Json> lines(const fs::path& folder) {
    std::vector<Json> all;
    std::istringstream in(read_file(folder / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
    return all;
  }

  static void expect_same_metrics(const fs::path& a, const fs::path& b) {
    const auto one = lines(a), many = lines(b);
    ASSERT_EQ(one.size(), many.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      for (const char* key : {"loss", "objective", "load_balance", "z_loss", "grad_norm", "lr"}) {
        EXPECT_NEAR(many[i].at(key).get<double>(), one[i].at(key).get<double>(),
                    1e-6 * std::max(1.0, std::abs(one[i].at(key).get<double>())))
            << key << ", step " << i + 1;
      }
      EXPECT_EQ(many[i].at("tokens"), one[i].at("tokens"));
      EXPECT_NEAR(many[i].at("domains").at("domain").get<double>(),
                  one[i].at("domains").at("domain").get<double>(), 1e-6);
      EXPECT_EQ(many[i].contains("router"), one[i].contains("router"));
      if (one[i].contains("router")) {
        EXPECT_EQ(many[i].at("router"), one[i].at("router"));
      }
    }
  }
};

TEST_F(Ranks, TwoAndFourGiveTheNumbersOfOne) {
  ASSERT_EQ(train(ten_steps(), root_ / "1", 1), 0) << read_file(root_ / "1/err.txt");
  const Checkpoint one = read_checkpoint(find_latest(root_ / "1"));
  for (const int ranks : {2, 4}) {
    const fs::path folder = root_ / std::to_string(ranks);
    ASSERT_EQ(train(ten_steps(), folder, ranks), 0) << read_file(folder / "err.txt");
    expect_same_metrics(root_ / "1", folder);
    const Checkpoint many = read_checkpoint(find_latest(folder));
    EXPECT_EQ(many.state.data_fingerprint, one.state.data_fingerprint);
    EXPECT_EQ(checkpoint_steps(folder), checkpoint_steps(root_ / "1"));
    for (std::size_t i = 0; i < one.moments.first.size(); ++i) {
      EXPECT_LT((many.moments.first[i] - one.moments.first[i]).abs().max().item<double>(), 1e-5);
    }
    // One process speaks.
    EXPECT_THAT(read_file(folder / "out.txt"), HasSubstr("finished: step 10"));
    EXPECT_EQ(read_file(folder / "out.txt").find("finished"),
              read_file(folder / "out.txt").rfind("finished"));
  }
}

TEST_F(Ranks, AccumulationAndRowBalanceToo) {
  RunConfig run = ten_steps();
  run.train.micro_rows = 2;
  run.router.balance = Balance::kRow;
  ASSERT_EQ(train(run, root_ / "1", 1), 0);
  ASSERT_EQ(train(run, root_ / "4", 4), 0) << read_file(root_ / "4/err.txt");
  expect_same_metrics(root_ / "1", root_ / "4");
}

TEST_F(Ranks, ResumesWithAnotherNumberOfThem) {
  RunConfig half = ten_steps();
  half.train.steps = 5;
  ASSERT_EQ(train(half, root_ / "a", 4), 0) << read_file(root_ / "a/err.txt");
  ASSERT_EQ(train(ten_steps(), root_ / "a", 2), 0) << read_file(root_ / "a/err.txt");
  ASSERT_EQ(train(ten_steps(), root_ / "b", 1), 0);
  expect_same_metrics(root_ / "b", root_ / "a");
  EXPECT_EQ(read_checkpoint(find_latest(root_ / "a")).state.data_fingerprint,
            read_checkpoint(find_latest(root_ / "b")).state.data_fingerprint);
}

TEST_F(Ranks, RowsThatDoNotDivideAreRefusedOnce) {
  EXPECT_EQ(train(ten_steps(), root_ / "a", 3), 1);
  const std::string said = read_file(root_ / "a/err.txt");
  EXPECT_THAT(said, HasSubstr("rows"));
  EXPECT_THAT(said, HasSubstr("3"));
}

TEST_F(Ranks, ARankThatDiesEndsAll) {
  RunConfig run = ten_steps();
  run.train.steps = 100000;
  run.train.checkpoint_every = 0;
  // Rank 1 is killed after a second; the others must not wait for it.
  const std::string killer =
      "sh -c 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then (sleep 2; kill -9 $$) & fi; exec \"$@\"' sh";
  const int status = train(run, root_ / "a", 2, killer);
  EXPECT_NE(status, 0);
  EXPECT_NE(status, 124) << "it hung until the timeout";
}

}  // namespace
}  // namespace smelt::train
