// What a verb that needs a model is given: RUN | CHECKPOINT | weights-only folder.
//
//   ModelFolder model = find_model("runs/a");            // its newest checkpoint, every file
//   checked model::Decoder decoder = model::load_decoder(model.folder); std::optional<std::int64_t>
//   window = row_length(model);   // trained with, from run.toml
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "smelt/core/error.h"
#include "smelt/core/toml.h"
#include "smelt/train/checkpoint.h"

namespace smelt::cli {

struct ModelFolder {
  std::filesystem::path folder;              // config.json and model.safetensors are here
  std::optional<std::filesystem::path> run;  // the run folder, if there is one
};

/// Throws Error when the path holds no model, or when a file of the checkpoint is missing or
/// damaged: a damaged newest checkpoint is named, never skipped.
inline ModelFolder find_model(const std::filesystem::path& path) {
  ModelFolder found{train::find_model(path), std::nullopt};
  // RUN/checkpoints/step-00000123
  const auto checkpoint =
      (std::filesystem::absolute(found.folder) / "").lexically_normal().parent_path();
  const auto run = checkpoint.parent_path().parent_path();
  if (checkpoint.parent_path().filename() == "checkpoints" &&
      std::filesystem::exists(run / "run.toml")) {
    found.run = run;
  }
  return found;
}

/// [data] row_length of the run's run.toml: the window it was trained with.
inline std::optional<std::int64_t> row_length(const ModelFolder& model) {
  if (!model.run) return std::nullopt;
  const TomlFile file = TomlFile::read(*model.run / "run.toml");
  Problems problems("cli", file.name());
  const auto length = file.root().table("data", problems).get<std::int64_t>("row_length", problems);
  problems.throw_if_any();
  return length;
}

/// The tokenizer beside the weights; throws Error that says what is missing.
inline std::filesystem::path tokenizer_file(const ModelFolder& model) {
  const auto file = model.folder / "tokenizer.model";
  if (std::filesystem::exists(file)) return file;
  throw Error("cli", "no tokenizer beside the weights: tokenizer.model is missing",
              model.folder.string());
}

}  // namespace smelt::cli
