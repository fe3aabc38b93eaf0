#include "smelt/train/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>

#include "smelt/core/error.h"
#include "smelt/core/file.h"
#include "smelt/core/hash.h"
#include "smelt/core/version.h"
#include "smelt/model/weights.h"

namespace smelt::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "smelt.checkpoint/1";
constexpr const char* kPartial = ".partial-";

fs::path checkpoints_folder(const fs::path& run_folder) {
  return run_folder / "checkpoints";
}

std::string partial_name(const std::string& name) {
  return name + kPartial + std::to_string(::getpid());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (code) throw Error("train", "cannot rename: " + code.message(), from.string());
}

void remove_folder(const fs::path& folder) {
  std::error_code code;
  fs::remove_all(folder, code);
  if (code) throw Error("train", "cannot delete: " + code.message(), folder.string());
}

model::NamedTensors named_moments(const model::NamedTensors& parameters, const Moments& moments) {
  model::NamedTensors named;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    named.emplace_back("first." + parameters[i].first, moments.first[i]);
    named.emplace_back("second." + parameters[i].first, moments.second[i]);
  }
  return named;
}

Moments read_moments(const fs::path& file, const model::NamedTensors& parameters) {
  std::map<std::string, at::Tensor> stored;
  for (auto& [name, tensor] : model::read_safetensors(file)) stored[name] = tensor;
  Problems problems("train", file.string());
  const auto take = [&](const std::string& name, const at::Tensor& parameter) {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      problems.add("missing tensor " + name);
      return at::Tensor();
    }
    at::Tensor tensor = found->second;
    stored.erase(found);
    if (tensor.sizes() != parameter.sizes() || tensor.scalar_type() != at::kFloat) {
      problems.add("tensor " + name + " has another shape or type than its parameter");
    }
    return tensor;
  };
  Moments moments;
  for (const auto& [name, parameter] : parameters) {
    moments.first.push_back(take("first." + name, parameter));
    moments.second.push_back(take("second." + name, parameter));
  }
  for (const auto& [name, tensor] : stored) problems.add("unexpected tensor " + name);
  problems.throw_if_any();
  return moments;
}

}  // namespace

Json program_versions() {
  return {{"smelt", version()}, {"torch", TORCH_VERSION}};
}

