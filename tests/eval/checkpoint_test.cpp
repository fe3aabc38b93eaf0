// Which folder RUN | CHECKPOINT | weights-only model means, and what is said of damaged ones
// (cli/checkpoint.h).
#include "cli/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "smelt/core/file.h"
#include "tests/data/helpers.h"

namespace smelt::cli {
namespace {

using data::error_of;
using data::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A checkpoint of two small files and its state.json.
std::filesystem::path make_checkpoint(const TempFolder& folder, const std::string& name) {
  Json files = Json::array();
  for (const char* file : {"config.json", "model.safetensors"}) {
    const auto path = folder.write(name + "/" + file, std::string("content of ") + file);
    files.push_back(
        {{"name", file}, {"size", std::filesystem::file_size(path)}, {"hash", hash_file(path)}});
  }
  Json state = {{"step", 5}, {"files", files}};
  state["hash"] = hash_text(to_text(state));
  return folder.write(name + "/state.json", to_text(state)).parent_path();
}

TEST(FindModel, TakesTheNewestCheckpointOfARun) {
  const TempFolder folder;
  folder.write("run/run.toml", "[data]\nrow_length = 256\n");
  make_checkpoint(folder, "run/checkpoints/step-00000005");
  const auto newest = make_checkpoint(folder, "run/checkpoints/step-00000010");
  folder.write("run/checkpoints/step-00000020.tmp/x", "left over of a killed writer");
  const ModelFolder run = find_model(folder / "run");
  EXPECT_EQ(run.folder, newest);
  EXPECT_TRUE(run.state.has_value());
  EXPECT_EQ(row_length(run), 256);
  // A checkpoint knows its run, with or without a slash at the end.
  for (const char* path : {"run/checkpoints/step-00000005", "run/checkpoints/step-00000005/"}) {
    EXPECT_EQ(row_length(find_model(folder / path)), 256) << path;
  }
}

TEST(FindModel, TakesAFolderOfWeights) {
  const TempFolder folder;
  folder.write("model/config.json", "{}");
  EXPECT_THAT(error_of([&] { find_model(folder / "model"); }),
              HasSubstr("no model here: model.safetensors is missing"));
  folder.write("model/model.safetensors", "");
  const ModelFolder model = find_model(folder / "model");
  EXPECT_FALSE(model.state.has_value());
  EXPECT_FALSE(row_length(model).has_value());
  EXPECT_THAT(error_of([&] { tokenizer_file(model); }), HasSubstr("tokenizer.model is missing"));
}

TEST(FindModel, NamesWhatIsDamagedAndSkipsNothing) {
  const TempFolder folder;
  folder.write("run/run.toml", "");
  EXPECT_THAT(error_of([&] { find_model(folder / "run"); }),
              HasSubstr("the run has no checkpoint yet"));
  make_checkpoint(folder, "run/checkpoints/step-00000005");
  make_checkpoint(folder, "run/checkpoints/step-00000010");
  folder.write("run/checkpoints/step-00000010/model.safetensors", "content of model.safetensorz");
  folder.write("run/checkpoints/step-00000010/config.json", "short");
  EXPECT_THAT(
      error_of([&] { find_model(folder / "run"); }),
      AllOf(HasSubstr("expected 22 bytes, got 5 (" + (folder / "run/checkpoints").string() +
                      "/step-00000010/config.json)"),
            HasSubstr("does not match the hash in state.json"), HasSubstr("model.safetensors")));
  std::filesystem::remove(folder / "run/checkpoints/step-00000010/config.json");
  EXPECT_THAT(error_of([&] { find_model(folder / "run"); }),
              HasSubstr("a file of the checkpoint is missing"));
  std::filesystem::remove(folder / "run/checkpoints/step-00000010/state.json");
  EXPECT_THAT(error_of([&] { find_model(folder / "run"); }), HasSubstr("state.json is missing"));

  const auto other = make_checkpoint(folder, "other");
  folder.write("other/state.json", R"({"step": 6, "files": [], "hash": "00"})");
  EXPECT_THAT(error_of([&] { find_model(other); }), HasSubstr("does not match its own hash"));
  EXPECT_THAT(error_of([&] { find_model(folder / "nowhere"); }), HasSubstr("no such folder"));
  EXPECT_THAT(error_of([&] { find_model(folder / "run/run.toml"); }),
              HasSubstr("expected a folder, got a file"));
}

}  // namespace
}  // namespace smelt::cli
