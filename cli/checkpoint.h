// RUN | CHECKPOINT | weights-only folder -> the folder that holds the model, with every file
// checked.
//
//   ModelFolder model = find_model("runs/a");            // its newest checkpoint
//   model::Decoder decoder = model::load_decoder(model.folder);
//   std::optional<std::int64_t> window = row_length(model);   // trained with, from run.toml
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "smelt/core/error.h"
#include "smelt/core/hash.h"
#include "smelt/core/json.h"
#include "smelt/core/toml.h"

namespace smelt::cli {

struct ModelFolder {
  std::filesystem::path folder;              // config.json and model.safetensors are here
  std::optional<std::filesystem::path> run;  // the run folder, if there is one
  std::optional<Json> state;                 // state.json; unset for a weights-only model
};

/// Checks `folder`/state.json against its own hash, and every file that it lists against size and
/// hash; throws one Error with all faults.
inline void verify_checkpoint(const std::filesystem::path& folder, const Json& state) {
  const std::string name = (folder / "state.json").string();
  if (state.contains("hash")) {  // of everything above it
    Json hashed = state;
    hashed.erase("hash");
    if (json_get<std::string>(state, "hash", name) != hash_text(to_text(hashed))) {
      throw Error("checkpoint", "damaged: its content does not match its own hash", name);
    }
  }
  Problems problems("checkpoint");
  for (const Json& entry : json_get<Json>(state, "files", name)) {
    const auto file = folder / json_get<std::string>(entry, "name", name);
    const auto size = json_get<std::uintmax_t>(entry, "size", name);
    std::error_code failed;
    const auto actual = std::filesystem::file_size(file, failed);
    if (failed) {
      problems.add("a file of the checkpoint is missing", file.string());
    } else if (actual != size) {
      problems.add(
          "damaged: expected " + std::to_string(size) + " bytes, got " + std::to_string(actual),
          file.string());
    } else if (hash_file(file) != json_get<std::string>(entry, "hash", name)) {
      problems.add("damaged: its content does not match the hash in state.json", file.string());
    }
  }
  problems.throw_if_any();
}

/// "step-" and eight digits.
inline bool is_step_folder(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.size() == 13 && name.rfind("step-", 0) == 0 &&
         std::all_of(name.begin() + 5, name.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// The newest checkpoint of a run; throws Error when it has none yet.
inline std::filesystem::path newest_checkpoint(const std::filesystem::path& run) {
  std::filesystem::path newest;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints", ignored)) {
    if (entry.is_directory() && is_step_folder(entry.path()) && entry.path() > newest) {
      newest = entry.path();
    }
  }
  if (newest.empty()) throw Error("checkpoint", "the run has no checkpoint yet", run.string());
  return newest;
}

/// Throws Error when the path holds no model, or when a file of the checkpoint is missing or
/// damaged: a damaged newest checkpoint is named, never skipped.
inline ModelFolder find_model(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) {
    throw Error("checkpoint", fs::exists(path) ? "expected a folder, got a file" : "no such folder",
                path.string());
  }
  const auto is_run = [](const fs::path& folder) {
    return fs::exists(folder / "run.toml") || fs::is_directory(folder / "checkpoints");
  };
  ModelFolder found;
  if (is_run(path)) {
    found.run = path;
    found.folder = newest_checkpoint(path);
  } else {
    found.folder = path;
    const fs::path run =
        fs::absolute(path / "").lexically_normal().parent_path().parent_path().parent_path();
    if (is_step_folder(fs::absolute(path / "").lexically_normal().parent_path()) && is_run(run)) {
      found.run = run;
    }
  }
  const fs::path state = found.folder / "state.json";
  if (fs::exists(state)) {
    found.state = read_json(state);
    verify_checkpoint(found.folder, *found.state);
  } else if (found.run) {
    throw Error("checkpoint", "damaged: state.json is missing", found.folder.string());
  }
  for (const char* needed : {"config.json", "model.safetensors"}) {
    if (fs::exists(found.folder / needed)) continue;
    throw Error("checkpoint",
                std::string("no model here: ") + needed +
                    " is missing (expected a run, a checkpoint, or a folder with config.json and "
                    "model.safetensors)",
                found.folder.string());
  }
  return found;
}

/// [data] row_length of the run's run.toml: the window it was trained with.
inline std::optional<std::int64_t> row_length(const ModelFolder& model) {
  if (!model.run || !std::filesystem::exists(*model.run / "run.toml")) return std::nullopt;
  const TomlFile file = TomlFile::read(*model.run / "run.toml");
  Problems problems("checkpoint", file.name());
  const auto length = file.root().table("data", problems).get<std::int64_t>("row_length", problems);
  problems.throw_if_any();
  return length;
}

/// The tokenizer beside the weights; throws Error that says what is missing.
inline std::filesystem::path tokenizer_file(const ModelFolder& model) {
  const auto file = model.folder / "tokenizer.model";
  if (std::filesystem::exists(file)) return file;
  throw Error("checkpoint", "no tokenizer beside the weights: tokenizer.model is missing",
              model.folder.string());
}

}  // namespace smelt::cli