namespace {

Json state_json(const TrainState& state) {
  return {{"schema", kSchema},
          {"step", state.step},
          {"tokens", state.tokens},
          {"next_row", state.next_row},
          {"order_fingerprint", state.order_fingerprint},
          {"data_fingerprint", state.data_fingerprint},
          {"optimizer_updates", state.optimizer_updates},
          {"skipped_steps", state.skipped_steps},
          {"skipped_in_a_row", state.skipped_in_a_row},
          {"last_loss", state.last_loss},
          {"loss_mean", state.loss_mean},
          {"loss_square", state.loss_square},
          {"seconds", state.seconds},
          {"versions", program_versions()},
          {"run", state.identity}};
}

TrainState state_from_json(const Json& json, const std::string& name) {
  TrainState state;
  state.step = json_get<std::int64_t>(json, "step", name);
  state.tokens = json_get<std::int64_t>(json, "tokens", name);
  state.next_row = json_get<std::uint64_t>(json, "next_row", name);
  state.order_fingerprint = json_get<std::string>(json, "order_fingerprint", name);
  state.data_fingerprint = json_get<std::string>(json, "data_fingerprint", name);
  state.optimizer_updates = json_get<std::int64_t>(json, "optimizer_updates", name);
  state.skipped_steps = json_get<std::int64_t>(json, "skipped_steps", name);
  state.skipped_in_a_row = json_get<std::int64_t>(json, "skipped_in_a_row", name);
  state.last_loss = json_get<double>(json, "last_loss", name);
  state.seconds = json_get<double>(json, "seconds", name);
  state.loss_mean = json_get<double>(json, "loss_mean", name);
  state.loss_square = json_get<double>(json, "loss_square", name);
  state.identity = json_get<Json>(json, "run", name);
  state.versions = json_get<Json>(json, "versions", name);
  return state;
}

Json file_entry(const fs::path& file) {
  return {
      {"name", file.filename().string()}, {"size", fs::file_size(file)}, {"hash", hash_file(file)}};
}

void write_files(const fs::path& folder, const TrainState& state, const model::Decoder& decoder,
                 const Moments& moments, const std::string& tokenizer_model) {
  model::save_decoder(decoder, folder);
  model::write_safetensors(folder / "optimizer.safetensors",
                           named_moments(model::named_parameters(decoder), moments));
  if (!tokenizer_model.empty()) write_file_atomic(folder / "tokenizer.model", tokenizer_model);
  Json json = state_json(state);
  Json files = Json::array();
  for (const char* name :
       {"config.json", "model.safetensors", "optimizer.safetensors", "tokenizer.model"}) {
    if (fs::exists(folder / name)) files.push_back(file_entry(folder / name));
  }
  json["files"] = files;
  json["hash"] = hash_text(to_text(json));  // of everything above it
  write_file_atomic(folder / "state.json", to_text(json));
  sync_to_disk(folder);
}

/// state.json in exactly the bytes it was written with.
Json read_state_json(const fs::path& file) {
  const std::string text = read_file(file);
  Json json = parse_json(text, file.string());
  if (json_get<std::string>(json, "schema", file.string()) != kSchema) {
    throw Error("train",
                "expected schema \"" + std::string(kSchema) + "\", got " + json.at("schema").dump(),
                file.string());
  }
  const auto hash = json_get<std::string>(json, "hash", file.string());
  const bool same_text = to_text(json) == text;
  json.erase("hash");
  if (!same_text || hash_text(to_text(json)) != hash) {
    throw Error("train", "damaged: its content does not have the hash it was written with",
                file.string());
  }
  return json;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("step-{:08d}", step);
}

std::vector<std::int64_t> checkpoint_steps(const fs::path& run_folder) {
  std::vector<std::int64_t> steps;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(checkpoints_folder(run_folder), code)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("step-")) continue;
    const auto [end, failure] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (failure == std::errc() && end == name.data() + name.size()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path write_checkpoint(const fs::path& run_folder, const TrainState& state,
                          const model::Decoder& decoder, const Moments& moments,
                          const std::string& tokenizer_model) {
  const fs::path parent = checkpoints_folder(run_folder);
  const std::string name = checkpoint_name(state.step);
  const fs::path folder = parent / name;
  const fs::path aside = parent / partial_name(name);
  const fs::path replaced = parent / partial_name(name + ".replaced");
  make_folder(parent);
  remove_folder(aside);
  try {
    make_folder(aside);
    write_files(aside, state, decoder, moments, tokenizer_model);
    if (fs::exists(folder)) rename_folder(folder, replaced);  // a damaged one of the same step
    rename_folder(aside, folder);
    sync_to_disk(parent);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    throw Error("train", std::string("checkpoint not written, the one before is untouched: ") +
                             error.what());
  }
  remove_folder(replaced);
  return folder;
}

TrainState verify_checkpoint(const fs::path& checkpoint) {
  const fs::path state_file = checkpoint / "state.json";
  if (!fs::exists(state_file)) {
    throw Error("train", "no state.json: not a whole checkpoint", checkpoint.string());
  }
  const Json json = read_state_json(state_file);
  Problems problems("train", checkpoint.string());
  for (const Json& entry : json_get<Json>(json, "files", state_file.string())) {
    const fs::path file = checkpoint / json_get<std::string>(entry, "name", state_file.string());
    const auto bytes = json_get<std::uintmax_t>(entry, "size", state_file.string());
    std::error_code code;
    const std::uintmax_t found = fs::file_size(file, code);
    if (code) {
      problems.add("damaged checkpoint: missing file", file.string());
    } else if (found != bytes) {
      problems.add(fmt::format("damaged checkpoint: expected {} bytes, got {}", bytes, found),
                   file.string());
    } else if (hash_file(file) != json_get<std::string>(entry, "hash", state_file.string())) {
      problems.add("damaged checkpoint: the content has changed since it was written",
                   file.string());
    }
  }
  problems.throw_if_any();
  return state_from_json(json, state_file.string());
}

Checkpoint read_checkpoint(const fs::path& checkpoint) {
  TrainState state = verify_checkpoint(checkpoint);
  model::Decoder decoder = model::load_decoder(checkpoint);
  Moments moments =
      read_moments(checkpoint / "optimizer.safetensors", model::named_parameters(decoder));
  return {checkpoint, std::move(state), std::move(decoder), std::move(moments)};
}

fs::path find_latest(const fs::path& run_folder) {
  const auto steps = checkpoint_steps(run_folder);
  if (steps.empty()) throw Error("train", "no checkpoint in this run", run_folder.string());
  const fs::path folder = checkpoints_folder(run_folder) / checkpoint_name(steps.back());
  verify_checkpoint(folder);
  return folder;
}

fs::path find_latest_sound(const fs::path& run_folder, const LogSink& log) {
  const auto steps = checkpoint_steps(run_folder);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const fs::path folder = checkpoints_folder(run_folder) / checkpoint_name(*step);
    try {
      verify_checkpoint(folder);
      return folder;
    } catch (const Error& error) {
      if (log) log(std::string("not resumed from: ") + error.what());
    }
  }
  return {};
}

fs::path find_model(const fs::path& path) {
  if (!fs::is_directory(path)) {
    throw Error("train", fs::exists(path) ? "expected a folder, got a file" : "no such folder",
                path.string());
  }
  if (fs::exists(path / "model.safetensors")) {
    if (fs::exists(path / "state.json")) verify_checkpoint(path);
    return path;
  }
  if (fs::is_directory(checkpoints_folder(path))) return find_latest(path);
  throw Error("train",
              "neither a model (config.json and model.safetensors) nor a run with checkpoints",
              path.string());
}

void prune_checkpoints(const fs::path& run_folder, std::int64_t keep_last,
                       const std::vector<std::int64_t>& keep_steps, std::int64_t keep_every) {
  const auto steps = checkpoint_steps(run_folder);
  const auto count = static_cast<std::int64_t>(steps.size());
  for (std::int64_t i = 0; i < count - keep_last; ++i) {
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    if (std::find(keep_steps.begin(), keep_steps.end(), step) != keep_steps.end()) continue;
    if (keep_every > 0 && step % keep_every == 0) continue;
    // Out of sight first, so that no half-deleted folder is taken for a checkpoint.
    const fs::path parent = checkpoints_folder(run_folder);
    const fs::path aside = parent / partial_name(checkpoint_name(step));
    rename_folder(parent / checkpoint_name(step), aside);
    remove_folder(aside);
  }
}

void remove_partial_checkpoints(const fs::path& run_folder) {
  std::error_code code;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(checkpoints_folder(run_folder), code)) {
    if (entry.path().filename().string().find(kPartial) != std::string::npos) {
      found.push_back(entry.path());
    }
  }
  for (const fs::path& folder : found) remove_folder(folder);
}

}  // namespace smelt::train
