// Checkpoints: whole or not there, every damaged byte found, the one before kept when the disk is
// full.
#include "smelt/train/checkpoint.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "cli/checkpoint.h"
#include "smelt/core/file.h"
#include "smelt/model/weights.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CheckpointTest : public TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    decoder_ = model::init_decoder(config().model, 1);
    moments_ = zero_moments(model::named_parameters(decoder_));
    for (auto& moment : moments_.second) moment.add_(0.5);
  }

  fs::path write(std::int64_t step) {
    TrainState state;
    state.step = step;
    state.tokens = 96 * step;
    state.last_loss = 2.5;
    state.order_fingerprint = "order";
    state.identity = identity(config());
    return write_checkpoint(root_ / "run", state, decoder_, moments_, "tokenizer bytes");
  }

  static void flip(const fs::path& file, std::streamoff at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(at);
    stream.put(byte);
  }

  model::Decoder decoder_;
  Moments moments_;
};

const char* const kFiles[] = {"config.json", "model.safetensors", "optimizer.safetensors",
                              "tokenizer.model", "state.json"};

TEST_F(CheckpointTest, ReadsBackWhatWasWritten) {
  const fs::path folder = write(12);
  EXPECT_EQ(folder, root_ / "run/checkpoints/step-00000012");
  const Checkpoint checkpoint = read_checkpoint(folder);
  EXPECT_EQ(checkpoint.state.step, 12);
  EXPECT_EQ(checkpoint.state.tokens, 1152);
  EXPECT_EQ(checkpoint.state.last_loss, 2.5);
  EXPECT_EQ(checkpoint.state.identity, identity(config()));
  const auto was = model::named_parameters(decoder_),
             is = model::named_parameters(checkpoint.decoder);
  ASSERT_EQ(was.size(), is.size());
  for (std::size_t i = 0; i < was.size(); ++i) {
    EXPECT_TRUE(at::equal(was[i].second, is[i].second)) << was[i].first;
    EXPECT_TRUE(at::equal(moments_.first[i], checkpoint.moments.first[i])) << was[i].first;
    EXPECT_TRUE(at::equal(moments_.second[i], checkpoint.moments.second[i])) << was[i].first;
  }
  EXPECT_EQ(read_file(folder / "tokenizer.model"), "tokenizer bytes");
  EXPECT_EQ(checkpoint_steps(root_ / "run"), std::vector<std::int64_t>{12});  // nothing left aside
}

TEST_F(CheckpointTest, OneFlippedByteAnywhereIsFoundAndNamed) {
  const fs::path folder = write(1);
  for (const char* name : kFiles) {
    const auto size = static_cast<std::streamoff>(fs::file_size(folder / name));
    for (const std::streamoff at : {std::streamoff{0}, size / 3, size / 2, size - 1}) {
      flip(folder / name, at);
      EXPECT_THAT(error_of([&] { read_checkpoint(folder); }), HasSubstr(name)) << at;
      flip(folder / name, at);
    }
  }
  read_checkpoint(folder);  // sound again
}

TEST_F(CheckpointTest, CutShortOrMissingFileIsNamed) {
  for (const char* name : kFiles) {
    const fs::path folder = write(1);
    fs::resize_file(folder / name, fs::file_size(folder / name) - 1);
    EXPECT_THAT(error_of([&] { read_checkpoint(folder); }), HasSubstr(name));
    fs::remove(folder / name);
    EXPECT_THAT(error_of([&] { read_checkpoint(folder); }), HasSubstr(name));
  }
}

TEST_F(CheckpointTest, TwoFaultsAreTwoLines) {
  const fs::path folder = write(1);
  flip(folder / "model.safetensors", 900);
  fs::remove(folder / "tokenizer.model");
  const std::string text = error_of([&] { read_checkpoint(folder); });
  EXPECT_THAT(text, HasSubstr("model.safetensors"));
  EXPECT_THAT(text, HasSubstr("tokenizer.model"));
}

TEST_F(CheckpointTest, MomentsOfAnotherShapeAreRefused) {
  moments_.first[1] = at::zeros({2, 2});
  const fs::path folder = write(1);
  EXPECT_THAT(error_of([&] { read_checkpoint(folder); }), HasSubstr("has another shape"));
}

