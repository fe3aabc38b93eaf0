// Event files: their checksum, and what a run writes (the real TensorBoard reads it in
// tensorboard_test.py).
#include "smelt/train/tensorboard.h"

#include <gmock/gmock.h>

#include "smelt/train/checkpoint.h"
#include "smelt/train/metrics.h"
#include "tiny_run.h"

namespace smelt::train {
namespace {

TEST(TensorBoard, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);            // the check value of CRC-32C
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(TensorBoard, ScalarsOfALine) {
  const Json line = Json::parse(
      R"({"step": 3, "tokens": 96, "loss": 2.5, "domains": {"code": 1.5},
          "router": [{"layer": 2, "visit": 1, "max_load": 1.25, "entropy": 0.9, "unused": 0}]})");
  const auto all = scalars(line);
  EXPECT_THAT(all, ::testing::Contains(std::pair<std::string, double>("train/loss", 2.5)));
  EXPECT_THAT(all, ::testing::Contains(std::pair<std::string, double>("domains/code", 1.5)));
  EXPECT_THAT(all, ::testing::Contains(
                       std::pair<std::string, double>("router/layer 2, visit 1/max_load", 1.25)));
}

using TensorBoardRun = TinyRun;
TEST_F(TensorBoardRun, ARunWritesAFileOnlyOnRequest) {
  RunConfig run = config();
  train::run(run, root_ / "without");
  EXPECT_FALSE(std::filesystem::exists(root_ / "without/tensorboard"));
  run.train.tensorboard = true;
  train::run(run, root_ / "with");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root_ / "with/tensorboard")) {
    EXPECT_THAT(entry.path().filename().string(), ::testing::StartsWith("events.out.tfevents."));
    EXPECT_GT(entry.file_size(), 1000u);
    ++files;
  }
  EXPECT_EQ(files, 1);
  EXPECT_EQ(bits(find_latest(root_ / "with")), bits(find_latest(root_ / "without")));
}

}  // namespace
}  // namespace smelt::train