TEST_F(CheckpointTest, NewestDamagedIsAnErrorOrLeftAside) {
  write(2);
  const fs::path newest = write(3);
  EXPECT_EQ(find_latest(root_ / "run"), newest);
  EXPECT_EQ(find_model(root_ / "run"), newest);
  flip(newest / "optimizer.safetensors", 500);
  EXPECT_THAT(error_of([&] { find_latest(root_ / "run"); }), HasSubstr("optimizer.safetensors"));
  EXPECT_THAT(error_of([&] { find_model(newest); }), HasSubstr("optimizer.safetensors"));
  std::vector<std::string> lines;
  const auto log = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(find_latest_sound(root_ / "run", log), root_ / "run/checkpoints/step-00000002");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("step-00000003/optimizer.safetensors")));
}

// What `eval`, `probe` and `generate` make of a path (cli/checkpoint.h).
TEST_F(CheckpointTest, AVerbFindsTheModelAndTheRowLengthItWasTrainedWith) {
  const fs::path folder = write(3);
  write_file_atomic(root_ / "run/run.toml", "[data]\nrow_length = 256\n");
  for (const fs::path& path : {root_ / "run", folder, folder / ""}) {
    const cli::ModelFolder model = cli::find_model(path);
    EXPECT_TRUE(fs::equivalent(model.folder, folder)) << path;
    EXPECT_EQ(cli::row_length(model), 256) << path;
    EXPECT_EQ(cli::tokenizer_file(model).filename(), "tokenizer.model");
  }
  const fs::path weights = root_ / "weights";
  fs::create_directories(weights);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy(folder / file, weights / file);
  EXPECT_FALSE(cli::row_length(cli::find_model(weights)).has_value());
  EXPECT_THAT(error_of([&] { cli::tokenizer_file(cli::find_model(weights)); }),
              HasSubstr("tokenizer.model is missing"));
  EXPECT_THAT(error_of([&] { cli::find_model(root_ / "nowhere"); }), HasSubstr("no such folder"));
  EXPECT_THAT(error_of([&] { cli::find_model(weights / "config.json"); }),
              HasSubstr("expected a folder, got a file"));
  flip(folder / "state.json", 30);
  EXPECT_THAT(error_of([&] { cli::find_model(root_ / "run"); }), HasSubstr("state.json"));
}

TEST_F(CheckpointTest, FolderWithoutStateIsAModelButNoCheckpoint) {
  const fs::path folder = write(1);
  fs::remove(folder / "state.json");
  EXPECT_EQ(find_model(folder), folder);
  EXPECT_THAT(error_of([&] { verify_checkpoint(folder); }), HasSubstr("not a whole checkpoint"));
  EXPECT_TRUE(find_latest_sound(root_ / "run", {}).empty());
  EXPECT_THAT(error_of([&] { find_latest(root_ / "nothing"); }), HasSubstr("no checkpoint"));
}

TEST_F(CheckpointTest, PruneKeepsTheNewestAndTheNamed) {
  for (int step = 1; step <= 6; ++step) write(step);
  prune_checkpoints(root_ / "run", 2, {2, 99});
  EXPECT_EQ(checkpoint_steps(root_ / "run"), (std::vector<std::int64_t>{2, 5, 6}));
  make_folder(root_ / "run/checkpoints/step-00000007.partial-1");
  remove_partial_checkpoints(root_ / "run");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "run/checkpoints"), {}), 3);
}

TEST_F(CheckpointTest, FullDiskLeavesTheOneBefore) {
  const fs::path before = write(1);
  const auto whole = verify_checkpoint(before).step;
  // A limit on file sizes fails writes like a full disk does, a few KiB into the weights.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = error_of([&] { write(2); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_THAT(text, HasSubstr("checkpoint not written, the one before is untouched"));
  EXPECT_THAT(text, HasSubstr("File too large"));
  EXPECT_EQ(verify_checkpoint(before).step, whole);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "run/checkpoints"), {}), 1);
}

TEST_F(CheckpointTest, ReplacesADamagedOneOfTheSameStep) {
  const fs::path folder = write(4);
  flip(folder / "model.safetensors", 900);
  EXPECT_EQ(write(4), folder);
  EXPECT_EQ(verify_checkpoint(folder).step, 4);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "run/checkpoints"), {}), 1);
}

}  // namespace
}  // namespace smelt::train
